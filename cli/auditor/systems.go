package auditor

import (
	"cmp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/cli/objects"
)

// systemOf returns the operating system of a node, as in GOOS; Linux if unknown.
func systemOf(node *corev1.Node) string {
	name := cmp.Or(node.Labels[corev1.LabelOSStable], node.Labels["beta.kubernetes.io/os"], node.Status.NodeInfo.OperatingSystem, string(corev1.Linux))
	return strings.ToLower(name) // virtual kubelets report Linux
}

// apart returns the objects of a cluster such that its pods only run on nodes with the operating system of their node:
// pods need not say on which one their images run, and AKS taints no Windows nodes. It does not change its argument.
func apart(from *objects.Objects) *objects.Objects {
	systems := make(map[string]string, len(from.Nodes))
	several := false
	for i := range from.Nodes {
		systems[from.Nodes[i].Name] = systemOf(&from.Nodes[i])
		several = several || systems[from.Nodes[i].Name] != systems[from.Nodes[0].Name]
	}
	if !several {
		return from
	}
	all := *from
	all.Nodes, all.Pods, all.Daemons = slices.Clone(from.Nodes), slices.Clone(from.Pods), slices.Clone(from.Daemons)
	for i := range all.Nodes {
		n := &all.Nodes[i]
		n.Spec.Taints = append(slices.Clip(n.Spec.Taints), corev1.Taint{Key: audit.SystemTaint, Value: systems[n.Name], Effect: corev1.TaintEffectNoSchedule})
	}
	for i := range all.Pods {
		if system, is := systems[all.Pods[i].Spec.NodeName]; is {
			tolerate(&all.Pods[i].Spec, corev1.Toleration{Key: audit.SystemTaint, Value: system})
		}
	}
	for i := range all.Daemons {
		tolerateAll(&all.Daemons[i])
	}
	return &all
}

// tolerateAll lets pods of a DaemonSet run on every operating system: such pods select nodes by their labels.
func tolerateAll(d *appsv1.DaemonSet) {
	tolerate(&d.Spec.Template.Spec, corev1.Toleration{Key: audit.SystemTaint, Operator: corev1.TolerationOpExists})
}

func tolerate(spec *corev1.PodSpec, t corev1.Toleration) {
	spec.Tolerations = append(slices.Clip(spec.Tolerations), t)
}

// unnominated returns the objects of a cluster such that no pod is nominated to a node: such a pod has no node yet, and the
// pods that it preempts may still be there. It does not change its argument.
func unnominated(from *objects.Objects) *objects.Objects {
	nominated := func(p corev1.Pod) bool { return p.Spec.NodeName == "" && p.Status.NominatedNodeName != "" }
	if !slices.ContainsFunc(from.Pods, nominated) {
		return from
	}
	all := *from
	all.Pods = slices.Clone(from.Pods)
	for i := range all.Pods {
		if nominated(all.Pods[i]) {
			all.Pods[i].Status.NominatedNodeName = ""
		}
	}
	return &all
}
