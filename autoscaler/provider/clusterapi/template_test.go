package clusterapi

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// counting counts the objects read.
type counting struct {
	client.Reader
	read int
}

func (c *counting) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	c.read++
	return c.Reader.Get(ctx, key, o, opts...)
}

// TestTemplatesAreNotReadAgainInEveryRound: a fleet may have 500, each of which takes a request and some of which share
// a kind.
func TestTemplatesAreNotReadAgainInEveryRound(t *testing.T) {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(crdKind)
	crd.SetName("kwokmachinetemplates.infrastructure.example.com")
	crd.SetLabels(map[string]string{contracts[0]: "v1beta1"})
	objects := []client.Object{crd}
	var deployments []*clusterv1.MachineDeployment
	for i := range 3 {
		name := fmt.Sprint("t", i)
		template := &unstructured.Unstructured{}
		template.SetAPIVersion("infrastructure.example.com/v1beta1")
		template.SetKind("KwokMachineTemplate")
		template.SetNamespace("machines")
		template.SetName(name)
		if i > 0 { // the first is empty
			if err := unstructured.SetNestedField(template.Object, "4", "status", "capacity", "cpu"); err != nil {
				t.Fatal(err)
			}
		}
		objects = append(objects, template)
		d := deployment()
		d.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.example.com", Kind: "KwokMachineTemplate", Name: name}
		deployments = append(deployments, d)
	}
	live := &counting{Reader: newServer(t, objects...)}
	clock := clocktesting.NewFakePassiveClock(start)
	known := NewTemplates(clock)
	for _, step := range []struct {
		after time.Duration
		read  int
	}{
		{0, 4},
		{silentTTL - 1, 0},
		{1, 1},                         // the empty one
		{templateTTL/2 - silentTTL, 1}, // the empty one again
		{templateTTL, 4},
	} {
		clock.SetTime(clock.Now().Add(step.after))
		live.read = 0
		for i, d := range deployments {
			found, err := known.of(t.Context(), live, d)
			if err != nil || i > 0 != (len(found.capacity) > 0) {
				t.Fatalf("template %d has %v: %v", i, found, err)
			}
		}
		if live.read != step.read {
			t.Errorf("%v later %d objects were read, want %d", step.after, live.read, step.read)
		}
	}
}
