package constraint_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster/constraint"
)

const (
	zone     = corev1.LabelTopologyZone
	hostname = corev1.LabelHostname
	rack     = "example.com/rack"
)

// knownNamespaces are those that the scheduler and the compiler know. Pods may also be in another one.
var knownNamespaces = map[string]map[string]string{
	"shop":  {"team": "shop", "env": "prod"},
	"batch": {"team": "batch"},
	"bare":  nil,
}

// The vocabulary is small, so that selectors match often.

func oneOf[T any](t *rapid.T, name string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, name)
}

// oneIn returns true once in n draws.
func oneIn(t *rapid.T, name string, n int) bool { return rapid.IntRange(1, n).Draw(t, name) == n }

func drawHost(t *rapid.T, name string) *constraint.Host {
	h := &constraint.Host{Name: name, Labels: map[string]string{}, Unschedulable: oneIn(t, "cordoned", 10)}
	if !oneIn(t, "no zone", 6) {
		h.Labels[zone] = oneOf(t, "zone", "a", "b", "c")
	}
	if oneIn(t, "in a rack", 2) {
		h.Labels[rack] = oneOf(t, "rack", "1", "2")
	}
	if oneIn(t, "with disk", 2) {
		h.Labels["disk"] = oneOf(t, "disk", "ssd", "hdd", "10", "20")
	}
	switch {
	case oneIn(t, "template", 3): // has no hostname label
	case oneIn(t, "odd host name", 10):
		h.Labels[hostname] = "shared"
	default:
		h.Labels[hostname] = name
	}
	for range rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2}).Draw(t, "taints") {
		h.Taints = append(h.Taints, corev1.Taint{
			Key: oneOf(t, "taint", "gpu", "spot", corev1.TaintNodeUnschedulable), Value: oneOf(t, "taint value", "", "true"),
			Effect: oneOf(t, "effect", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule),
		})
	}
	return h
}

// drawPod draws a pod with zero to three kinds of constraints.
func drawPod(t *rapid.T) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: oneOf(t, "namespace", "shop", "shop", "batch", "bare", "leftover"), Labels: drawLabels(t)}}
	p.Spec.Containers = []corev1.Container{{Name: "main"}}
	for range rapid.SampledFrom([]int{0, 1, 1, 1, 2, 3}).Draw(t, "kinds of demands") {
		oneOf(t, "kind", drawTolerations, drawNodeSelector, drawNodeAffinity, drawPorts,
			drawPodAffinity, drawPodAffinity, drawPodAntiAffinity, drawPodAntiAffinity, drawSpread, drawSpread, drawSpread)(t, p)
	}
	if oneIn(t, "names a node", 30) {
		p.Spec.NodeName = oneOf(t, "node name", "h0", "h1")
	}
	return p
}

func drawLabels(t *rapid.T) map[string]string {
	labels := map[string]string{"app": oneOf(t, "app", "a", "b", "c")}
	if oneIn(t, "has a version", 2) {
		labels["version"] = oneOf(t, "version", "1", "2")
	}
	return labels
}

func drawTolerations(t *rapid.T, p *corev1.Pod) {
	for range rapid.IntRange(1, 2).Draw(t, "tolerations") {
		seconds := int64(300)
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{
			Key:      oneOf(t, "tolerated", "", "gpu", "spot", corev1.TaintNodeUnschedulable),
			Operator: oneOf(t, "operator", "", corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpExists, corev1.TolerationOpGt),
			Value:    oneOf(t, "tolerated value", "", "true"),
			Effect:   oneOf(t, "tolerated effect", "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule),
			// TolerationSeconds do not affect placement.
			TolerationSeconds: oneOf(t, "seconds", nil, &seconds),
		})
	}
}

func drawNodeSelector(t *rapid.T, p *corev1.Pod) {
	p.Spec.NodeSelector = oneOf(t, "node selector",
		map[string]string{zone: "a"}, map[string]string{"disk": "ssd"}, map[string]string{zone: "b", "disk": "ssd"},
		map[string]string{hostname: "h0"}, map[string]string{})
}

func drawNodeAffinity(t *rapid.T, p *corev1.Pod) {
	required := &corev1.NodeSelector{}
	for range rapid.SampledFrom([]int{1, 1, 1, 2, 0}).Draw(t, "terms") {
		var term corev1.NodeSelectorTerm
		for range rapid.SampledFrom([]int{1, 1, 2, 0}).Draw(t, "expressions") {
			term.MatchExpressions = append(term.MatchExpressions, oneOf(t, "expression",
				corev1.NodeSelectorRequirement{Key: zone, Operator: corev1.NodeSelectorOpIn, Values: []string{"a", "b"}},
				corev1.NodeSelectorRequirement{Key: zone, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"a"}},
				corev1.NodeSelectorRequirement{Key: hostname, Operator: corev1.NodeSelectorOpExists},
				corev1.NodeSelectorRequirement{Key: hostname, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"h1", "shared"}},
				corev1.NodeSelectorRequirement{Key: rack, Operator: corev1.NodeSelectorOpDoesNotExist},
				corev1.NodeSelectorRequirement{Key: "disk", Operator: corev1.NodeSelectorOpGt, Values: []string{"15"}},
				corev1.NodeSelectorRequirement{Key: "disk", Operator: corev1.NodeSelectorOpLt, Values: []string{"15"}},
			))
		}
		for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "fields") {
			term.MatchFields = append(term.MatchFields, corev1.NodeSelectorRequirement{
				Key: metav1.ObjectNameField, Operator: oneOf(t, "field operator", corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn),
				Values: []string{oneOf(t, "field value", "h0", "h1", "h2")},
			})
		}
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, term)
	}
	affinityOf(p).NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}
}

