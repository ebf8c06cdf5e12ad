//go:build nodes

package agent

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

// TestSharedMemoryAndEmptyDirsComeAlong has a container that maps a file of its shared memory and has two emptyDirs, one of
// them in memory and mounted in the other. It is moved there and back.
func TestSharedMemoryAndEmptyDirsComeAlong(t *testing.T) {
	b := newBench(t)
	pod := b.newPod("counter", b.Nodes[0], cluster.Images["counter"], hold("map:/dev/shm/mapped")...)
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
	}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}, {Name: "memory", MountPath: "/scratch/memory"}}
	b.make(pod)
	b.runs(pod)
	b.counts(pod.Name, 3)
	// A sparse file of 20 GiB is larger than a checkpoint may be, unless holes are left out.
	b.run(b.Nodes[0], "cd "+b.root(b.Nodes[0], pod)+` && printf shared | dd of=dev/shm/mapped bs=1 seek=40000 conv=notrunc status=none &&
		mkdir scratch/d && echo 1 >scratch/d/.wh.file && ln scratch/d/.wh.file scratch/second && ln -s d/.wh.file scratch/link && chmod 1750 scratch &&
		truncate -s 20G scratch/sparse && printf end | dd of=scratch/sparse bs=1 seek=10G conv=notrunc status=none &&
		head -c 3M /dev/urandom >scratch/memory/random && sha256sum scratch/memory/random >scratch/sum`)
	const read = ` && dd if=dev/shm/mapped bs=1 skip=40000 count=6 status=none && cat scratch/link && stat -c %h scratch/second && stat -c %a scratch &&
		stat -c %s scratch/sparse && dd if=scratch/sparse bs=1 skip=10G count=3 status=none && sha256sum --status -c scratch/sum &&
		test $(stat -c %b scratch/sparse) -lt 100`
	const want = "shared1\n2\n1750\n21474836480\nend1\n"
	for _, to := range []*cluster.Node{b.Nodes[1], b.Nodes[0]} {
		pod = b.move(pod, to, v1alpha1.BackendContainerd)
		root := b.root(to, pod)
		if got := b.run(to, "cd "+root+read+" && grep -c ' /dev/shm/mapped$' "+filepath.Dir(root)+"/maps"); got != want {
			t.Fatalf("on %s there is %q, want %q", to.Name, got, want)
		}
		if err := workload.CheckTicks(b.counts(pod.Name, 3), 1); err != nil {
			t.Fatal(err)
		}
	}
	b.nothingLeft()
}
