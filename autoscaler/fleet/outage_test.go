package fleet

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
)

// oneProvider answers as it is told.
type oneProvider struct {
	provider.Provider
	asked   int
	observe func(context.Context) (*provider.Inventory, error)
}

func (p *oneProvider) Observe(ctx context.Context) (*provider.Inventory, error) {
	p.asked++
	return p.observe(ctx)
}

func silent(ctx context.Context) (*provider.Inventory, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func inventoryOf(flavors ...string) func(context.Context) (*provider.Inventory, error) {
	return func(context.Context) (*provider.Inventory, error) {
		i := &provider.Inventory{}
		for _, name := range flavors {
			i.Flavors = append(i.Flavors, provider.Flavor{Name: name})
		}
		return i, nil
	}
}

func namesOf(i *provider.Inventory) string {
	if i == nil {
		return "unknown"
	}
	var names []string
	for _, f := range i.Flavors {
		names = append(names, f.Name)
	}
	return strings.Join(names, " ")
}

func TestAProviderThatDoesNotAnswerStopsItsOwnFleetAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		self, other := fleetNamed("self"), fleetNamed("other")
		r := &round{Reconciler: &Reconciler{}, fleet: self}
		p := &oneProvider{}
		look := func(f *v1alpha1.NodeFleet, observe func(context.Context) (*provider.Inventory, error)) (string, time.Duration, error) {
			began := time.Now()
			r.now, p.observe = began, observe
			i, err := r.inventory(t.Context(), f, p)
			return namesOf(i), time.Since(began), err
		}
		steps := []struct {
			name    string
			fleet   *v1alpha1.NodeFleet
			after   time.Duration
			observe func(context.Context) (*provider.Inventory, error)
			want    string
			takes   time.Duration
			fails   bool
			asked   int
		}{
			{"another has never answered", other, 0, silent, "unknown", otherTimeout, false, 1},
			{"it is not asked again at once", other, minute, silent, "unknown", 0, false, 1},
			{"it answers later", other, 2 * minute, inventoryOf("a", "b"), "a b", 0, false, 2},
			{"it fails: what it told last counts", other, 0, func(context.Context) (*provider.Inventory, error) { return nil, errors.New("the cloud is down") }, "a b", 0, false, 3},
			{"and later too", other, 3 * minute, silent, "a b", otherTimeout, false, 4},
			{"it answers again", other, 3 * minute, inventoryOf("c"), "c", 0, false, 5},
			{"and is asked each time", other, 0, inventoryOf("d"), "d", 0, false, 6},
			{"one's own does not answer", self, 0, silent, "unknown", ownTimeout, true, 7},
			{"and is asked again at once", self, 0, inventoryOf("e"), "e", 0, false, 8},
		}
		for _, step := range steps {
			time.Sleep(step.after)
			got, took, err := look(step.fleet, step.observe)
			if diff := cmp.Diff([]any{step.want, step.takes, step.fails, step.asked}, []any{got, took, err != nil, p.asked}); diff != "" {
				t.Errorf("%s: flavors, time, failure, times asked (-want +got):\n%s", step.name, diff)
			}
			if err != nil && !strings.Contains(err.Error(), "take stock of fleet self: its provider has not answered within 1m0s") {
				t.Errorf("%s: %v", step.name, err)
			}
		}
	})
}

// TestWhatAFleetHasOrderedCountsWhileItsProviderFails is what keeps two fleets from buying
// for the same pods then.
func TestWhatAFleetHasOrderedCountsWhileItsProviderFails(t *testing.T) {
	self, other := fleetNamed("self"), fleetNamed("other")
	all := &Reconciler{}
	p := &oneProvider{observe: inventoryOf("a")}
	buyer := &round{Reconciler: all, fleet: other, now: epoch}
	if _, err := buyer.inventory(t.Context(), other, p); err != nil {
		t.Fatal(err)
	}
	buyer.ordered("a", 3)
	p.observe = func(context.Context) (*provider.Inventory, error) { return nil, errors.New("the cloud is down") }
	i, err := (&round{Reconciler: all, fleet: self, now: epoch}).inventory(t.Context(), other, p)
	if err != nil || i.Flavors[0].Want != 3 {
		t.Errorf("%+v, %v", i, err)
	}
}
