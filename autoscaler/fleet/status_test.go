package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/platform/conditions"
)

func TestFlavorsThatMatterMostAreListedInAFullStatus(t *testing.T) {
	var all []v1alpha1.FlavorStatus
	for i := range maxFlavors {
		f := v1alpha1.FlavorStatus{Name: fmt.Sprintf("f-%04d", i), PricePerHour: "0.5"}
		if i < maxFlavors-maxUnused { // as many as there is room for beside the unused ones
			f.Lag = &v1alpha1.LearnedTime{Samples: 1}
		}
		all = append(all, f)
	}
	until := metav1.NewTime(epoch)
	want := []v1alpha1.FlavorStatus{
		{Name: "z-cheap", PricePerHour: "0.4"},
		{Name: "z-failed", Failures: 1, PricePerHour: "9"},
		{Name: "z-left-alone", BackOffUntil: &until, PricePerHour: "9"},
		{Name: "z-measured", Lag: &v1alpha1.LearnedTime{Samples: 1}, PricePerHour: "9"},
		{Name: "z-seen", Seen: &v1alpha1.SeenMachine{}, Message: "there is no such flavor any more"},
		{Name: "z-used", Machines: 1, Message: "it is not offered any more"},
	}
	dropped := []v1alpha1.FlavorStatus{
		{Name: "a-broken", PricePerHour: "0.1", Message: "it has no disk"}, {Name: "a-dear", PricePerHour: "0.6"}, {Name: "a-unpriced"},
	}
	list, rest := listed(slices.Concat(dropped, want, all))
	if len(list) != maxFlavors || len(list)+len(rest) != len(all)+len(want)+len(dropped) {
		t.Fatalf("%d are listed and %d are not, of %d", len(list), len(rest), len(all)+len(want)+len(dropped))
	}
	if !slices.IsSortedFunc(list, func(a, b v1alpha1.FlavorStatus) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the list is not ordered by name")
	}
	if diff := cmp.Diff(want, list[maxFlavors-len(want):]); diff != "" {
		t.Errorf("listed at the end (-want +got):\n%s", diff)
	}
	names := map[string]bool{}
	for _, f := range rest {
		names[f.Name] = true
	}
	for _, f := range slices.Concat(dropped, all[maxFlavors-len(want):]) {
		if !names[f.Name] {
			t.Errorf("%s is listed", f.Name)
		}
	}
}

// TestAStatusWithRoomListsAllFlavorsAsTheyAre also checks that none is lost or invented, and that the size is bounded.
func TestAStatusWithRoomListsAllFlavorsAsTheyAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, name, message := rapid.IntRange(0, 2500).Draw(t, "flavors"), rapid.IntRange(8, 500).Draw(t, "name"), rapid.IntRange(0, conditions.MaxMessage).Draw(t, "message")
		all := make([]v1alpha1.FlavorStatus, n)
		for i := range all {
			all[i] = v1alpha1.FlavorStatus{Name: fmt.Sprintf("%0*d", name, i), Message: strings.Repeat("m", message), Machines: int32(i % 2), PricePerHour: "0.123456"}
		}
		before := slices.Clone(all)
		list, rest := listed(all)
		if len(rest) == 0 {
			if diff := cmp.Diff(before, list); diff != "" {
				t.Fatalf("(-before +listed):\n%s", diff)
			}
		}
		text, err := json.Marshal(list)
		if err != nil || len(list) > maxFlavors || len(text) > maxFlavorBytes {
			t.Fatalf("%d flavors of %d bytes are listed (%v)", len(list), len(text), err)
		}
		unused := 0
		for i := range list {
			if list[i].Machines == 0 {
				unused++
			}
		}
		if unused > maxUnused {
			t.Fatalf("%d flavors are listed that have no machines and of which nothing was learned", unused)
		}
		if len(rest) > 0 && unused < maxUnused && len(list) < maxFlavors && (len(list)+1)*(rowBytes+2*name+message) <= maxFlavorBytes {
			t.Fatalf("only %d of %d are listed", len(list), n)
		}
		again := slices.Concat(list, rest)
		slices.SortFunc(again, func(a, b v1alpha1.FlavorStatus) int { return strings.Compare(a.Name, b.Name) })
		if diff := cmp.Diff(before, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-before +listed and not):\n%s", diff)
		}
	})
}

func TestTheLowerBoundIsComputedWithDecisionsAndWhenItIsOld(t *testing.T) {
	m := newModel(t, alone(nil), smalls())
	bound := func(when, want string) {
		t.Helper()
		if got := m.fleet("f").Status.Cost.LowerBoundDollarsPerHour; got != want {
			t.Errorf("%s, the lower bound is %s, want %s", when, got, want)
		}
	}
	m.add(testPod("p", 3000, 1024, time.Hour))
	m.run(2*minute, "f")
	bound("with the decision to buy a machine", "0.10")
	m.flavor("small").MicroDollarsPerHour = 50_000
	m.run(5*minute, "f")
	bound("minutes after machines have become cheaper", "0.10")
	m.run(10*minute, "f")
	bound("ten minutes later", "0.05")
	m.flavor("small").MicroDollarsPerHour = 70_000
	m.add(testPod("q", 3000, 1024, time.Hour))
	m.run(2*minute, "f")
	bound("with the decision to buy another machine at a new price", "0.14")
}

// TestAFleetOfMoreFlavorsThanItsStatusListsContinues also checks that it remembers what it learned about the others.
func TestAFleetOfMoreFlavorsThanItsStatusListsContinues(t *testing.T) {
	var flavors []provider.Flavor
	for i := range maxFlavors + 200 {
		flavors = append(flavors, modelFlavor(fmt.Sprintf("small-%04d", i), 4, 16, 100_000+int64(i)))
	}
	flavors = append(flavors, modelFlavor("zero", 4, 16, 10))
	m := newModel(t, alone(nil), flavors)
	m.add(testPod("p", 3000, 1024, time.Hour))
	m.run(3*minute, "f")
	status := m.fleet("f").Status
	// The one with a machine, the cheapest others, and the unlisted ones.
	if len(status.Flavors) != 1+maxUnused || int(status.UnlistedFlavors) != maxFlavors+200-maxUnused {
		t.Errorf("%d flavors are listed, and %d more are counted", len(status.Flavors), status.UnlistedFlavors)
	}
	if last := status.Flavors[len(status.Flavors)-1]; last.Name != "zero" || last.Machines != 1 {
		t.Errorf("the last one listed is %+v, want the one that was bought", last)
	}
	if len(m.pods()) != 1 || m.pods()[0].Spec.NodeName == "" {
		t.Error("the pod waits")
	}
}
