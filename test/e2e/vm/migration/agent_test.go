//go:build vm

package migration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/moves"
	"supercargo.dev/supercargo/test/e2e/vm/machine"
)

// nothingFrozen checks that no control group of pods is frozen on a machine.
func (w *town) nothingFrozen(on *machine.Machine) {
	w.Helper()
	out, err := on.Run(w.Context(), "set -eu; all=$(find /sys/fs/cgroup/kubepods.slice -name cgroup.freeze); awk '$1 == 1 { print FILENAME }' $all")
	if err != nil {
		w.Fatal(err)
	}
	if text := strings.TrimSpace(string(out)); text != "" {
		w.Errorf("control groups of %s are frozen: %s", on.Name, text)
	}
}

func TestAnAgentThatSystemdStopsLeavesNothingFrozenAndTheNextOneContinues(t *testing.T) {
	w := twoOf(t, older, older)
	w.starts(w.first, w.Pod("counter", cluster.Images["counter"]))
	stopped := w.whenFrozen("systemctl stop node-agent")
	before := w.follow("counter")
	m := w.moves("counter")
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	w.nothingFrozen(w.first)
	w.Counts("counter", len(before.ticks())+5) // no agent runs that would thaw it
	if _, err := w.first.Run(w.Context(), "systemctl start node-agent"); err != nil {
		t.Fatal(err)
	}
	m = w.Succeeded(m)
	w.LogDuration(m)
	w.continues(before, m.Status.Plan.RestoredPod)
}

func TestAContainerContinuesWhenItsMigrationIsDeletedWhileItIsFrozen(t *testing.T) {
	w := twoOf(t, older, older)
	w.starts(w.first, w.Pod("counter", cluster.Images["counter"]))
	before := w.follow("counter")
	m := w.moves("counter")
	w.Until(m, "is frozen", func(m *v1alpha1.Migration) error {
		if m.Status.Source == nil || m.Status.Source.FrozenAt == nil {
			return fmt.Errorf("the source says %+v", m.Status.Source)
		}
		return nil
	})
	if err := w.cluster.Objects.Delete(w.Context(), m); err != nil {
		t.Fatal(err)
	}
	w.MigrationGone(m)
	w.nothingFrozen(w.first)
	w.whole("counter", before)
}

func TestFilesOfAContainerMoveWithIt(t *testing.T) {
	w := twoOf(t, older, older)
	w.starts(w.first, w.Pod("counter", cluster.Images["counter"]))
	inRoot := func(pod, script string) string {
		t.Helper()
		p := w.Get(pod)
		id := strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")
		out, err := w.cluster.Machine(p.Spec.NodeName).Run(w.Context(), "set -e; cd /run/containerd/io.containerd.runtime.v2.task/k8s.io/"+id+"/rootfs\n"+script)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	inRoot("counter", "mkdir data; echo kept >data/file; ln -s file data/link; chmod 640 data/file; chown 1000:2000 data/file")
	m := w.Succeeded(w.moves("counter"))
	if got, want := inRoot(m.Status.Plan.RestoredPod, "cat data/link; stat -c '%a %u %g' data/file"), "kept\n640 1000 2000\n"; got != want {
		t.Errorf("on the other machine there is %q, want %q", got, want)
	}
}

// workFolder is the work folder of the agents, a tmpfs.
const workFolder = "/run/supercargo/agent"

// fills returns a command that takes the free space of the work folder, except for some bytes. The files have numbers
// from 1 as names.
func fills(number, except int) string {
	return fmt.Sprintf("fallocate -l $(($(df --output=avail -B1 %[1]s | tail -n 1) - %[3]d)) %[1]s/%[2]d", workFolder, number, except)
}

func TestAContainerContinuesWhenItsMigrationFindsTheWorkFolderFull(t *testing.T) {
	w := twoOf(t, older, older)
	pod := w.Pod("counter", cluster.Images["counter"])
	pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: "MB", Value: "32"})
	w.starts(w.first, pod)
	before := w.follow("counter")
	on := func(command string) {
		t.Helper()
		if _, err := w.first.Run(w.Context(), command); err != nil {
			t.Fatal(err)
		}
	}
	on(fills(1, 16<<20))
	m := w.End(w.moves("counter"))
	if m.Status.Phase != v1alpha1.MigrationRefused || m.Status.Source == nil || m.Status.Source.FrozenAt != nil || !strings.Contains(moves.EndMessage(m), v1alpha1.MigrationReasonNoRoom) {
		t.Errorf("the folder was full before: the migration ended as %s: %s; the source says %+v; want it Refused without a freeze, and NoRoom", m.Status.Phase, moves.EndMessage(m), m.Status.Source)
	}

	on("rm " + workFolder + "/1; " + fills(1, 48<<20)) // fallocate takes longer for more than a dump does
	filled := w.whenFrozen(fills(2, 0))
	w.RolledBack(w.moves("counter"), "work folder is full")
	if err := <-filled; err != nil {
		t.Fatal(err)
	}
	w.nothingFrozen(w.first)
	w.whole("counter", before)

	on("rm " + workFolder + "/1 " + workFolder + "/2")
	m = w.Succeeded(w.moves("counter"))
	w.continues(before, m.Status.Plan.RestoredPod)
}
