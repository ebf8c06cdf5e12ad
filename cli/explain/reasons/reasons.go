// Package reasons says what the messages of kube-scheduler mean for the owner of a pod that it cannot place.
package reasons

import (
	"slices"
	"strings"
)

// Answer is what is known about a reason.
type Answer struct {
	// Plugin is the plugin of kube-scheduler that gives the reason.
	Plugin string
	// Helps is what the owner of the pod or of the nodes can change.
	Helps string
}

// entry is an answer to the messages that contain a text.
type entry struct {
	text string
	Answer
}

// Of returns the answer to a message or to a part of one, and whether there is one. Of several, it is the one whose text
// comes first in the table.
func Of(message string) (Answer, bool) {
	at := entryOf(message)
	if at < 0 {
		return Answer{}, false
	}
	return table[at].Answer, true
}

// entryOf returns the index of the first entry of the table whose text a message contains, or -1.
func entryOf(message string) int {
	return slices.IndexFunc(table, func(e entry) bool { return strings.Contains(message, e.text) })
}

// The plugins that give several reasons.
const (
	volumeBinding = "VolumeBinding"
	volumeZone    = "VolumeZone"
	affinity      = "InterPodAffinity"
	devices       = "DynamicResources"
	gangs         = "GangScheduling"
	fit           = "NodeResourcesFit"
	staging       = "CheckpointStaging"
)

// The answers to several reasons.
const (
	waitForClaim = "nothing has to be changed, unless it lasts: kube-controller-manager creates the claim"
	seeClaim     = "kubectl describe pvc says what the claim waits for"
	seeDevices   = "another device, a less demanding request in the claim, or a node whose driver publishes such devices (kubectl get resourceslices)"
	// existingClaim is for claims that do not exist or are being deleted.
	existingClaim = "a claim of that name that is not being deleted, or another name in the pod"
	waitForGang   = "the missing pods of the gang: it is scheduled as a whole or not at all"
)