func drawPorts(t *rapid.T, p *corev1.Pod) {
	ports := make([]corev1.ContainerPort, rapid.IntRange(1, 2).Draw(t, "ports"))
	for i := range ports {
		ports[i] = corev1.ContainerPort{
			HostPort: oneOf(t, "port", int32(80), 80, 443, 0), HostIP: oneOf(t, "address", "", "0.0.0.0", "10.0.0.1", "10.0.0.2"),
			Protocol: oneOf(t, "protocol", "", corev1.ProtocolTCP, corev1.ProtocolUDP),
		}
	}
	always := corev1.ContainerRestartPolicyAlways
	switch oneOf(t, "whose port", "main", "main", "sidecar", "init") {
	case "main":
		p.Spec.Containers[0].Ports = ports
	case "sidecar":
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "sidecar", Ports: ports, RestartPolicy: &always})
	case "init":
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "init", Ports: ports})
	}
}

func affinityOf(p *corev1.Pod) *corev1.Affinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	return p.Spec.Affinity
}

func drawPodAffinity(t *rapid.T, p *corev1.Pod) {
	affinityOf(p).PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: drawTerms(t)}
}

func drawPodAntiAffinity(t *rapid.T, p *corev1.Pod) {
	affinityOf(p).PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: drawTerms(t)}
}

func drawTerms(t *rapid.T) []corev1.PodAffinityTerm {
	terms := make([]corev1.PodAffinityTerm, rapid.SampledFrom([]int{1, 1, 1, 2, 2, 0}).Draw(t, "terms"))
	for i := range terms {
		terms[i] = corev1.PodAffinityTerm{
			TopologyKey:       oneOf(t, "topology key", zone, hostname, rack),
			LabelSelector:     drawSelector(t),
			Namespaces:        oneOf(t, "namespaces", nil, nil, nil, []string{"shop"}, []string{"batch", "leftover"}),
			NamespaceSelector: drawNamespaceSelector(t),
			MatchLabelKeys:    oneOf(t, "matchLabelKeys", nil, nil, nil, []string{"version"}),
		}
		if terms[i].MatchLabelKeys == nil {
			terms[i].MismatchLabelKeys = oneOf(t, "mismatchLabelKeys", nil, nil, nil, []string{"version"})
		}
	}
	return terms
}

// drawSelector never uses the version label, which is for matchLabelKeys: the API server rejects both together.
func drawSelector(t *rapid.T) *metav1.LabelSelector {
	return oneOf(t, "selector",
		&metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}},
		&metav1.LabelSelector{MatchLabels: map[string]string{"app": "b"}},
		&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"a", "b"}}}},
		&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"a"}}}},
		&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpExists}}},
		&metav1.LabelSelector{},
		nil)
}

func drawNamespaceSelector(t *rapid.T) *metav1.LabelSelector {
	if !oneIn(t, "selects namespaces", 3) {
		return nil
	}
	return oneOf(t, "namespace selector",
		&metav1.LabelSelector{},
		&metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}},
		&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "team", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"batch"}}}},
		&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "env", Operator: metav1.LabelSelectorOpDoesNotExist}}},
		&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "team", Operator: metav1.LabelSelectorOpExists}}})
}

func drawSpread(t *rapid.T, p *corev1.Pod) {
	for range rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "constraints") {
		policies := []*corev1.NodeInclusionPolicy{nil, new(corev1.NodeInclusionPolicyHonor), new(corev1.NodeInclusionPolicyIgnore)}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: rapid.Int32Range(1, 2).Draw(t, "max skew"), TopologyKey: oneOf(t, "topology key", zone, zone, hostname, rack),
			WhenUnsatisfiable:  oneOf(t, "when unsatisfiable", corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.ScheduleAnyway),
			LabelSelector:      drawSelector(t),
			MinDomains:         oneOf(t, "min domains", nil, nil, new(int32(1)), new(int32(2)), new(int32(4))),
			NodeAffinityPolicy: oneOf(t, "node affinity policy", policies...),
			NodeTaintsPolicy:   oneOf(t, "node taints policy", policies...),
			MatchLabelKeys:     oneOf(t, "match label keys", nil, nil, []string{"version"}),
		})
	}
}

func hostName(i int) string { return fmt.Sprintf("h%d", i) }
