package moves

import (
	"strings"
	"testing"

	"supercargo.dev/supercargo/internal/cluster"
)

func TestAMachineThatMustGoIsReplacedWhateverThatCosts(t *testing.T) {
	dear := flavor("dear", 10, 10, 500)
	full := node("full", fixed(service("f", 10, 10)))
	for _, tc := range []struct {
		name    string
		node    cluster.Node
		others  []cluster.Node
		flavors []cluster.Flavor
		want    string
		why     string
	}{
		{"another machine is bought, however dear", node("a", service("p", 4, 4)), nil, []cluster.Flavor{dear}, "a -> dear(p)", ""},
		{"the cheapest one", node("a", service("p", 4, 4)), nil, []cluster.Flavor{dear, flavor("small", 4, 4, 20)}, "a -> small(p)", ""},
		{"room on other nodes costs less", node("a", service("p", 4, 4)), []cluster.Node{node("b", service("q", 2, 2))}, []cluster.Flavor{dear}, "a -> p>b", ""},
		{"other nodes are full", node("a", service("p", 4, 4)), []cluster.Node{full}, []cluster.Flavor{dear}, "a -> dear(p)", ""},
		{"an empty machine", node("a"), nil, []cluster.Flavor{dear}, "a ->", ""},
		{"a young machine", with(node("a", service("p", 4, 4)), func(n *cluster.Node) { n.Age = 0 }), nil, []cluster.Flavor{dear}, "a -> dear(p)", ""},
		{"nothing can be bought", node("a", service("p", 4, 4)), nil, nil, "", "no machine can be bought for them"},
		{"a pod that stays", node("a", fixed(service("p", 4, 4))), nil, []cluster.Flavor{dear}, "", "pod p must not be moved"},
		{"a machine that is kept", with(node("a", service("p", 4, 4)), func(n *cluster.Node) { n.Kept, n.KeptFor = true, "somebody says so" }), nil, []cluster.Flavor{dear}, "", "somebody says so"},
		{"a machine that is being drained", with(node("a", service("p", 4, 4)), func(n *cluster.Node) { n.Phase = cluster.Leaving }), nil, []cluster.Flavor{dear}, "", "not ready, or is being drained already"},
		{"a machine to which pods are moving", with(node("a", service("p", 4, 4)), func(n *cluster.Node) { n.Incoming = 1 }), nil, []cluster.Flavor{dear}, "", "pods are on their way to it"},
		{"a machine that is not there", node("b"), nil, []cluster.Flavor{dear}, "", "not ready, or is being drained"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := state(append([]cluster.Node{tc.node}, tc.others...)...)
			s.Flavors = tc.flavors
			e, why := Replace(s, day, "a", thrifty)
			got := ""
			if why == "" {
				got = strings.TrimSpace(told([]cluster.Exchange{e})[0])
			}
			if got != tc.want || !strings.Contains(why, tc.why) || (why == "") != (tc.why == "") {
				t.Errorf("%q because %q, want %q because %q", got, why, tc.want, tc.why)
			}
		})
	}
}

// TestTheReplacementOfAMachineSaysWhatItCosts has an exchange that is not worth its price.
func TestTheReplacementOfAMachineSaysWhatItCosts(t *testing.T) {
	for price, says := range map[int64]string{500: "costs $440.0000 an hour more", 20: "saves $40.0000 an hour"} {
		s := state(node("a", service("p", 4, 4)))
		s.Flavors = []cluster.Flavor{flavor("other", 10, 10, price)}
		if e, why := Replace(s, day, "a", thrifty); why != "" || !strings.Contains(e.Reason, says) {
			t.Errorf("at $%d: %q %q, want %q", price, e.Reason, why, says)
		}
		if got := Exchange(s, day, thrifty); (len(got) > 0) != (price == 20) {
			t.Errorf("at $%d: exchanged for the price: %v", price, told(got))
		}
	}
}
