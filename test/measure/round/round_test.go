package round

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/internal/world"
)

// TestEachCaseIsARoundThatDecides measures small clusters.
func TestEachCaseIsARoundThatDecides(t *testing.T) {
	for name, decides := range map[string]string{
		"quiet": "nothing", "changed": "nothing", "burst": "buy ", "spread": "buy ", "drains": "", "under-used": "release ",
	} {
		t.Run(name, func(t *testing.T) {
			f, err := once(t.Context(), options{}, 60, 30, name)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(f.Decision, decides) || decides == "" && f.Evictions == 0 {
				t.Errorf("it decided %q and evicted %d pods, want %q", f.Decision, f.Evictions, decides)
			}
			if f.Nodes != 60 || f.Pods != 1200 || f.Flavors != 30 || f.Case != name || f.PeakBytes == 0 || f.GarbageBytes == 0 || f.DecideSeconds <= 0 || f.ObserveSeconds <= 0 {
				t.Errorf("the figures are %+v", f)
			}
		})
	}
}

// TestARoundWithoutChangesSendsFewRequests: the number of requests does not grow with the cluster.
func TestARoundWithoutChangesSendsFewRequests(t *testing.T) {
	for _, nodes := range []int{30, 90} {
		f, err := once(t.Context(), options{}, nodes, 30, "quiet")
		if err != nil {
			t.Fatal(err)
		}
		if f.APIRequests != 7 {
			t.Errorf("a round over %d nodes sent %d requests, want 7", nodes, f.APIRequests)
		}
	}
}

// TestARoundChangesNoCachedObject: the round has the pods of the cache itself, and other objects in parts.
func TestARoundChangesNoCachedObject(t *testing.T) {
	for _, name := range caseNames() {
		t.Run(name, func(t *testing.T) {
			s, err := newSite(60, 30, cases[name], false)
			if err != nil {
				t.Fatal(err)
			}
			s.change(cases[name])
			before := map[client.Object]string{}
			for _, kind := range world.Kinds(false) {
				for _, o := range s.api.All(kind) {
					before[o] = written(t, o)
				}
			}
			if _, err := s.round(t.Context()); err != nil {
				t.Fatal(err)
			}
			for o, text := range before {
				if now := written(t, o); now != text {
					t.Errorf("%T %s was changed from\n%s to\n%s", o, o.GetName(), text, now)
				}
			}
		})
	}
}

func written(t *testing.T, o client.Object) string {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAnUnknownCaseIsRefused(t *testing.T) {
	if err := run(t.Context(), options{cases: []string{"quite"}}); err == nil || !strings.Contains(err.Error(), `--cases: "quite"`) {
		t.Errorf("the error is %v", err)
	}
}

func TestMoreFlavorsThanThePriceListHasAreRefused(t *testing.T) {
	if _, err := once(t.Context(), options{}, 30, 758, "quiet"); err == nil || !strings.Contains(err.Error(), "at most 757") {
		t.Errorf("the error is %v", err)
	}
}
