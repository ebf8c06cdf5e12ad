package moves

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/internal/cluster"
)

// TestAnExchangeDoesNotBuyForPodsThatEndBeforeTheMachinesCome has a machine at a dollar a minute, and new ones of half
// the size at half the price that are ready after 4 min.
func TestAnExchangeDoesNotBuyForPodsThatEndBeforeTheMachinesCome(t *testing.T) {
	for _, tc := range []struct {
		name string
		ways cluster.Ways
		ends time.Duration
		want string
	}{
		{"it waits for a pod that ends until then", anyWay, 2 * time.Minute, "[a -> new(p) q>]"},
		{"not if it must not, and buys for it", cluster.WaysOf(cluster.Migrate), 2 * time.Minute, "[a -> new(p) new(q)]"},
		{"for one that ends soon after as well", anyWay, 6 * time.Minute, "[a -> new(p) q>]"},
		{"but not for one that lasts as long as the other", anyWay, time.Hour, "[]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := leaving(ran(lasting(job("p", 5, 5), time.Hour), time.Minute), cluster.WaysOf(cluster.Migrate, cluster.Evict))
			s := state(node("a", p, leaving(lasting(job("q", 5, 5), tc.ends), tc.ways)))
			s.Lag = 4 * time.Minute
			s.Flavors = []cluster.Flavor{flavor("new", 5, 5, 30)}
			all := Exchange(s, ExchangeConfig{Horizon: time.Hour}, thrifty)
			if got := "[" + strings.Join(told(all), " ") + "]"; got != tc.want {
				t.Fatalf("exchanges %s, want %s", got, tc.want)
			}
			if len(all) == 0 {
				return
			}
			// By then p has run for 5 min, of which a migration would lose 2 % on average.
			leave := []cluster.Move{{Pod: "p", Method: cluster.Migrate, Takes: 30 * time.Second, Costs: 300_000}}
			if diff := cmp.Diff(leave, all[0].Leave[:1]); diff != "" {
				t.Errorf("how p leaves (-want +got):\n%s", diff)
			}
			if m := all[0].Moves; len(m) > 0 && m[0].Method != cluster.Wait {
				t.Errorf("q leaves by %v", m[0].Method)
			}
			if want := max(tc.ends, 4*time.Minute+30*time.Second); all[0].Until != want {
				t.Errorf("all have left in %v, want %v", all[0].Until, want)
			}
		})
	}
}
