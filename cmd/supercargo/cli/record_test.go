package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/cli/objects"
	"supercargo.dev/supercargo/cli/record"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/commandtest"
	"supercargo.dev/supercargo/test/kit/promserver"
	"supercargo.dev/supercargo/test/kit/testfile"
)

func TestRecordRefusesWhatItCannotDo(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.csv")
	precious := commandtest.File(t, "precious\n")
	none := filepath.Join(dir, "no-kubeconfig")
	for _, tc := range []struct {
		name string
		args []string
		says []string
	}{
		{"no file", nil, []string{"--output-file is required", "week.csv"}},
		{"a folder", []string{"--output-file", dir}, []string{"--output-file", "is a directory"}},
		{"somebody's file", []string{"-o", precious}, []string{"--output-file", "is not a recording"}},
		{"a format", []string{"-o", "json"}, []string{"-o json: ", "use --output-file"}},
		{"two files", []string{"-o", path, "--output-file", path}, []string{"output-file"}},
		{"no time", []string{"-o", path, "--duration", "soon"}, []string{"--duration", "24h or 7d"}},
		{"a negative time", []string{"-o", path, "--duration=-1h"}, []string{"0 or more"}},
		{"no prices", []string{"-o", path, "--prices", "none.csv"}, []string{"--prices", "none.csv"}},
		{"the past without a server", []string{"-o", path, "--since", "7d"}, []string{"--since", "--prometheus"}},
		{"the past for a time", []string{"-o", path, "--prometheus", "http://localhost:1", "--for", "1h"}, []string{"--duration", "--since"}},
		{"a server that is none", []string{"-o", path, "--prometheus", "ftp://x"}, []string{"--prometheus"}},
		{"no past", []string{"-o", path, "--prometheus", "http://localhost:1", "--since", "0s"}, []string{"--since"}},
		{"no cluster", []string{"-o", path, "--kubeconfig", none}, []string{"load the kubeconfig"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := supercargo(t, "", append([]string{"record"}, tc.args...)...)
			if code != command.ExitUsage || stdout != "" {
				t.Errorf("exit code %d with %q on stdout, want %d and nothing", code, stdout, command.ExitUsage)
			}
			for _, says := range tc.says {
				if !strings.Contains(stderr, says) {
					t.Errorf("stderr is %q, want it to mention %q", stderr, says)
				}
			}
		})
	}
}

