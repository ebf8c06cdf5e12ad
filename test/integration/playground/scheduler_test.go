package playground

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/lab/playground/controlplane"
)

// schedulerConfig configures one profile of the given name.
func schedulerConfig(name string) []byte {
	return fmt.Appendf(nil, `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true}
profiles: [{schedulerName: %s}]
`, name)
}

// startScheduler starts a scheduler or fails the test.
func startScheduler(t *testing.T, p *playground.Playground, config []byte) *controlplane.Scheduler {
	t.Helper()
	s, err := p.StartScheduler(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOneSchedulerContinuesWhereAnotherStopped(t *testing.T) {
	p := playground.ForTest(t, playground.Options{Nodes: playground.Fleet(3), NoScheduler: true})
	first := startScheduler(t, p, nil)
	createPod(t, p, newPod("early"))
	awaitPod(t, p, "early", isRunning)
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	createPod(t, p, newPod("late"))
	pod, err := p.Client().CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "late", metav1.GetOptions{})
	if err != nil || isBound(pod) {
		t.Errorf("a pod made after the scheduler has stopped is on node %q (%v)", pod.Spec.NodeName, err)
	}
	startScheduler(t, p, schedulerConfig(corev1.DefaultSchedulerName))
	awaitPod(t, p, "late", isRunning)
	if err := p.Err(); err != nil {
		t.Errorf("stopping a scheduler counts as a failure: %v", err)
	}
}

func TestSchedulersOfDifferentNamesRunSideBySide(t *testing.T) {
	p := playground.ForTest(t, playground.Options{Nodes: playground.Fleet(3)})
	startScheduler(t, p, schedulerConfig("other"))
	for _, name := range []string{corev1.DefaultSchedulerName, "other"} {
		pod := newPod("by-" + name)
		pod.Spec.SchedulerName = name
		createPod(t, p, pod)
		awaitPod(t, p, pod.Name, isRunning)
	}
}

func TestABadSchedulerConfigurationIsAnError(t *testing.T) {
	p := playground.ForTest(t, playground.Options{NoScheduler: true, NoKwok: true, NoControllerManager: true})
	for _, tc := range []struct{ name, config, says string }{
		{"empty", "", "it is empty"},
		{"no YAML", "{", "read KubeSchedulerConfiguration"},
		{"wrong kind", "apiVersion: v1\nkind: Pod\n", "Pod"},
		{"unknown field", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nbogus: 1\n", "bogus"},
		{"section of a wrong type", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nclientConnection: 1\n", "clientConnection"},
		{"invalid value", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: -1\n", "parallelism"},
		{
			"unknown plugin",
			"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" +
				"profiles: [{plugins: {score: {enabled: [{name: NoSuchPlugin}]}}}]\n",
			"NoSuchPlugin",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := p.StartScheduler(t.Context(), []byte(tc.config))
			wantInputError(t, err, "SchedulerConfig", tc.says)
		})
	}
	if err := p.Err(); err != nil {
		t.Errorf("the playground has suffered: %v", err)
	}
}

func TestASchedulerIsNotStartedInAStoppedPlayground(t *testing.T) {
	p := playground.ForTest(t, playground.Options{NoScheduler: true, NoKwok: true, NoControllerManager: true})
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.StartScheduler(context.Background(), nil); err == nil {
		t.Error("a scheduler has been started in a stopped playground")
	}
}
