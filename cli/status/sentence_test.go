package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/internal/text/dollars"
)

// TestEachSentenceAboutFiguresIsTrue has each sentence with what must be true for it, through the page that it stands on.
func ended(pod *corev1.Pod) *corev1.Pod {
	pod.Status.Phase = corev1.PodSucceeded
	return pod
}

func TestEachSentenceAboutFiguresIsTrue(t *testing.T) {
	nodes := func(n int) (all []*corev1.Node) {
		for i := range n {
			all = append(all, aNode(string(rune('a'+i))))
		}
		return all
	}
	prices := func(known ...string) map[string]Price {
		all := map[string]Price{"a": {Unpriced: "x"}, "b": {Unpriced: "x"}, "c": {Unpriced: "x"}}
		for _, name := range known {
			all[name] = Price{MicroDollarsPerHour: 250_000}
		}
		return all
	}
	for _, tc := range []struct {
		name     string
		snapshot *Snapshot
		says     func(*Sentences) string
		want     string
	}{
		{"no nodes", &Snapshot{}, priced, "There are no nodes."},
		{"nodes before their prices are looked up", &Snapshot{Nodes: nodes(2)}, priced, "Prices are being read."},
		{"nodes whose prices could not be looked up", &Snapshot{Nodes: nodes(2), Audit: &Audit{Error: "no"}}, priced, "Prices could not be read: no."},
		{"one node without a price", &Snapshot{Nodes: nodes(1), Prices: prices()}, priced, "The only node has no known price."},
		{"nodes without a price", &Snapshot{Nodes: nodes(2), Prices: prices()}, priced, "No node has a known price."},
		{"one of three without a price", &Snapshot{Nodes: nodes(3), Prices: prices("a", "b")}, priced, "1 of 3 nodes has no known price and is not included."},
		{"two of three without a price", &Snapshot{Nodes: nodes(3), Prices: prices("a")}, priced, "2 of 3 nodes have no known price and are not included."},
		{"one priced node", &Snapshot{Nodes: nodes(1), Prices: prices("a")}, priced, "For the only node."},
		{"priced nodes", &Snapshot{Nodes: nodes(2), Prices: prices("a", "b")}, priced, "For both nodes."},

		{"no nodes", &Snapshot{}, powered, ""},
		{"one node of an unknown type", &Snapshot{Nodes: nodes(1)}, powered, "The power of the node's machine type is unknown."},
		{"nodes of an unknown type", &Snapshot{Nodes: nodes(2)}, powered, "The power of the nodes' machine types is unknown."},
		{"one of two of a known type", &Snapshot{Nodes: known(nodes(2), 1)}, powered, "Modelled from what pods request. The model covers 1 of 2 nodes."},
		{"one of a known type", &Snapshot{Nodes: known(nodes(1), 1)}, powered, "Modelled from what pods request, for the only node."},
		{"all of known types", &Snapshot{Nodes: known(nodes(2), 2)}, powered, "Modelled from what pods request, for both nodes."},

		{"no nodes", &Snapshot{}, ofNodes, ""},
		{"nodes without pods", &Snapshot{Nodes: nodes(2)}, ofNodes, "2 ready, 2 empty"},
		{"a node with a pod", &Snapshot{Nodes: nodes(1), Pods: []*corev1.Pod{aPod("p", "a")}}, ofNodes, "1 ready"},

		{"no pods", &Snapshot{}, ofPending, "None waits for a node."},
		{"no pods at that time", &Snapshot{}, ofWaited, "None waited for a node."},
		{"one pod, which waits", &Snapshot{Pods: []*corev1.Pod{aPod("p", "")}}, ofPending, "1 waits for a node."},
		{"a pod that waits besides one that runs", &Snapshot{Nodes: nodes(1), Pods: []*corev1.Pod{aPod("p", "a"), aPod("q", "")}}, ofPending, "1 more waits for a node."},
		{"two that wait besides one that runs", &Snapshot{Nodes: nodes(1), Pods: []*corev1.Pod{aPod("p", "a"), aPod("q", ""), aPod("r", "")}}, ofPending, "2 more wait for a node."},
		{"a pod on a node that is not listed", &Snapshot{Pods: []*corev1.Pod{aPod("p", "gone")}}, ofPending, "None waits for a node. 1 is on a node that is not listed."},
		{"pods on nodes that are not listed besides others", &Snapshot{Nodes: nodes(1), Pods: []*corev1.Pod{aPod("o", "a"), aPod("p", "gone"), aPod("q", "gone"), aPod("r", "")}}, ofPending,
			"1 more waits for a node. 2 more are on nodes that are not listed."},
		{"a pod that has ended on a node that is not listed", &Snapshot{Pods: []*corev1.Pod{ended(aPod("p", "gone"))}}, ofPending, "None waits for a node."},
		{"a pod that was on a node that was not listed", &Snapshot{Pods: []*corev1.Pod{aPod("p", "gone")}}, ofWaited, "None waited for a node. 1 was on a node that was not listed."},
		{"two that waited besides one that ran", &Snapshot{Nodes: nodes(1), Pods: []*corev1.Pod{aPod("p", "a"), aPod("q", ""), aPod("r", "")}}, ofWaited, "2 more waited for a node."},

		{"before the first audit", &Snapshot{}, ofAudit, "The possible cost is being computed."},
		{"without audits", &Snapshot{NoAudits: true}, ofAudit, "The possible cost is not computed, because --audit-interval is 0."},
		{"without audits, and prices could not be read", &Snapshot{NoAudits: true, Audit: &Audit{Error: "no"}}, ofAudit, "The possible cost is not computed, because --audit-interval is 0."},
		{"a first audit that failed", &Snapshot{Audit: &Audit{Error: "no list"}}, ofAudit, "The possible cost is unknown: no list"},
		{"an audit of the same cost", &Snapshot{Nodes: nodes(1), Prices: prices("a"), Audit: audited(250_000, 1, "")}, ofAudit, "The possible cost is as of {at}, at a list."},
		{"an audit of another cost", &Snapshot{Nodes: nodes(1), Prices: prices("a"), Audit: audited(250_001, 1, "")}, ofAudit,
			"The possible cost is as of {at}, at a list. The nodes or their prices have changed since."},
		{"an audit of as many dollars for fewer nodes", &Snapshot{Nodes: nodes(1), Prices: prices("a"), Audit: audited(250_000, 2, "")}, ofAudit,
			"The possible cost is as of {at}, at a list. The nodes or their prices have changed since."},
		{"an audit, and a later one that failed", &Snapshot{Nodes: nodes(1), Prices: prices("a"), Audit: audited(250_000, 1, "no list")}, ofAudit,
			"Not updated: no list. The possible cost is as of {at}, at a list."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.snapshot.Cycle = time.Minute
			if got := tc.says(&Of(tc.snapshot, now).Summary.Says); got != tc.want {
				t.Errorf("it says %q, want %q", got, tc.want)
			}
		})
	}
}

