package fleet

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
)

// oneProvider answers as configured.
type oneProvider struct {
	provider.Provider
	asked   atomic.Int64
	observe func(context.Context) (*provider.Inventory, error)
}

func (p *oneProvider) Observe(ctx context.Context) (*provider.Inventory, error) {
	p.asked.Add(1)
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

func down(context.Context) (*provider.Inventory, error) { return nil, errors.New("the cloud is down") }

// slowly answers after ten seconds, which is later than a round waits.
func slowly(ctx context.Context) (*provider.Inventory, error) {
	time.Sleep(2 * patience) // virtual time
	return inventoryOf("late")(ctx)
}

func TestAProviderThatDoesNotAnswerHoldsItsOwnFleetAlone(t *testing.T) {
	self, other := fleetNamed("self"), fleetNamed("other")
	for _, tc := range []struct {
		name  string
		steps []outageStep
	}{
		{"another fleet's is silent from the beginning", []outageStep{
			{"it has never answered", other, 0, silent, "unknown", patience, "", 1},
			{"it is still being asked", other, 10 * second, silent, "unknown", 0, "", 1},
			{"it is asked again when its time is over", other, minute, silent, "unknown", 0, "", 1},
			{"beside the round", other, 2 * second, silent, "unknown", shortPatience, "", 2},
			{"it answers", other, minute + 10*second, inventoryOf("a"), "unknown", 0, "", 2},
			{"and is waited for", other, minute, inventoryOf("a"), "a", 0, "", 3},
		}},
		{"another fleet's falls silent", []outageStep{
			{"it answers", other, 0, inventoryOf("a", "b"), "a b", 0, "", 1},
			{"it fails: what it told last counts", other, 0, down, "a b", 0, "", 2},
			{"it is not asked again at once", other, 0, down, "a b", 0, "", 2},
			{"it is asked after a second", other, 2 * second, silent, "a b", shortPatience, "", 3},
		}},
		{"another fleet's becomes slow", []outageStep{
			{"it answers", other, 0, inventoryOf("a"), "a", 0, "", 1},
			{"what it told last counts", other, 0, slowly, "a", shortPatience, "", 2},
			{"and is not waited for", other, second, slowly, "a", 0, "", 2},
			{"what it tells then is used", other, 10 * second, slowly, "late", 0, "", 2},
		}},
		{"its own is silent", []outageStep{
			{"it is waited for", self, 0, silent, "unknown", patience, "no response within 5s", 1},
			{"it is being asked", self, 10 * second, silent, "unknown", 0, "a request to its provider is in progress", 1},
			{"its time is over", self, minute, silent, "unknown", 0, "no response within 1m0s", 1},
			{"it is asked again", self, 2 * second, silent, "unknown", shortPatience, "no response within 1m0s", 2},
		}},
		{"its own fails", []outageStep{
			{"once", self, 0, down, "unknown", 0, "the cloud is down", 1},
			{"it is not asked again at once", self, 0, inventoryOf("a"), "unknown", 0, "the cloud is down", 1},
			{"twice", self, 2 * second, down, "unknown", 0, "the cloud is down", 2},
			{"it has twice as long", self, 1500 * time.Millisecond, inventoryOf("a"), "unknown", 0, "the cloud is down", 2},
			{"it answers", self, second, inventoryOf("a"), "a", 0, "", 3},
			{"and is asked each time", self, 0, inventoryOf("b"), "b", 0, "", 4},
		}},
		{"its own is slow", []outageStep{
			{"it is waited for", self, 0, slowly, "unknown", patience, "no response within 5s", 1},
			{"what it told is used", self, 6 * second, slowly, "late", 0, "", 1},
			{"it is not waited for again", self, 0, slowly, "unknown", shortPatience, "a request to its provider is in progress", 2},
			{"what it told is used again", self, 11 * second, slowly, "late", 0, "", 2},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var woken atomic.Int64
				r := &round{Reconciler: &Reconciler{Clock: clock.RealClock{}, wake: func(string) { woken.Add(1) }}, fleet: self}
				p := &oneProvider{}
				for _, step := range tc.steps {
					step.run(t, r, p)
				}
				time.Sleep(2 * minute) // virtual time: requests that are still running
				if late := tc.name == "its own is silent" || strings.HasSuffix(tc.name, "slow"); late != (woken.Load() > 0) {
					t.Errorf("%d answers have started a round, want those that it was late for", woken.Load())
				}
			})
		})
	}
}

// outageStep is one round's request.
type outageStep struct {
	name    string
	fleet   *v1alpha1.NodeFleet
	after   time.Duration
	observe func(context.Context) (*provider.Inventory, error)
	want    string
	takes   time.Duration
	fault   string
	asked   int // number of requests in total
}

func (s *outageStep) run(t *testing.T, r *round, p *oneProvider) {
	t.Helper()
	time.Sleep(s.after) // virtual time
	synctest.Wait()
	began := time.Now()
	r.now, p.observe = began, s.observe
	i, _, err := r.inventory(t.Context(), s.fleet, p)
	if diff := cmp.Diff([]any{s.want, s.takes, s.asked}, []any{namesOf(i), time.Since(began), int(p.asked.Load())}); diff != "" {
		t.Errorf("%s: flavors, time, times asked (-want +got):\n%s", s.name, diff)
	}
	if (err == nil) != (s.fault == "") || err != nil && !strings.Contains(err.Error(), s.fault) {
		t.Errorf("%s: error %v, want %q", s.name, err, s.fault)
	}
}

// TestWhatAFleetHasOrderedCountsWhileItsProviderFails keeps two fleets from buying for the same pods then.
func TestWhatAFleetHasOrderedCountsWhileItsProviderFails(t *testing.T) {
	self, other := fleetNamed("self"), fleetNamed("other")
	all := &Reconciler{Clock: clock.RealClock{}}
	p := &oneProvider{observe: inventoryOf("a")}
	buyer := &round{Reconciler: all, fleet: other, now: epoch}
	if _, _, err := buyer.inventory(t.Context(), other, p); err != nil {
		t.Fatal(err)
	}
	buyer.recordOrder("a", 3)
	p.observe = func(context.Context) (*provider.Inventory, error) { return nil, errors.New("the cloud is down") }
	i, _, err := (&round{Reconciler: all, fleet: self, now: epoch}).inventory(t.Context(), other, p)
	if err != nil || i.Flavors[0].Want != 3 {
		t.Errorf("%+v, %v", i, err)
	}
}
