package world

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// pinned returns the reason why a pod must not be moved to another node, or "". Plans of moves only consider CPU, memory,
// some extended resources, ephemeral storage, the number of pods, and volumes whose driver some node has. A pod that needs
// other resources of its node might fit no other node, and no machine is bought for such a pod: it would stay pending after
// its node is released.
func (v *View) pinned(pod *corev1.Pod) string {
	if _, name := v.asks(pod); name != "" {
		return fmt.Sprintf("it requests %s, which plans of moves do not consider", name)
	}
	if why := v.volumes.attached(pod); why != "" {
		return why
	}
	settled, why := v.volumes.settle(pod)
	if why != "" {
		return why
	}
	if what := constraint.Unsupported(settled); what != "" {
		return fmt.Sprintf("it uses %s, which plans of moves do not consider", what)
	}
	return ""
}

// attached returns the reason why the volumes of a pod keep it on its node, or "": they may have to be attached, and no
// node has their CSI driver, or its nodes are unknown, so that it is unknown how many volumes another node can attach.
// Volumes that many nodes can mount at a time are network file systems, which are not attached. A local volume has a node
// affinity that names its node.
func (v *volumes) attached(pod *corev1.Pod) string {
	for i := range pod.Spec.Volumes {
		name := claimName(pod, &pod.Spec.Volumes[i])
		claim := v.claims[pod.Namespace+"/"+name]
		if name == "" || claim == nil {
			continue // settle reports these
		}
		volume := v.volumes[claim.Spec.VolumeName]
		if volume == nil || !attachable(&volume.Spec) {
			continue
		}
		if _, known := v.counted[driverOf(&volume.Spec)]; known {
			continue // see drivers of the nodes: View.attaching
		}
		return fmt.Sprintf("volume %s of claim %s may have to be attached, and the number of volumes that other nodes can attach is unknown", volume.Name, name)
	}
	return ""
}

// readDrivers reads the CSI drivers of nodes.
func (v *volumes) readDrivers(nodes []storagev1.CSINode) {
	v.drivers, v.counted = make(map[string]map[string]int64, len(nodes)), map[string]bool{}
	for i := range nodes {
		of := make(map[string]int64, len(nodes[i].Spec.Drivers))
		for _, d := range nodes[i].Spec.Drivers {
			of[d.Name] = math.MaxInt64
			states := d.Allocatable != nil && d.Allocatable.Count != nil
			if states {
				of[d.Name] = int64(*d.Allocatable.Count)
			}
			v.counted[d.Name] = v.counted[d.Name] || states
		}
		v.drivers[nodes[i].Name] = of
	}
}

// inTree are the CSI drivers that have replaced volume plugins of Kubernetes, by the names of the plugins as provisioners.
// kube-scheduler counts such volumes as those of the driver.
var inTree = map[string]string{
	"kubernetes.io/aws-ebs": "ebs.csi.aws.com", "kubernetes.io/gce-pd": "pd.csi.storage.gke.io", "kubernetes.io/azure-disk": "disk.csi.azure.com",
	"kubernetes.io/cinder": "cinder.csi.openstack.org", "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
	"kubernetes.io/portworx-volume": "pxd.portworx.com",
}

// driverOf returns the CSI driver of a volume, or "".
func driverOf(spec *corev1.PersistentVolumeSpec) string {
	switch {
	case spec.CSI != nil:
		return spec.CSI.Driver
	case spec.AWSElasticBlockStore != nil:
		return inTree["kubernetes.io/aws-ebs"]
	case spec.GCEPersistentDisk != nil:
		return inTree["kubernetes.io/gce-pd"]
	case spec.AzureDisk != nil:
		return inTree["kubernetes.io/azure-disk"]
	case spec.Cinder != nil:
		return inTree["kubernetes.io/cinder"]
	case spec.VsphereVolume != nil:
		return inTree["kubernetes.io/vsphere-volume"]
	case spec.PortworxVolume != nil:
		return inTree["kubernetes.io/portworx-volume"]
	}
	return ""
}

// claimed is a volume of a pod as kube-scheduler counts it: once for all pods of a node that use it.
type claimed struct {
	driver, name string
	attaches     bool // it may have to be attached
}

// counts returns the volumes of a pod whose CSI driver some node has.
func (v *volumes) counts(pod *corev1.Pod) []claimed {
	if len(v.counted) == 0 {
		return nil
	}
	return slices.DeleteFunc(v.claimed(pod), func(c claimed) bool {
		_, known := v.counted[c.driver]
		return !known
	})
}

