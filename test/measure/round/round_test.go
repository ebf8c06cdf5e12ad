package round

import (
	"strings"
	"testing"
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
