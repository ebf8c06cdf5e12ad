package reasons

// OfDaemonSet is [Of] for a pod of a DaemonSet, which its controller made for one node: the answer is about that node. There is
// none to a reason of other nodes only.
func OfDaemonSet(message string) (Answer, bool) {
	at := entryOf(message)
	if at < 0 {
		return Answer{}, false
	}
	a := table[at].Answer
	if helps, other := onItsNode[table[at].text]; other {
		a.Helps = helps
	}
	return a, a.Helps != ""
}

// The answers to several reasons.
const (
	ownVolume   = "a volume that the node of each pod of the DaemonSet reaches, such as one of a generic ephemeral volume (kubectl describe pv)"
	ownDevices  = "another device, a less demanding request in the claim, or such a device on its node (kubectl get resourceslices)"
	noSpreading = "a DaemonSet without topology spread constraints, because its pods cannot be spread otherwise"
)

// onItsNode are the answers for pods of DaemonSets where those of the table are about other nodes, by the text of the table. The
// empty ones are for reasons that no node has for which a DaemonSet makes pods.
var onItsNode = map[string]string{
	"node(s) were unschedulable":                            "the end of the cordon: kubectl uncordon, if nobody drains the node",
	"untolerated taint":                                     "a toleration in the DaemonSet, or the removal of the taint from its node",
	"had taints that the pod didn't tolerate":               "a toleration in the DaemonSet, or the removal of the taint from its node",
	"didn't match Pod's node affinity/selector":             "",
	"node(s) didn't satisfy plugin(s)":                      "",
	"node(s) may be interrupted":                            "",
	"didn't match scheduler-enforced node affinity":         "a scheduler whose configuration (addedAffinity) does not exclude its node",
	"didn't have free ports for the requested pod ports":    "another hostPort in the DaemonSet, or the end of the pod on its node that has the port",
	"Too many pods":                                         "fewer other pods on its node, a higher priority than theirs (priorityClassName in the DaemonSet), or a higher maxPods of the kubelet of the node",
	"Insufficient":                                          "fewer other pods on its node, a higher priority than theirs (priorityClassName in the DaemonSet), or lower requests in the DaemonSet",
	"declared features":                                     "a kubelet on its node that has the features that the pod uses, usually of a later version",
	"node(s) had no available disk":                         "the end of the pod that uses the same disk",
	"exceed max volume count":                               "fewer attached volumes on its node",
	"CSI driver is not installed on the node":               "the driver's DaemonSet on its node",
	"didn't find available persistent volumes to bind":      ownVolume,
	"didn't match PersistentVolume's node affinity":         ownVolume,
	"did not have enough free storage":                      "more free capacity of the storage that its node reaches, or a smaller claim",
	"selectedNode annotation reset":                         "nothing: the provisioner could not use the node, and the scheduler tries again",
	"node(s) had no available volume zone":                  ownVolume,
	"(missing required label)":                              noSpreading,
	"didn't match pod topology spread constraints":          noSpreading,
	"didn't satisfy existing pods anti-affinity rules":      "the end of the pods in the same domain as its node whose anti-affinity excludes it",
	"didn't match pod anti-affinity rules":                  "the end of the pods that its anti-affinity excludes, or preferred instead of required anti-affinity in the DaemonSet",
	"asked by caller to stop allocating devices":            "",
	"cannot fit resource":                                   ownDevices,
	"cannot allocate all claims":                            ownDevices,
	"resource claim":                                        ownDevices,
	"resourceclaim not available on the node":               "a claim of its own for each pod (resourceClaimTemplateName), because the devices of this one are elsewhere",
	"feature on the node":                                   "the feature that the message names on its node",
	"node(s) took only":                                     "",
	"node(s) were not the one that receives the checkpoint": "",
	"node(s) could not restore the checkpoint":              "",
	"had room but was rejected by":                          "",
}
