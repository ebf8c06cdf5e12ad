package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/descheduler/agent/detect"
	"supercargo.dev/supercargo/descheduler/checkpoint/containerd"
)

func TestANodeWithoutContainerdMovesNoPods(t *testing.T) {
	dir := t.TempDir() // with a CRIU that works, which alone is not enough
	if err := os.WriteFile(filepath.Join(dir, "criu"), []byte("#!/bin/sh\n[ \"$1\" != --version ] || echo 'Version: 4.2.1'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	n := &node{Options: &Options{Log: logr.Discard()}, host: detect.Host{Root: "/", CRIU: "criu", Path: dir + ":/bin:/usr/bin"}}
	defer n.close()
	if err := errors.Join(n.open(1), n.answers(t.Context())); err != nil {
		t.Error(err)
	}
	can, err := n.capability(t.Context(), &corev1.Node{})
	if err != nil || len(can.Backends) > 0 || can.Restore {
		t.Errorf("it can do %+v, error %v; want nothing", can, err)
	}
	if all := n.backends(); len(all) > 0 {
		t.Errorf("it has %d back-ends, want none", len(all))
	}
}

// TestACheckThatIsStoppedSaysNothingAboutTheNode: whatever stops the agent may also stop the
// programs that it has started.
func TestACheckThatIsStoppedSaysNothingAboutTheNode(t *testing.T) {
	for name, tc := range map[string]struct {
		script  string
		stopped bool
	}{
		"it finds that something is missing": {"exit 1", false},
		"it crashes":                         {"kill -SEGV $$", false},
		"it is asked to end":                 {"kill -TERM $$", true},
		"it is killed":                       {"kill -KILL $$", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = --version ] && echo 'Version: 4.2.1' && exit\n%s\n", tc.script)
			if err := os.WriteFile(filepath.Join(dir, "criu"), []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			client, err := containerd.New(containerd.Options{Socket: filepath.Join(dir, "none.sock"), Clock: clock.RealClock{}})
			if err != nil {
				t.Fatal(err)
			}
			n := &node{Options: &Options{Log: logr.Discard()}, host: detect.Host{Root: "/", CRIU: "criu", Path: dir + ":/bin:/usr/bin"}, containerd: client}
			defer n.close()
			can, err := n.capability(t.Context(), &corev1.Node{})
			if (err != nil) != tc.stopped {
				t.Errorf("the node can do %+v, error %v; want an error: %v", can, err, tc.stopped)
			}
			if err == nil && len(can.Backends) > 0 {
				t.Errorf("a node whose CRIU does not work can do %v", can.Backends)
			}
		})
	}
}
