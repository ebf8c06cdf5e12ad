package constraint

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NewCompilerFor is [NewCompiler] for the case that all pods are known in advance. It considers only labels that a
// constraint of one of these pods mentions. Pods that differ only in other labels, such as the completion index or the
// job name, then share one *Pod, which keeps the number of different pods small.
//
// Other pods may be compiled too, as long as their constraints mention no other labels; otherwise Compile returns an
// error.
func NewCompilerFor(namespaces map[string]map[string]string, pods []*corev1.Pod) *Compiler {
	c := NewCompiler(namespaces)
	c.selected = map[string]bool{}
	for _, pod := range pods {
		mentioned(pod, func(key string) { c.selected[key] = true })
	}
	return c
}

// mentioned calls use with every label key that the pod's constraints on other pods mention. It may repeat keys.
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

// selectable returns the labels of the pod that a constraint may select, and an error if the pod's own constraints mention
// other labels. The map may be the pod's own.
func (c *Compiler) selectable(pod *corev1.Pod) (map[string]string, error) {
	if c.selected == nil {
		return pod.Labels, nil
	}
	unknown := map[string]bool{}
	mentioned(pod, func(key string) {
		if !c.selected[key] {
			unknown[key] = true
		}
	})
	if len(unknown) > 0 {
		return nil, fmt.Errorf("compile the constraints of pod %s/%s: they refer to labels %v, which no pod referred to when the compiler was created",
			pod.Namespace, pod.Name, slices.Sorted(maps.Keys(unknown)))
	}
	set := map[string]string{}
	for key, value := range pod.Labels {
		if c.selected[key] {
			set[key] = value
		}
	}
	return set, nil
}
