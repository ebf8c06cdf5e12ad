package constraint

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NewCompilerFor is [NewCompiler] for when all pods that may meet are known: of
// their labels, it heeds only those that a demand of one of them speaks of. Pods
// that differ in other labels alone, such as the completion index or the job's name,
// are then the same *Pod, which is what keeps the number of different pods small.
//
// Pods beside these may be compiled too, as long as their demands speak of no other
// label; Compile says so if they do.
func NewCompilerFor(namespaces map[string]map[string]string, pods []*corev1.Pod) *Compiler {
	c := NewCompiler(namespaces)
	c.heeded = map[string]bool{}
	for _, pod := range pods {
		mentioned(pod, func(key string) { c.heeded[key] = true })
	}
	return c
}

// mentioned calls use with every label key that the pod's demands on other pods
// speak of. A key may come more than once.
func mentioned(pod *corev1.Pod, use func(key string)) {
	of := func(s *metav1.LabelSelector, keys ...string) {
		if s != nil {
			for key := range s.MatchLabels {
				use(key)
			}
			for i := range s.MatchExpressions {
				use(s.MatchExpressions[i].Key)
			}
		}
		for _, key := range keys {
			use(key)
		}
	}
	ofTerms := func(terms []corev1.PodAffinityTerm) {
		for i := range terms {
			of(terms[i].LabelSelector, terms[i].MatchLabelKeys...)
			of(nil, terms[i].MismatchLabelKeys...)
		}
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		ofTerms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		ofTerms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		if in := &pod.Spec.TopologySpreadConstraints[i]; in.WhenUnsatisfiable == corev1.DoNotSchedule {
			of(in.LabelSelector, in.MatchLabelKeys...)
		}
	}
}

// heed returns the labels of the pod that somebody may ask about, and an error if
// the pod itself asks about others. The map may be the pod's own.
func (c *Compiler) heed(pod *corev1.Pod) (map[string]string, error) {
	if c.heeded == nil {
		return pod.Labels, nil
	}
	unknown := map[string]bool{}
	mentioned(pod, func(key string) {
		if !c.heeded[key] {
			unknown[key] = true
		}
	})
	if len(unknown) > 0 {
		return nil, fmt.Errorf("compile the demands of pod %s/%s: they speak of labels %v, which no pod known when the compiler was made does",
			pod.Namespace, pod.Name, slices.Sorted(maps.Keys(unknown)))
	}
	set := map[string]string{}
	for key, value := range pod.Labels {
		if c.heeded[key] {
			set[key] = value
		}
	}
	return set, nil
}