// claimed returns the volumes of a pod that have claims. A claim without a volume counts as one of the provisioner of its
// StorageClass.
func (v *volumes) claimed(pod *corev1.Pod) (all []claimed) {
	for i := range pod.Spec.Volumes {
		name := claimName(pod, &pod.Spec.Volumes[i])
		claim := v.claims[pod.Namespace+"/"+name]
		if name == "" || claim == nil {
			continue
		}
		c := claimed{name: pod.Namespace + "/" + name, attaches: true}
		if volume := v.volumes[claim.Spec.VolumeName]; volume != nil {
			c.driver, c.name, c.attaches = driverOf(&volume.Spec), volume.Name, attachable(&volume.Spec)
		} else if class := v.classOf(claim); class != nil && claim.Spec.VolumeName == "" {
			c.driver = cmp.Or(inTree[class.Provisioner], class.Provisioner)
		}
		if !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return all
}

// attaching returns the constraints of a pod with those on the volumes that its node can attach. A pod that leaves its
// node needs one that is known to have the drivers.
func (v *View) attaching(demands *constraint.Pod, pod *corev1.Pod, leaves bool) *constraint.Pod {
	counts := map[string]int64{}
	for _, c := range v.volumes.counts(pod) {
		if v.volumes.counted[c.driver] || leaves && c.attaches {
			counts[c.driver]++
		}
	}
	if len(counts) == 0 {
		return demands
	}
	needs := make([]constraint.Volumes, 0, len(counts))
	for _, driver := range slices.Sorted(maps.Keys(counts)) {
		needs = append(needs, constraint.Volumes{Driver: driver, Count: counts[driver]})
	}
	return demands.Attaching(needs, leaves)
}

// driversOn returns how many volumes the pods of a node can have, by CSI driver, if each counts all of its own; nil if the
// drivers of the node are unknown. Those of pods that run on every node are subtracted, and a volume that several pods
// share, which takes one place, is added for each further one.
func (v *View) driversOn(node string) map[string]int64 {
	of := v.volumes.drivers[node]
	if of == nil {
		return nil
	}
	all, seen := maps.Clone(of), map[claimed]bool{}
	for _, pod := range v.onNode[node] {
		for _, c := range v.volumes.counts(pod) {
			if all[c.driver] == math.MaxInt64 {
				continue
			}
			if class.EveryNode(pod) && !seen[c] {
				all[c.driver]--
			} else if !class.EveryNode(pod) && seen[c] {
				all[c.driver]++
			}
			seen[c] = true
		}
	}
	return all
}

// Attaches returns how many volumes of each CSI driver a new node can attach that is like the given ones: of those that
// have a driver, the least. It is nil if no driver of them is known.
func (w *World) Attaches(like []string) map[string]int64 {
	var all map[string]int64
	for _, node := range like {
		for driver, most := range w.volumes.drivers[node] {
			if all == nil {
				all = map[string]int64{}
			}
			if known, is := all[driver]; !is || most < known {
				all[driver] = most
			}
		}
	}
	return all
}

// attachable reports whether a volume may count against a node's limit of attached volumes. Unknown kinds may.
func attachable(spec *corev1.PersistentVolumeSpec) bool {
	switch {
	case spec.CSI != nil && isNetworkFileSystem(spec.CSI.Driver):
		return false
	case spec.NFS != nil, spec.HostPath != nil, spec.Local != nil, spec.CephFS != nil, spec.Glusterfs != nil, spec.AzureFile != nil:
		return false
	case spec.VolumeMode != nil && *spec.VolumeMode == corev1.PersistentVolumeBlock:
		return true
	}
	return !slices.ContainsFunc(spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
	})
}

// networkFileSystems are the CSI drivers whose volumes nodes mount over the network, for any access mode.
var networkFileSystems = []string{
	"nfs.csi.k8s.io", "smb.csi.k8s.io", "efs.csi.aws.com", "file.csi.azure.com", "filestore.csi.storage.gke.io", "cephfs.csi.ceph.com",
}

// isNetworkFileSystem reports whether nothing is attached to a node for volumes of a CSI driver. Rook puts the name of its
// namespace before that of a driver.
func isNetworkFileSystem(driver string) bool {
	return slices.Contains(networkFileSystems, driver) || strings.HasSuffix(driver, ".cephfs.csi.ceph.com")
}
