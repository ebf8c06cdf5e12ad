package openstack

import (
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster/extended"
)

// Nova does not know Kubernetes' names of devices: those of the device plugins that are usual for GPUs are presumed.
const (
	nvidia corev1.ResourceName = "nvidia.com/gpu"
	amd    corev1.ResourceName = "amd.com/gpu"
)

// usablePercent is the presumed part of the root disk that pods can use. A kubelet evicts pods when less than 10 % of it is free,
// and the file system and the image take some.
const usablePercent = 85

const gibibyte = 1 << 30

// presume sets what the flavor says of the extended resources and the ephemeral storage of a server.
func (o *offer) presume(f *provider.Flavor) {
	f.Presumed, f.Extended = true, gpusOf(o.nova.ExtraSpecs)
	if o.nova.Disk > 0 {
		f.EphemeralStorage = new(int64(o.nova.Disk) * gibibyte / 100 * usablePercent)
	}
}

// setResources sets what the node of a server can allocate. GPUs that are presumed stay if it has none: their driver may not have
// published them yet.
func setResources(f *provider.Flavor, allocatable corev1.ResourceList) {
	seen := extended.Amounts(allocatable)
	for name := range seen {
		if extended.IsGPU(name) {
			f.Extended = nil
		}
	}
	for name, amount := range seen {
		if f.Extended == nil {
			f.Extended = map[corev1.ResourceName]int64{}
		}
		f.Extended[name] = amount
	}
	f.EphemeralStorage, f.Presumed = nil, false
	if disk, stated := allocatable[corev1.ResourceEphemeralStorage]; stated {
		f.EphemeralStorage = new(disk.Value())
	}
}

// virtualGPUs matches the keys of extra specs that request virtual GPUs, in any of the groups of resources.
var virtualGPUs = regexp.MustCompile(`^resources([0-9]+|_[A-Za-z0-9_-]+)?:VGPU$`)

// gpusOf returns the GPUs that the extra specs of a flavor request, by the name of their resource; nil if there are none. Virtual
// GPUs and PCI devices whose alias contains gpu or nvidia count as NVIDIA's, those whose alias contains gpu and amd as AMD's. What
// other aliases stand for is unknown.
func gpusOf(specs map[string]string) map[corev1.ResourceName]int64 {
	all := map[corev1.ResourceName]int64{}
	add := func(name corev1.ResourceName, text string) {
		if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 16); err == nil && n > 0 {
			all[name] += n
		}
	}
	for key, value := range specs {
		if virtualGPUs.MatchString(key) {
			add(nvidia, value)
		}
	}
	for entry := range strings.SplitSeq(specs["pci_passthrough:alias"], ",") {
		alias, n, _ := strings.Cut(entry, ":")
		switch alias = strings.ToLower(alias); {
		case strings.Contains(alias, "gpu") && strings.Contains(alias, "amd"):
			add(amd, n)
		case strings.Contains(alias, "gpu") || strings.Contains(alias, "nvidia"):
			add(nvidia, n)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}