// table has an answer to each reason of the plugins of Kubernetes and of Supercargo. The more special texts come first.
var table = []entry{
	{"node(s) were unschedulable", Answer{"NodeUnschedulable", "other nodes, or the end of the cordon: kubectl uncordon, if nobody drains the node"}},
	{"node(s) had unknown conditions", Answer{"NodeUnschedulable", "another attempt: the node has just been removed"}},
	{"didn't match the requested node name", Answer{"NodeName", "a pod without spec.nodeName"}},
	{"pod assigned to different node", Answer{"NodeName", "a pod without spec.nodeName"}},
	{"untolerated taint", Answer{"TaintToleration", "a toleration in the pod, or nodes without the taint"}},
	{"had taints that the pod didn't tolerate", Answer{"TaintToleration", "a toleration in the pod, or nodes without the taint"}},
	{"didn't match Pod's node affinity/selector", Answer{"NodeAffinity", "a node with the labels that nodeSelector and node affinity name, or other values in the pod"}},
	{"didn't match scheduler-enforced node affinity", Answer{"NodeAffinity", "other nodes: the scheduler's configuration (addedAffinity) excludes these"}},
	{"pod affinity terms conflict", Answer{"NodeAffinity", "other terms: no node can match those of the pod together"}},
	{"node(s) didn't satisfy plugin(s)", Answer{"a plugin that chose nodes before the others", "a pod whose node affinity to metadata.name names these nodes, or none"}},
	{"didn't have free ports for the requested pod ports", Answer{"NodePorts", "another hostPort, or nodes on which no pod has it"}},

	{"Too many pods", Answer{fit, "nodes with free pod slots, or a higher maxPods of their kubelets"}},
	{"Insufficient", Answer{fit, "lower requests, fewer pods on the nodes, or larger nodes"}},
	{"restartable init container and the SidecarContainers feature is disabled", Answer{fit, "a scheduler with the feature SidecarContainers"}},
	{"pod level request for", Answer{fit, "a higher request at the level of the pod: it must cover its containers and devices"}},
	{"pod level limit for", Answer{fit, "a higher limit at the level of the pod: it must cover its containers and devices"}},
	{"pod resize fits, waiting for Kubelet actuation", Answer{fit, "nothing: the kubelet resizes the pod"}},
	{"had resize preemption disabled", Answer{fit, "more room on the node of the pod that is resized"}},
	{"declared features", Answer{"NodeDeclaredFeatures", "nodes whose kubelets have the features that the pod uses, usually of a later version"}},

	{"node(s) had no available disk", Answer{"VolumeRestrictions", "another node, or the end of the pod that uses the same disk"}},
	{"ReadWriteOncePod access mode already in-use", Answer{"VolumeRestrictions", "the end of the pod that uses the claim: its access mode allows one pod"}},
	{"exceed max volume count", Answer{"NodeVolumeLimits", "nodes with fewer attached volumes, or of a type that can attach more"}},
	{"CSI driver is not installed on the node", Answer{"NodeVolumeLimits", "the driver's DaemonSet on these nodes, or other nodes"}},

	{"pod has unbound immediate PersistentVolumeClaims", Answer{volumeBinding, "a volume for each claim: " + seeClaim}},
	{"waiting for ephemeral volume controller to create the persistentvolumeclaim", Answer{volumeBinding, waitForClaim}},
	{"bound to non-existent persistentvolume", Answer{volumeBinding, "a new claim: the volume of this one was deleted"}},
	{"one or more pvc(s) bound to non-existent pv(s)", Answer{volumeBinding, "a new claim: the volume of this one was deleted"}},
	{"didn't find available persistent volumes to bind", Answer{volumeBinding, "a volume that fits the claim on these nodes, or a StorageClass that can create one"}},
	{"didn't match PersistentVolume's node affinity", Answer{volumeBinding, "room on the nodes that the volume is restricted to (kubectl describe pv)"}},
	{"did not have enough free storage", Answer{volumeBinding, "more free capacity of the storage that the nodes reach, or a smaller claim"}},
	{"was not created for pod", Answer{volumeBinding, "another name: a claim that belongs to another pod has the name of the one that the pod needs"}},
	{"binding volumes: context deadline exceeded", Answer{volumeBinding, "a provisioner that works: it did not create the volume in time; " + seeClaim}},
	{"binding volumes", Answer{volumeBinding, seeClaim}},
	{"selectedNode annotation reset", Answer{volumeBinding, "nothing: the provisioner could not use the node, and the scheduler chooses another one"}},
	{"provisioning failed for PVC", Answer{volumeBinding, seeClaim}},

	{"node(s) had no available volume zone", Answer{volumeZone, "room in the zone of the pod's volume (kubectl get pv --show-labels)"}},
	{"PersistentVolumeClaim had no name", Answer{volumeZone, "the name of a claim in the pod"}},
	{"PersistentVolumeClaim had no pv name and storageClass name", Answer{volumeZone, "a StorageClass in the claim, or a volume that it matches"}},
	{"VolumeBindingMode not set for StorageClass", Answer{volumeZone, "a volumeBindingMode in the StorageClass"}},
	{"PersistentVolume had no name", Answer{volumeZone, "a volume for the claim: " + seeClaim}},
	{"storageclass.storage.k8s.io", Answer{volumeZone, "that StorageClass, or a claim with another one"}},
	{"persistentvolumeclaim \"", Answer{volumeBinding, existingClaim}},
	{"persistentvolume \"", Answer{volumeZone, "that volume, or a new claim"}},

	{"(missing required label)", Answer{"PodTopologySpread", "the topology key of the constraint as label of nodes, or another key"}},
	{"didn't match pod topology spread constraints", Answer{"PodTopologySpread", "room in the domains with the fewest pods, a higher maxSkew, or whenUnsatisfiable: ScheduleAnyway"}},
	{"didn't satisfy existing pods anti-affinity rules", Answer{affinity, "nodes without the pods whose anti-affinity excludes this one"}},
	{"didn't match pod affinity rules", Answer{affinity, "a pod that the affinity selects, in the same domain and with a node"}},
	{"didn't match pod anti-affinity rules", Answer{affinity, "more nodes than pods that exclude each other, or preferred instead of required anti-affinity"}},

	{"device class", Answer{devices, "that DeviceClass, which usually comes with the driver of the devices"}},
	{"has a mapped device and cannot be shared across pods", Answer{devices, "a claim of its own for each pod"}},
	{"cannot fit resource", Answer{devices, seeDevices}},
	{"cannot allocate all claims", Answer{devices, seeDevices}},
	{"timed out trying to allocate devices", Answer{devices, "a less demanding claim: to find devices for it took too long"}},
	{"asked by caller to stop allocating devices", Answer{devices, "nothing: another node was found first"}},
	{"resourceclaim not available on the node", Answer{devices, "room on the nodes that can use the devices which the claim already has"}},
	{"resourceclaim in use", Answer{devices, "the end of a pod that uses the claim, or a claim of its own"}},
	{"is in the process of being allocated", Answer{devices, "nothing: the devices are being allocated for another pod"}},
	{"feature is disabled", Answer{devices, "a claim without the feature, or a scheduler with it"}},
	{"feature on the node", Answer{devices, "nodes with the feature that the message names"}},
	{"unknown request type", Answer{devices, "a claim that this version of the scheduler knows"}},
	{"unsupported request type", Answer{devices, "a claim that this version of the scheduler knows"}},
	{"could not find ResourceClaim", Answer{devices, "nothing, unless it lasts: kube-controller-manager creates the claim from its template"}},
	{"ResourceClaim not created yet", Answer{devices, "nothing, unless it lasts: kube-controller-manager creates the claim from its template"}},
	{"resourceclaim", Answer{devices, existingClaim + " (kubectl get resourceclaims)"}},
	{"resource claim", Answer{devices, seeDevices}},
	{"ResourceClaim", Answer{devices, "nothing: devices of claims have just been released for another attempt"}},

	{"Scheduling is blocked due to non-empty scheduling gates", Answer{"SchedulingGates", "the removal of the gates, by the controllers that have set them"}},
	{"waiting for scheduling gates", Answer{"SchedulingGates", "the removal of the gates, by the controllers that have set them"}},
	{"waiting for the preemption for this pod", Answer{"DefaultPreemption", "nothing: pods of lower priority are leaving a node for it"}},
	{"doesn't exist for a workload", Answer{gangs, "the group that the pod names, in its Workload"}},
	{"minCount", Answer{gangs, waitForGang}},
	{"to appear in scheduling queue", Answer{gangs, "the Workload or PodGroup that the pod names"}},
	{"composite pod group", Answer{gangs, waitForGang}},

	{"node(s) took only", Answer{"NodeClass", "nodes of the pod's class, or nodes without the label supercargo.dev/class"}},
	{"node(s) may be interrupted", Answer{"NodeClass", "nodes on demand, or the annotation supercargo.dev/interruptible without the value false"}},
	{"node(s) were not the one that receives the checkpoint", Answer{staging, "nothing: the Migration has chosen a node"}},
	{"node(s) could not restore the checkpoint", Answer{staging, "nothing, unless it lasts: supercargo explain migration says how far it is"}},
	{"had room but was rejected by", Answer{"TimeBin or BestFit", "nothing: the next attempt evaluates all nodes"}},

	{"no nodes available to schedule pods", Answer{"no plugin", "a node: the cluster has none"}},
}
