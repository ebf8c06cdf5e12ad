package powerquery

import "testing"

func TestWorkloadsOfPods(t *testing.T) {
	for pod, want := range map[string]string{
		"web-6c5bd9f4b8-x7k2p": "web", "train-0-bcdfg": "train", "train-bcdfg": "train", "db-0": "db", "nightly-28374650-bcdfg": "nightly",
		"supercargo-node-agent-7k2px": "supercargo-node-agent", "my-pod": "my-pod", "single": "single", "api-v2": "api-v2", "": "",
	} {
		if got := stem(pod); got != want {
			t.Errorf("%s is one of %q, want %q", pod, got, want)
		}
	}
	tests := []struct{ kind, name, want string }{
		{"ReplicaSet", "web-6c5bd9f4b8", "web"}, {"ReplicaSet", "web", "web"}, {"Job", "nightly-28374650", "nightly"}, {"Job", "train", "train"},
		{"StatefulSet", "db", "db"}, {"DaemonSet", "agent-6c5bd9f4b8", "agent-6c5bd9f4b8"}, {"<none>", "<none>", ""}, {"", "", ""},
	}
	for _, tc := range tests {
		if got := workloadOf(tc.kind, tc.name); got != tc.want {
			t.Errorf("%s %s is %q, want %q", tc.kind, tc.name, got, tc.want)
		}
	}
}