// TestThePastOfAServerIsRecordedAndPlayed records an hour with a pod of a Job on one node.
func TestThePastOfAServerIsRecordedAndPlayed(t *testing.T) {
	s := promserver.Start(t)
	begin := time.Now().Add(-50 * time.Minute).Truncate(time.Minute)
	pod := []string{"namespace", "jobs", "pod", "work-0", "uid", "u"}
	for i := range 50 {
		at := begin.Add(time.Duration(i) * time.Minute)
		put := func(value float64, metric string, series ...string) {
			s.Put(at, value, append([]string{"__name__", metric}, series...)...)
		}
		put(float64(begin.Unix()), "kube_node_created", "node", "n")
		for resource, amount := range map[string]float64{"cpu": 4, "memory": 16 << 30, "pods": 110} {
			put(amount, "kube_node_status_allocatable", "node", "n", "resource", resource)
		}
		put(1, "kube_node_labels", "node", "n", "label_node_kubernetes_io_instance_type", "m5.xlarge")
		put(float64(begin.Unix()), "kube_pod_created", pod...)
		put(float64(begin.Unix()), "kube_pod_start_time", pod...)
		put(1, "kube_pod_info", append(pod, "node", "n")...)
		put(1, "kube_pod_owner", append(pod, "owner_kind", "Job", "owner_is_controller", "true")...)
		put(1, "kube_pod_container_resource_requests", append(pod, "container", "c", "resource", "cpu")...)
		put(1<<30, "kube_pod_container_resource_requests", append(pod, "container", "c", "resource", "memory")...)
		if i >= 20 {
			put(float64(begin.Add(20*time.Minute).Unix()), "kube_pod_completion_time", pod...)
		}
	}
	path := filepath.Join(t.TempDir(), "hour.csv")
	prices := commandtest.File(t, "name,cpu,memory_gib,price_per_hour\nm5.xlarge,4,16,0.192\n")
	args := []string{"record", "--output-file", path, "--prometheus", s.URL, "--since", "1h", "--prices", prices}
	if code, _, stderr := supercargo(t, "", args...); code != command.ExitOK || !strings.Contains(stderr, "supercargo simulate -f") || !strings.Contains(stderr, "The metrics have neither affinity nor other limits") {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	code, stdout, stderr := supercargo(t, "", "simulate", "-f", path, "--policy", "default")
	if code != command.ExitOK || !strings.Contains(stderr, "1 node cost $") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	before := testfile.Read(t, path)
	if code, _, stderr := supercargo(t, "", args...); code != command.ExitUsage || !strings.Contains(stderr, "use another file") {
		t.Errorf("a second time: exit code %d: %s", code, stderr)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the file has changed (%v)", err)
	}
}

// TestANodeThatStartsIsNotSaidToHaveNoPrice: its cloud may label it with its instance type a moment later.
func TestANodeThatStartsIsNotSaidToHaveNoPrice(t *testing.T) {
	file, err := record.OpenFile(filepath.Join(t.TempDir(), "r.csv"), false)
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	price := pricesOfNodes(&objects.Objects{}, nil, file, &said)
	node := fixtures.CloudNode("n", "", func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Effect: corev1.TaintEffectNoSchedule}}
	})
	if got := price(&node); got != nil || said.Len() > 0 {
		t.Errorf("%v, %q; want no price, and nothing said", got, said.String())
	}
	node.Spec.Taints = nil
	if got := price(&node); got != nil || !strings.Contains(said.String(), "the price of node n is unknown: it has no label node.kubernetes.io/instance-type") {
		t.Errorf("%v, %q; want no price, and why", got, said.String())
	}
}

// TestANodeWithoutAnInstanceTypeHasThePriceOfItsNameInTheRecording: its name there is its size. Else the message has the name.
func TestANodeWithoutAnInstanceTypeHasThePriceOfItsNameInTheRecording(t *testing.T) {
	file, err := record.OpenFile(filepath.Join(t.TempDir(), "r.csv"), false)
	if err != nil {
		t.Fatal(err)
	}
	rack := fixtures.Node("rack", 64_000, 256<<30, func(n *corev1.Node) { n.Status.Capacity = n.Status.Allocatable })
	var said strings.Builder
	own := []catalogue.Price{{Flavor: catalogue.Flavor{Flavor: cluster.Flavor{Name: "cpu-64-memory-256gi", MicroDollarsPerHour: 1_900_000}}}}
	if price := pricesOfNodes(&objects.Objects{}, own, file, &said)(rack); price == nil || *price != 1_900_000 || said.Len() > 0 {
		t.Errorf("%v, %q; want $1.9 and nothing said", price, said.String())
	}
	if price := pricesOfNodes(&objects.Objects{}, nil, file, &said)(rack); price != nil || !strings.Contains(said.String(), "; --prices can set it, as the price of cpu-64-memory-256gi\n") {
		t.Errorf("%v, %q; want no price, and its name in --prices", price, said.String())
	}
	said.Reset()
	virtual := fixtures.CloudNode("v", "", func(n *corev1.Node) { n.Labels["type"] = "virtual-kubelet" })
	if pricesOfNodes(&objects.Objects{}, own, file, &said)(&virtual); !strings.Contains(said.String(), "; its annotation supercargo.dev/price-per-hour can set it\n") {
		t.Errorf("%q, want what can set the price of a node whose provider bills pods", said.String())
	}
}
