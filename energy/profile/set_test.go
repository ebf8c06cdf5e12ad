package profile

import (
	"strings"
	"testing"

	"supercargo.dev/supercargo/api/v1alpha1"
)

func TestABookFollowsTheProfilesOfACluster(t *testing.T) {
	named := func(name, machineType string) *v1alpha1.MachineProfile {
		o := sample(t)
		o.Name, o.Spec.MachineType = name, machineType
		return o
	}
	var b Book
	if s := b.Set(); len(s) != 0 {
		t.Errorf("an empty book has %v", s)
	}
	if err := b.Put(named("b", "xeon")); err != nil {
		t.Error(err)
	}
	if err := b.Put(named("c", "xeon")); err == nil || !strings.Contains(err.Error(), "already has profile b") {
		t.Errorf("a second profile for a type: %v", err)
	}
	if err := b.Put(named("a", "xeon")); err != nil { // its name comes first
		t.Error(err)
	}
	if s := b.Set(); len(s) != 1 || s["xeon"].Object != "a" {
		t.Errorf("%v, want that of a", s)
	}
	empty := named("d", "arm")
	empty.Spec.Models = nil
	if err := b.Put(empty); err != nil || b.Set()["arm"] != nil {
		t.Errorf("a profile in which nothing is learned: %v, %v", err, b.Set())
	}
	invalid := named("a", "xeon")
	invalid.Spec.Models.Energy.Terms[0].Coefficient = "NaN"
	if err := b.Put(invalid); err == nil || b.Set()["xeon"].Object != "b" {
		t.Errorf("a is invalid: %v, and %v is used", err, b.Set()["xeon"])
	}
	b.Drop("b")
	b.Drop("b")
	if got := b.Set()["xeon"]; got.Object != "c" {
		t.Errorf("b has gone, and %v is used", got)
	}
}
