package containerd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/test/kit/testfile"
)

const (
	version1 = "12:pids:/kube/pod1/id\n3:freezer:/kube/pod1/id\n0::/system.slice/containerd.service\n"
	version2 = "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-id.scope\n"
)

// cgrouped gives a client a node on which process 42 is in the control groups of text, with these files.
func cgrouped(t *testing.T, c *Client, text string, files map[string]string) *Client {
	t.Helper()
	root := t.TempDir()
	c.HostRoot, c.Proc, c.Clock = root, filepath.Join(root, "proc"), clock.RealClock{}
	for name, text := range files {
		name = filepath.Join(root, "sys/fs/cgroup", name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		testfile.Write(t, name, text)
	}
	if err := os.MkdirAll(filepath.Join(c.Proc, "42"), 0o700); err != nil {
		t.Fatal(err)
	}
	testfile.Write(t, filepath.Join(c.Proc, "42", "cgroup"), text)
	return c
}

func TestTheFreezerIsThatOfTheContainer(t *testing.T) {
	const fs = "/sys/fs/cgroup"
	for name, tc := range map[string]struct {
		text, want string
		unified    bool
	}{
		"version 1":                              {version1, fs + "/freezer/kube/pod1/id", false},
		"version 1, mounted with another":        {"3:cpu,freezer:/kube/pod1/id\n", fs + "/freezer/kube/pod1/id", false},
		"version 2":                              {version2, fs + "/kubepods.slice/kubepods-pod1.slice/cri-containerd-id.scope", true},
		"a group that the container made":        {"0::/kube/pod1/id/own/group\n", fs + "/kube/pod1/id", true},
		"both versions, the freezer in the old":  {"0::/elsewhere/id\n3:freezer:/kube/id\n", fs + "/freezer/kube/id", false},
		"both versions, the freezer in the new":  {"3:name=systemd:/x/id\n0::/kube/id\n", fs + "/kube/id", true},
		"another container, or none":             {"0::/kube/pod1/other\n", "", false},
		"outside of the namespace of this agent": {"0::/../kube/pod1/id\n", "", false},
		"no control group":                       {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := cgrouped(t, &Client{}, tc.text, nil)
			f, err := c.freezerOf(42, "id")
			if tc.want == "" {
				if err == nil {
					t.Errorf("it is %+v", f)
				}
				return
			}
			if want := c.HostRoot + tc.want; err != nil || f.dir != want || f.unified != tc.unified {
				t.Errorf("it is %+v (%v), want %s, version 2: %v", f, err, want, tc.unified)
			}
		})
	}
	if _, err := cgrouped(t, &Client{}, version1, nil).freezerOf(42, ""); err == nil {
		t.Error("a container without an ID has a freezer")
	}
	if _, err := cgrouped(t, &Client{}, version1, nil).freezerOf(43, "id"); !ended(err) {
		t.Errorf("of a process that has ended it says %v", err)
	}
}

func TestWhetherAContainerIsFrozenIsReadFromItsControlGroup(t *testing.T) {
	for name, tc := range map[string]struct {
		text  string
		files map[string]string
		want  checkpoint.State
	}{
		"version 1, thawed":   {version1, map[string]string{"freezer.state": "THAWED\n"}, checkpoint.Running},
		"version 1, freezing": {version1, map[string]string{"freezer.state": "FREEZING\n", "freezer.self_freezing": "1\n"}, checkpoint.Running},
		"version 1, frozen":   {version1, map[string]string{"freezer.state": "FROZEN\n", "freezer.self_freezing": "1\n"}, checkpoint.Frozen},
		"version 1, its parent is frozen": {version1, map[string]string{
			"freezer.state": "FROZEN\n", "freezer.self_freezing": "0\n", "freezer.parent_freezing": "1\n",
		}, checkpoint.Running},
		"version 1, an old kernel": {version1, map[string]string{"freezer.state": "FROZEN\n"}, checkpoint.Frozen},
		"version 2, thawed":        {version2, map[string]string{"cgroup.freeze": "0\n", "cgroup.events": "populated 1\nfrozen 0\n"}, checkpoint.Running},
		"version 2, freezing":      {version2, map[string]string{"cgroup.freeze": "1\n", "cgroup.events": "populated 1\nfrozen 0\n"}, checkpoint.Running},
		"version 2, frozen":        {version2, map[string]string{"cgroup.freeze": "1\n", "cgroup.events": "populated 1\nfrozen 1\n"}, checkpoint.Frozen},
		"version 2, its parent is frozen": {version2, map[string]string{
			"cgroup.freeze": "0\n", "cgroup.events": "populated 1\nfrozen 1\n",
		}, checkpoint.Running},
	} {
		t.Run(name, func(t *testing.T) {
			dir := map[string]string{version1: "freezer/kube/pod1/id/", version2: "kubepods.slice/kubepods-pod1.slice/cri-containerd-id.scope/"}[tc.text]
			files := map[string]string{}
			for file, text := range tc.files {
				files[dir+file] = text
			}
			c := cgrouped(t, owned(), tc.text, files)
			if got, err := c.State(t.Context(), container); err != nil || got != tc.want {
				t.Errorf("the container is %q (%v), want %q", got, err, tc.want)
			}
		})
	}
}

// TestAFreezeThatFailsLeavesTheContainerRunning has a control group that is never frozen.
func TestAFreezeThatFailsLeavesTheContainerRunning(t *testing.T) {
	for text, files := range map[string][2]string{
		version1: {"freezer/kube/pod1/id/freezer.self_freezing", "0\n"},
		version2: {"kubepods.slice/kubepods-pod1.slice/cri-containerd-id.scope/cgroup.events", "populated 1\nfrozen 0\n"},
	} {
		order, thawed := filepath.Join(filepath.Dir(files[0]), "freezer.state"), "THAWED"
		if text == version2 {
			order, thawed = filepath.Join(filepath.Dir(files[0]), "cgroup.freeze"), "0"
		}
		c := cgrouped(t, &Client{}, text, map[string]string{files[0]: files[1], order: thawed})
		f, err := c.freezerOf(42, "id")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := f.freeze(ctx, c.Clock); err == nil {
			t.Errorf("%s: it was frozen", f.dir)
		}
		if got, err := os.ReadFile(filepath.Join(c.HostRoot, "sys/fs/cgroup", order)); err != nil || string(got) != thawed {
			t.Errorf("%s is %q (%v), want %q", order, got, err, thawed)
		}
	}
}

// TestAnOrderToFreezeIsRepeated with version 1, and from time to time from the beginning.
func TestAnOrderToFreezeIsRepeated(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "freezer.state") // a pipe, which keeps all that is written
	if err := unix.Mkfifo(state, 0o600); err != nil {
		t.Fatal(err)
	}
	written, err := unix.Open(state, unix.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(written) //nolint:errcheck // nothing is lost
	for _, tc := range []struct {
		unified bool
		tries   int
		want    string
	}{{false, 1, "FROZEN"}, {false, 49, "FROZEN"}, {false, 50, "THAWEDFROZEN"}, {false, 51, "FROZEN"}, {false, 100, "THAWEDFROZEN"}, {true, 50, ""}} {
		if err := (freezer{dir: dir, unified: tc.unified}).again(tc.tries); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 100)
		n, err := unix.Read(written, got)
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			t.Fatal(err)
		}
		if string(got[:max(n, 0)]) != tc.want {
			t.Errorf("after %d tries (version 2: %t) it writes %q, want %q", tc.tries, tc.unified, got[:max(n, 0)], tc.want)
		}
	}
}