func priced(s *Sentences) string    { return s.Priced }
func powered(s *Sentences) string   { return s.Powered }
func ofNodes(s *Sentences) string   { return s.Nodes }
func ofPending(s *Sentences) string { return s.Pending }
func ofWaited(s *Sentences) string  { return s.Waited }
func ofAudit(s *Sentences) string   { return s.Audit }

// known gives the first n nodes a machine type whose power is known.
func known(all []*corev1.Node, n int) []*corev1.Node {
	for _, node := range all[:n] {
		node.Labels[corev1.LabelInstanceTypeStable] = "m5.large"
	}
	return all
}

func audited(microDollars int64, nodes int, fault string) *Audit {
	return &Audit{At: 1, Error: fault, Result: &audit.Result{Source: "a list", Now: audit.Bill{PerHour: dollars.Amount(microDollars), Nodes: nodes}}}
}

func TestNumbersInSentencesAreGroupedByThreeDigits(t *testing.T) {
	for n, want := range map[int]string{0: "0 nodes", 1: "1 node", 999: "999 nodes", 1000: "1,000 nodes", 12345: "12,345 nodes", 1234567: "1,234,567 nodes"} {
		if got := count(n, "node"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestDecisionsAreSaidOfOneAndOfMany has the sentences about decisions that have a number in them.
func TestDecisionsAreSaidOfOneAndOfMany(t *testing.T) {
	pool := func(d v1alpha1.WorkerDecision) Decision { return OfPool("p", &d) }
	for want, got := range map[string]string{
		"add 1 worker: x":              pool(v1alpha1.WorkerDecision{Add: 1, Reason: "x"}).Summary,
		"add 2 workers of flavor f: x": pool(v1alpha1.WorkerDecision{Add: 2, Flavor: "f", Reason: "x"}).Summary,
		"drain 1 worker: x":            pool(v1alpha1.WorkerDecision{Drain: []string{"w"}, Reason: "x"}).Summary,
		"drain 2 workers: x":           pool(v1alpha1.WorkerDecision{Drain: []string{"w", "v"}, Reason: "x"}).Summary,
		"1 task waited, 1 was expected to wait at the end of the initialisation time":   pool(v1alpha1.WorkerDecision{Waiting: 1, WaitingThen: 1}).Terms[0],
		"2 tasks waited, 0 were expected to wait at the end of the initialisation time": pool(v1alpha1.WorkerDecision{Waiting: 2}).Terms[0],
		"from 2 to 1 replica":    OfPolicy("p", &v1alpha1.ReplicaDecision{From: 2, To: 1}).Summary,
		"from 1 to 0 replicas":   OfPolicy("p", &v1alpha1.ReplicaDecision{From: 1}).Summary,
		"m from 0 to 1 machine":  doing(&v1alpha1.FleetIntent{Orders: []v1alpha1.FleetOrder{{Flavor: "m", To: 1}}}),
		"m from 1 to 2 machines": doing(&v1alpha1.FleetIntent{Orders: []v1alpha1.FleetOrder{{Flavor: "m", From: 1, To: 2}}}),
		"buy 1 m for 1 pod: y":   fleetTerms(&v1alpha1.FleetDecision{Buys: []v1alpha1.DecidedPurchase{{Flavor: "m", Count: 1, Pods: 1, Reason: "y"}}})[0],
		"buy 2 m for 3 pods: y":  fleetTerms(&v1alpha1.FleetDecision{Buys: []v1alpha1.DecidedPurchase{{Flavor: "m", Count: 2, Pods: 3, Reason: "y"}}})[0],
	} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
