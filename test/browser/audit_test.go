//go:build browser

package browser

import (
	"io"
	"testing"

	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/cli/auditreport"
	"supercargo.dev/supercargo/internal/text/dollars"
)

// sampleAudit is an audit with long names, obstacles, and nodes without a price.
func sampleAudit() *audit.Result {
	machines := []audit.Count{
		{InstanceType: "m7g.2xlarge", Arch: "arm64", CapacityType: audit.OnDemand, Count: 5, PricePerHour: 326_400},
		{InstanceType: "m7g.2xlarge", Arch: "arm64", CapacityType: audit.Spot, Count: 4, PricePerHour: 114_240},
	}
	bill := func(price dollars.Amount, nodes int) audit.Bill {
		return audit.Bill{PerHour: price, PerMonth: audit.HoursPerMonth * price, Nodes: nodes, Machines: machines}
	}
	d := &audit.Result{
		Source: "list prices of aws in us-east-1", Nodes: 12, PricedNodes: 9, Pods: 63, PricedPods: 48, PlannedPods: 40,
		Pricing: []string{"Prices: list prices of aws in us-east-1.", "No list prices of aws in eu-west-1 are included: 3 nodes there have those of us-east-1, the nearest region with prices; --region selects another, and --prices states yours."},
		Notes:   []string{"Types of amd64 are left out: all 12 images were seen on arm64 only. --arch amd64 includes them."},
		Now:     bill(2_090_000, 9), Moved: bill(1_700_000, 7), Cheapest: bill(900_000, 3), Bound: 850_000, Moves: 9, Emptied: []string{"a", "b"},
		Requested: audit.Shares{CPU: 0.4, Memory: 0.5, Pods: 0.2, Nodes: 9}, Used: &audit.Shares{CPU: 0.1, Memory: 0.3, Nodes: 8},
	}
	one := bill(1_000_000, 4)
	d.Homogeneous = &one
	d.ByNamespace = audit.Allocation{By: "namespace", Idle: 1_000_000, Parts: []audit.Part{
		{Name: "kube-system", Pods: 20, PerHour: 500_000, PerMonth: 365_000_000}, {Name: "a-namespace-with-a-name-that-is-as-long-as-it-may-be-63-letters", Pods: 28, UnpricedPods: 15, PerHour: 590_000, PerMonth: 430_700_000},
	}}
	d.ByLabel = &audit.Allocation{By: "label app.kubernetes.io/part-of", Idle: 1_000_000, Parts: []audit.Part{{Name: "", Pods: 48, PerHour: 1_090_000, PerMonth: 795_700_000}}}
	d.Obstacles = []audit.Cost{
		{Kind: "annotation cluster-autoscaler.kubernetes.io/safe-to-evict: false", Subject: "Deployment payments-and-settlements/reconciliation-worker-nightly", Advice: "remove the annotation", Pods: 4, Nodes: 3, NodesPerHour: 900_000, Lowers: audit.LowersMoved, SavesPerHour: new(dollars.Amount(320_000))},
		{Kind: "topology spread", Subject: "all workloads", Advice: "whenUnsatisfiable: ScheduleAnyway", Pods: 4, Nodes: 3, NodesPerHour: 900_000, Lowers: audit.LowersCheapest},
	}
	for _, name := range []string{"ip-192-168-101-202.eu-west-1.compute.internal", "aks-userpool1-37259143-vmss00001a"} {
		d.Worst = append(d.Worst, audit.Worst{
			Node: name, InstanceType: "m7g.2xlarge", CapacityType: audit.Spot, PerHour: 114_240, IdlePerHour: 100_000, Pods: 3,
			Remedy: "2 of its 3 pods may not be moved, such as payments-and-settlements/reconciliation-worker-nightly-6d8f9c7b5-x2x4z: it has no controller that would create it again",
		})
		d.Unpriced = append(d.Unpriced, audit.Stay{Node: name, InstanceType: "m7g.2xlarge", Reason: "it is a spot machine, whose price changes: set annotation supercargo.dev/price-per-hour to its price, or spot_price_per_hour of m7g.2xlarge in --prices"})
	}
	return d
}

// brokenWords are the words of table cells that continue on a second line although they are names, and columns of text
// that are too narrow to read.
const brokenWords = `(() => {
  const faults = [];
  for (const cell of document.querySelectorAll("th, td")) {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      for (const word of walker.currentNode.data.matchAll(/[^\s/:-]+/g)) {
        const range = document.createRange();
        range.setStart(walker.currentNode, word.index);
        range.setEnd(walker.currentNode, word.index + word[0].length);
        const lines = new Set([...range.getClientRects()].map((r) => Math.round(r.top)));
        if (lines.size > 1) faults.push("broken: " + word[0]);
      }
    }
  }
  return faults;
})()`

func TestThePageOfAnAuditReadsOnPhonesAndDesktops(t *testing.T) {
	html := written(t, func(w io.Writer) error { return auditreport.WriteHTML(w, sampleAudit()) })
	for _, v := range []view{{"light", 400}, {"dark", 400}, {"light", 1280}, {"dark", 1280}} {
		t.Run(v.String(), func(t *testing.T) {
			p := open(t, html, v)
			for _, check := range []string{"checks.overflow()", "checks.text()", brokenWords} {
				for _, fault := range ask[[]string](t, p, check) {
					t.Error(fault)
				}
			}
			for _, fault := range p.seen(t) {
				t.Error(fault)
			}
			p.picture(t, "audit-"+v.String())
		})
	}
}
