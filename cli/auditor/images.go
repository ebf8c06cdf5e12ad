package auditor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/text/plural"
)

// images are the architectures on which images have been seen running, by image.
type images map[string]map[string]bool

// archOf returns the CPU architecture of a node, as in GOARCH; empty if unknown.
func archOf(node *corev1.Node) string {
	return cmp.Or(node.Labels[corev1.LabelArchStable], node.Labels["beta.kubernetes.io/arch"], node.Status.NodeInfo.Architecture)
}

// readImages reads on which architectures images run. An image whose container does not run there, because it lacks the
// architecture or for another reason, has not been seen there.
func (b *observer) readImages() {
	b.images, b.archs = images{}, map[string]bool{}
	of := make(map[string]string, len(b.objects.Nodes))
	for i := range b.objects.Nodes {
		node := &b.objects.Nodes[i]
		if of[node.Name] = archOf(node); of[node.Name] != "" {
			b.archs[of[node.Name]] = true
		}
	}
	for _, arch := range b.options.Archs {
		b.archs[arch] = true
	}
	for i := range b.objects.Pods {
		pod := &b.objects.Pods[i]
		arch := of[pod.Spec.NodeName]
		if arch == "" || pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != corev1.PodSucceeded {
			continue
		}
		fails := map[string]bool{}
		for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			fails[s.Name] = s.State.Waiting != nil
		}
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			if fails[c.Name] {
				continue
			}
			if b.images[c.Image] == nil {
				b.images[c.Image] = map[string]bool{}
			}
			b.images[c.Image][arch] = true
		}
	}
}

// bindArch binds a pod to the architecture of its node unless all of its images run on every architecture that machines
// may have: those of the nodes, and those of which the user states that images have them.
func (b *observer) bindArch(p *cluster.Pod, own string) {
	if p.Arch != "" {
		return
	}
	for arch := range b.archs {
		if arch != own && !slices.Contains(b.options.Archs, arch) && slices.ContainsFunc(p.Images, func(image string) bool { return !b.images[image][arch] }) {
			p.Arch = own
			return
		}
	}
}

// on returns the number of images that have been seen on one architecture alone.
func (i images) on(arch string) (n int) {
	for _, seen := range i {
		if seen[arch] && len(seen) == 1 {
			n++
		}
	}
	return n
}

// noteArchs adds what is left out because images have not been seen on an architecture.
func (b *observer) noteArchs(otherArchs map[string]bool) {
	own := slices.Sorted(maps.Keys(b.archs))
	for _, arch := range slices.Sorted(maps.Keys(otherArchs)) {
		if b.archs[arch] || len(own) == 0 {
			continue
		}
		why := "no node has that architecture"
		if n := len(b.images); len(own) == 1 && n > 0 {
			why = fmt.Sprintf("%s %s seen on %s only", plural.All(n, "image"), plural.Form(n, "was", "were"), own[0])
		}
		b.notef("Types of %s are left out: %s. --arch %s includes them.", arch, why, arch)
	}
	if len(own) < 2 {
		return
	}
	for _, arch := range own {
		others := slices.ContainsFunc(own, func(other string) bool { return other != arch && !slices.Contains(b.options.Archs, other) })
		if n := b.images.on(arch); n > 0 && others {
			b.notef("%d of %s %s seen on %s only: %s pods are planned for %s alone. --arch with another architecture plans them for it, too.",
				n, plural.Count(len(b.images), "image"), plural.Form(n, "was", "were"), arch, plural.Form(n, "its", "their"), arch)
		}
	}
}
