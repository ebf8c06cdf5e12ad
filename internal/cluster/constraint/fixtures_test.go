package constraint_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// pod returns a pod of an app in namespace "shop".
func pod(app string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: app, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func selects(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func awayFrom(app, key string, change ...func(*corev1.PodAffinityTerm)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		term := corev1.PodAffinityTerm{LabelSelector: selects(app), TopologyKey: key}
		for _, c := range change {
			c(&term)
		}
		a := affinityOf(p)
		if a.PodAntiAffinity == nil {
			a.PodAntiAffinity = &corev1.PodAntiAffinity{}
		}
		a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution =
			append(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, term)
	}
}

func near(app, key string, change ...func(*corev1.PodAffinityTerm)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		term := corev1.PodAffinityTerm{LabelSelector: selects(app), TopologyKey: key}
		for _, c := range change {
			c(&term)
		}
		a := affinityOf(p)
		if a.PodAffinity == nil {
			a.PodAffinity = &corev1.PodAffinity{}
		}
		a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution =
			append(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, term)
	}
}

func spreadOver(key string, maxSkew int32, app string, change ...func(*corev1.TopologySpreadConstraint)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		in := corev1.TopologySpreadConstraint{
			MaxSkew: maxSkew, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selects(app),
		}
		for _, c := range change {
			c(&in)
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, in)
	}
}

func softSpread(key, app string) func(*corev1.Pod) {
	return spreadOver(key, 1, app, func(in *corev1.TopologySpreadConstraint) { in.WhenUnsatisfiable = corev1.ScheduleAnyway })
}

func hostPort(port int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: port}} }
}

func mustCompile(tb testing.TB, c *constraint.Compiler, p *corev1.Pod) *constraint.Pod {
	tb.Helper()
	compiled, err := c.Compile(p)
	if err != nil {
		tb.Fatal(err)
	}
	return compiled
}

// in returns a host in a zone, named and labelled like a node.
func in(zoneName, name string) *constraint.Host {
	return &constraint.Host{Name: name, Labels: map[string]string{zone: zoneName, hostname: name}}
}
