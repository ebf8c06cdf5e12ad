package agent

import (
	"context"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/simulated"
	"supercargo.dev/supercargo/internal/movable/capability"
)

// installed is true once the objects in the manifests with the agents' permissions exist.
var installed bool

// install creates them once.
func (b *bench) install() {
	b.Helper()
	if installed {
		return
	}
	installed = true
	b.Site.Install(b, "../../../manifests/agent/namespace.yaml", "../../../manifests/agent/rbac.yaml", "../../../manifests/agent/policy.yaml")
}

// asAgent returns the client configuration of the agent of a node, like that of a pod of the DaemonSet.
func (b *bench) asAgent(name string) *rest.Config {
	b.Helper()
	b.install()
	var node corev1.Node
	if err := b.Get(b.Context(), client.ObjectKey{Name: name}, &node); err != nil {
		b.Fatal(err)
	}
	token, err := b.Site.Playground.Client().CoreV1().ServiceAccounts("supercargo-agent").CreateToken(b.Context(), "supercargo-node-agent", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
	}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	config := rest.AnonymousClientConfig(b.Site.Config())
	config.BearerToken = token.Status.Token
	return config
}

// TestRightsAreEnough runs the agent of one node with the permissions in the manifests.
func TestRightsAreEnough(t *testing.T) {
	b := newBench(t)
	b.config.Client, b.config.Node, b.config.Simulation, b.config.AdvertiseHost = b.asAgent(b.from), b.from, nil, "127.0.0.1"
	b.config.Backends = func() map[v1alpha1.MigrationBackend]checkpoint.Backend {
		model, err := simulated.New(simulated.Model{}, t.TempDir(), clock.RealClock{}, func(ctx context.Context, name types.NamespacedName) (*corev1.Pod, error) {
			pod := &corev1.Pod{}
			return pod, b.Get(ctx, name, pod)
		})
		if err != nil {
			t.Error(err)
			return nil
		}
		return map[v1alpha1.MigrationBackend]checkpoint.Backend{v1alpha1.BackendSimulated: {Source: model, Target: model}}
	}
	b.config.Capability = func(context.Context, *corev1.Node) (capability.Node, error) {
		return capability.Node{Backends: []v1alpha1.MigrationBackend{v1alpha1.BackendSimulated}}, nil
	}
	b.start()
	b.Eventually("the node says what it can do", func() string {
		var node corev1.Node
		if err := b.Get(b.Context(), client.ObjectKey{Name: b.from}, &node); err != nil {
			return err.Error()
		}
		if node.Annotations[v1alpha1.AnnotationCapability] == "" {
			return "it says nothing"
		}
		return ""
	})
	pod := b.pod("work")
	m := b.migrationBy(pod, v1alpha1.BackendSimulated)
	b.sourceSays(m, v1alpha1.SourcePrepared)
	b.order(m, v1alpha1.OrderKill)
	if err := b.Delete(b.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	b.sourceSays(m, v1alpha1.SourceKilled)
	failing := b.migrationBy(b.pod("other"), v1alpha1.BackendContainerd) // its failure causes an Event
	b.sourceSays(failing, v1alpha1.SourceFailed)
}

// TestAnAgentWritesOfItsOwnNodeOnly tries what an attacker who took over an agent's node might try.
func TestAnAgentWritesOfItsOwnNodeOnly(t *testing.T) {
	b := newBench(t)
	agents := map[string]client.Client{}
	for _, node := range []string{b.from, b.to} {
		c, err := client.New(b.asAgent(node), client.Options{Scheme: b.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		agents[node] = c
	}
	m := b.migration(b.pod("work"))
	b.reserve(m, b.to)
	const report = `"source":{"step":"Prepared","time":"2026-01-01T00:00:00.000000Z"}`
	const source = `{"status":{` + report + `}}`
	target := func(node string) string {
		return `{"status":{"target":{"node":"` + node + `","step":"Prepared","time":"2026-01-01T00:00:00.000000Z"}}}`
	}
	tests := []struct {
		name, agent, patch string
		allowed            bool
	}{
		{"the source's report by the source", b.from, source, true},
		{"the source's report by the target", b.to, source, false},
		{"the target's report by the target", b.to, target(b.to), true},
		{"the target's report by the source", b.from, target(b.from), false},
		{"the target's report in another's name", b.to, target(b.from), false},
		{"the order", b.from, `{"status":{"order":"Kill"}}`, false},
		{"the order beside the report", b.from, `{"status":{"order":"Kill",` + report + `}}`, false},
		{"the reservation", b.from, `{"status":{"reservation":{"node":"` + b.from + `"}}}`, false},
		{"the plan", b.to, `{"status":{"plan":{"sourceNode":"` + b.to + `"}}}`, false},
		{"a condition", b.from, `{"status":{"conditions":[{"type":"Finished","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			b.Eventually("the policy is in force", func() string {
				err := agents[tc.agent].Status().Patch(t.Context(), m.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(tc.patch)), client.DryRunAll)
				switch {
				case tc.allowed && err != nil:
					return err.Error()
				case !tc.allowed && err == nil:
					return "it may"
				case !tc.allowed && !strings.Contains(err.Error(), "supercargo-node-agent-migrations"):
					return "it is refused, but not by the policy: " + err.Error()
				}
				return ""
			})
		})
	}
	if err := agents[b.from].Patch(t.Context(), m.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))); !apierrors.IsForbidden(err) {
		t.Errorf("an agent changes a Migration: %v", err)
	}
	b.nodesAreProtected(agents[b.from])
}

func (b *bench) nodesAreProtected(agent client.Client) {
	b.Helper()
	for name, tc := range map[string]struct {
		node, patch string
		allowed     bool
	}{
		"its own annotation":     {b.from, `{"metadata":{"annotations":{"supercargo.dev/checkpoint-capability":"x"}}}`, true},
		"its own hardware":       {b.from, `{"metadata":{"annotations":{"supercargo.dev/hardware":"x"}}}`, true},
		"its own governor":       {b.from, `{"metadata":{"annotations":{"supercargo.dev/cpu-governor":"x"}}}`, true},
		"another's annotation":   {b.to, `{"metadata":{"annotations":{"supercargo.dev/checkpoint-capability":"x"}}}`, false},
		"another annotation":     {b.from, `{"metadata":{"annotations":{"other":"x"}}}`, false},
		"a label":                {b.from, `{"metadata":{"labels":{"other":"x"}}}`, false},
		"a taint":                {b.from, `{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`, false},
		"that the node is shut":  {b.from, `{"spec":{"unschedulable":true}}`, false},
		"a finalizer on its own": {b.from, `{"metadata":{"finalizers":["a.test/b"]}}`, false},
	} {
		err := agent.Patch(b.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: tc.node}}, client.RawPatch(types.MergePatchType, []byte(tc.patch)), client.DryRunAll)
		if (err == nil) != tc.allowed {
			b.Errorf("%s: the agent gets %v, allowed should be %v", name, err, tc.allowed)
		}
	}
}
