package nodefleet

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/test/kit"
)

// scales reports whether a request changes the replicas of a MachineDeployment.
func scales(r *http.Request) bool {
	return r.Method != http.MethodGet && strings.HasSuffix(r.URL.Path, "/scale")
}

// Both autoscalers would be cut at their first purchase. The leader is, after its request has reached the API
// server. The other continues.
func TestWhenTheLeaderDiesTheOtherTakesOverWithoutASecondPurchase(t *testing.T) {
	t.Parallel()
	b := newBench(t, "leader")
	b.flavor("small", "2", "4Gi", "0.10")
	b.flavor("large", "8", "16Gi", "0.30")
	highest := b.highest()
	b.pods("p", 5, "1900m", "1Gi")
	b.wait(5)
	b.fleet("all")

	one, two := kit.NewCut(1, true), kit.NewCut(1, true)
	one.Match = func(r *http.Request) bool { return scales(r) && !two.Broken() }
	two.Match = func(r *http.Request) bool { return scales(r) && !one.Broken() }
	stops := map[*kit.Cut]func() error{}
	for _, c := range []*kit.Cut{one, two} {
		stop := b.Start(b.autoscaler(func(o *app.Options) {
			o.LeaderElection, o.LeaderElectionNamespace = true, b.Space
			o.Config.Wrap(c.Wrap)
		}))
		stops[c] = stop
		t.Cleanup(func() {
			if err := stop(); err != nil && !c.Broken() {
				t.Errorf("the autoscaler: %v", err)
			}
		})
	}
	var dead *kit.Cut
	b.Eventually("the leader dies", func() string {
		for c := range stops {
			if c.Broken() {
				dead = c
				return ""
			}
		}
		return "alive"
	})
	_ = stops[dead]() // its connection is gone
	// The two requests are sent concurrently.
	if !strings.HasSuffix(dead.What, "leader-large/scale") && !strings.HasSuffix(dead.What, "leader-small/scale") {
		t.Errorf("the leader died at %s", dead.What)
	}
	b.Runs(5)
	b.becomes(map[string]int{"large": 1, "small": 1})
	if each, _ := highest(); !cmp.Equal(map[string]int{"large": 1, "small": 1}, each) {
		t.Errorf("there were to be %v machines, want one of each", each)
	}
	b.removePods()
	b.becomes(map[string]int{})
}
