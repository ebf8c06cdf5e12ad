package lives

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	gpu  corev1.ResourceName = "nvidia.com/gpu"
	mebi                     = 1 << 20
)

// kind is a machine type. micro is its price in micro-dollars per hour.
type kind struct {
	name, arch                 string
	milliCPU, mebibytes, gpus  int64
	micro                      int64
	maxPods                    int64
	taint, capacityType, class string
}

var kinds = []kind{
	{"m5.large", "amd64", 2000, 8192, 0, 96_000, 29, "", "on-demand", ""},
	{"m5.large", "amd64", 2000, 8192, 0, 96_000, 29, "spot", "spot", ""},
	{"m6g.xlarge", "arm64", 4000, 16384, 0, 154_000, 58, "", "", "any"},
	{"r6g.medium", "arm64", 1000, 8192, 0, 50_400, 8, "arm", "spot", "service"},
	{"c5.4xlarge", "amd64", 16_000, 32_768, 0, 680_000, 234, "", "", "batch"},
	{"g4dn.xlarge", "amd64", 4000, 16384, 1, 526_000, 29, "gpu", "on-demand", ""},
	{"p3.16xlarge", "amd64", 64_000, 499_712, 8, 24_480_000, 234, "gpu", "on-demand", ""},
	{"t3.nano", "amd64", 2000, 512, 0, 5_200, 4, "", "", ""},
	{"", "amd64", 8000, 32_768, 0, 0, 110, "", "", ""}, // the user owns it, so it costs nothing more
	{"virtual", "riscv64", 1_000_000, 1 << 30, 0, 1_000_000, 5000, "virtual", "", ""},
}

// nodeComes adds a node, sometimes with the name of one that has gone, with its pods of DaemonSets.
func (l *life) nodeComes() error {
	k := kinds[min(l.r.IntN(len(kinds)), l.r.IntN(len(kinds)))]
	l.made++
	name := fmt.Sprint("node-", l.made)
	if l.oneIn(5) {
		name = fmt.Sprint("node-", l.r.IntN(3)) // as of a group whose machines keep their names
	}
	for _, n := range l.nodes {
		if n.Name == name {
			return nil
		}
	}
	size := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(k.milliCPU, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(k.mebibytes*mebi, resource.BinarySI),
		corev1.ResourcePods: *resource.NewQuantity(k.maxPods, resource.DecimalSI), corev1.ResourceEphemeralStorage: resource.MustParse("80Gi"),
	}
	if k.gpus > 0 {
		size[gpu] = *resource.NewQuantity(k.gpus, resource.DecimalSI)
	}
	zone := oneOf(l, "a", "b", "c")
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprint("node-uid-", l.made)), CreationTimestamp: metav1.NewTime(l.now.Truncate(time.Second)), Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelArchStable: k.arch, corev1.LabelOSStable: "linux", corev1.LabelTopologyZone: "eu-1" + zone, corev1.LabelTopologyRegion: "eu-1",
		}},
		Status: corev1.NodeStatus{Capacity: size, Allocatable: l.allocatable(size)},
	}
	for label, value := range map[string]string{corev1.LabelInstanceTypeStable: k.name, "karpenter.sh/capacity-type": k.capacityType, "supercargo.dev/class": k.class} {
		if value != "" {
			node.Labels[label] = value
		}
	}
	if k.taint != "" {
		node.Spec.Taints = []corev1.Taint{{Key: k.taint, Value: "true", Effect: oneOf(l, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)}}
	}
	if l.oneIn(8) {
		node.Status.Allocatable = nil // until the kubelet reports
	}
	if l.skews == nil {
		l.skews = map[string]time.Duration{}
	}
	l.skews[name] = time.Duration(l.r.IntN(4)-2) * time.Second
	l.nodes = append(l.nodes, node)
	if err := l.observe(l.seen(node)); err != nil {
		return err
	}
	for i := range l.r.IntN(4) {
		if err := l.daemonComes(node, fmt.Sprint("daemon-", i)); err != nil {
			return err
		}
	}
	return nil
}

// allocatable returns a size without what the kubelet reserves, which differs a little from node to node.
func (l *life) allocatable(size corev1.ResourceList) corev1.ResourceList {
	some := size.DeepCopy()
	some[corev1.ResourceCPU] = *resource.NewMilliQuantity(size.Cpu().MilliValue()*(95+l.r.Int64N(6))/100, resource.DecimalSI)
	some[corev1.ResourceMemory] = *resource.NewQuantity(size.Memory().Value()-l.r.Int64N(100)*mebi, resource.BinarySI)
	return some
}

// nodeChanges lets a kubelet report, an operator cordon, or a label change.
func (l *life) nodeChanges() error {
	if len(l.nodes) == 0 {
		return nil
	}
	node := oneOf(l, l.nodes...).DeepCopy()
	switch l.r.IntN(3) {
	case 0:
		node.Status.Allocatable = l.allocatable(node.Status.Capacity)
	case 1:
		node.Spec.Unschedulable = !node.Spec.Unschedulable
	default:
		node.Labels["changed"] = fmt.Sprint(l.r.IntN(9))
	}
	for i := range l.nodes {
		if l.nodes[i].UID == node.UID {
			l.nodes[i] = node
		}
	}
	return l.observe(l.seen(node))
}

// nodeGoes deletes a node, before its pods, after them, or without them.
func (l *life) nodeGoes() (err error) {
	if len(l.nodes) == 0 {
		return nil
	}
	at := l.r.IntN(len(l.nodes))
	node := l.nodes[at]
	first, pods := l.oneIn(2), !l.oneIn(4)
	if pods && !first {
		err = l.podsGo(node.Name)
	}
	l.nodes = append(l.nodes[:at:at], l.nodes[at+1:]...)
	if err == nil {
		err = l.observe(l.nodeGone(node))
	}
	if pods && first && err == nil {
		l.passes(3 * time.Minute)
		err = l.podsGo(node.Name)
	}
	return err
}

// priceOf returns the price of a node, which may be unknown.
func (l *life) priceOf(node *corev1.Node) *int64 {
	for _, k := range kinds {
		if k.name == node.Labels[corev1.LabelInstanceTypeStable] {
			if l.unpriced && k.arch == "arm64" {
				return nil
			}
			return &k.micro
		}
	}
	return nil
}
