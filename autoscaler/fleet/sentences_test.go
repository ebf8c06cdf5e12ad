package fleet

import (
	"strings"
	"testing"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/test/kit/sentences"
)

// TestEachSentenceOfADecisionIsSaidWhereItIsTrueAndNotWhereItIsNot has all sentences of the Events Buy, Release and
// Exchange.
func TestEachSentenceOfADecisionIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	const bound = "0.10"
	bought := func(mode v1alpha1.FleetMode, change func(*fleetdecide.FleetDecision, *v1alpha1.FleetDecision)) string {
		fleet := &fleetdecide.FleetDecision{Asked: 3}
		for _, pods := range [][]string{{"a"}, {"b", "c"}} {
			fleet.Plan.Machines = append(fleet.Plan.Machines, purchase.Machine{Flavor: "small", Pods: pods, Reason: "to hold " + pods[0]})
		}
		d := &v1alpha1.FleetDecision{Mode: mode, PricePerHour: "0.20", LowerBoundPerHour: bound}
		d.Buys = []v1alpha1.DecidedPurchase{decidedPurchase(v1alpha1.FleetOrder{Flavor: "small", To: 2}, fleet)}
		change(fleet, d)
		return summarize(d, fleet, len(fleet.Plan.Unplaceable))
	}
	whole := bought(v1alpha1.FleetAct, func(*fleetdecide.FleetDecision, *v1alpha1.FleetDecision) {})
	observing := bought(v1alpha1.FleetObserve, func(*fleetdecide.FleetDecision, *v1alpha1.FleetDecision) {})
	unbounded := bought(v1alpha1.FleetAct, func(_ *fleetdecide.FleetDecision, d *v1alpha1.FleetDecision) { d.LowerBoundPerHour = "" })
	roomy := bought(v1alpha1.FleetAct, func(f *fleetdecide.FleetDecision, _ *v1alpha1.FleetDecision) { f.Served = 1 })
	unplaced := bought(v1alpha1.FleetAct, func(f *fleetdecide.FleetDecision, _ *v1alpha1.FleetDecision) {
		f.Plan.Unplaceable = []purchase.Unplaceable{{Pod: "d"}}
	})
	deferring := bought(v1alpha1.FleetAct, func(f *fleetdecide.FleetDecision, _ *v1alpha1.FleetDecision) {
		f.Deferral = &fleetdecide.Deferral{Pods: []string{"e"}, BuyNow: 744_000, Wait: 732_000}
	})
	withheld := bought(v1alpha1.FleetAct, func(f *fleetdecide.FleetDecision, _ *v1alpha1.FleetDecision) {
		f.Withheld = &fleetdecide.Withheld{Pods: []string{"f"}, Machines: 1, OnOrder: 3, Needed: 1}
	})
	fewer := bought(v1alpha1.FleetAct, func(f *fleetdecide.FleetDecision, d *v1alpha1.FleetDecision) {
		d.Buys[0] = decidedPurchase(v1alpha1.FleetOrder{Flavor: "small", To: 1}, f)
	})
	released := func(reasons ...string) string {
		d := &v1alpha1.FleetDecision{}
		for i, reason := range reasons {
			d.Releases = append(d.Releases, v1alpha1.DecidedRelease{Node: string(rune('a' + i)), Reason: reason})
		}
		return summarize(d, &fleetdecide.FleetDecision{}, 0)
	}
	growing := func(count, toMinimum int32) string {
		return bought(v1alpha1.FleetAct, func(f *fleetdecide.FleetDecision, d *v1alpha1.FleetDecision) {
			f.ToMinimum = map[string]int{"small": int(toMinimum)}
			d.Buys[0] = decidedPurchase(v1alpha1.FleetOrder{Flavor: "small", To: count}, f)
		})
	}
	reason := func(expected, toMinimum int) string {
		fleet := &fleetdecide.FleetDecision{Expected: expected, ToMinimum: map[string]int{"small": toMinimum}}
		for _, why := range []string{"one", "two"} {
			fleet.Plan.Machines = append(fleet.Plan.Machines, purchase.Machine{Flavor: "small", Pods: []string{why}, Reason: why})
		}
		return decidedPurchase(v1alpha1.FleetOrder{Flavor: "small", To: int32(2 + toMinimum)}, fleet).Reason
	}
	if want := "buy 1 small to reach the minimum at $0.20/h"; !strings.HasPrefix(growing(1, 1), want) {
		t.Errorf("for the minimum alone it says %q", growing(1, 1))
	}
	if want := "buy 3 small for 3 pods and to reach the minimum at $0.20/h"; !strings.HasPrefix(growing(3, 1), want) {
		t.Errorf("for pods and the minimum it says %q", growing(3, 1))
	}
	if want := "buy 2 small for 3 pods at $0.20/h"; unbounded != want || whole != want+" (bound $"+bound+"/h)" {
		t.Errorf("without and with a bound it says %q and %q", unbounded, whole)
	}
	if want := "; no machine is bought for 1 pod: 3 machines are on order, and 1 would be enough for all waiting pods if they had come at once"; withheld != whole+want {
		t.Errorf("with enough machines on order it says %q", withheld)
	}
	sentences.Check(t, []string{"decision.go"}, []sentences.Case{
		{"would buy", observing, whole},
		{" to reach the minimum", growing(2, 1), whole},
		{" and to reach the minimum", growing(3, 1), growing(1, 1)},
		{" to reach the minimum of the flavor", reason(0, 1), reason(0, 0)},
		{"this round orders no machine for ", fewer, whole},
		{"other pod", fewer, whole},
		{"%s %s room without new machines", roomy, whole},
		{"%s %s no machine", unplaced, whole},
		{"%s %s for room that becomes free, which saves $%s", deferring, whole},
		{"%s: %s; and for other reasons %s", released("it is empty", "its pod fits on another node"), released("it is empty", "it is empty")},
		{" and %d more", released("x", "x", "x", "x", "x", "x"), released("x", "x", "x", "x", "x")},
		{"; that may include pods that are expected soon", reason(1, 0), reason(0, 0)},
	}, nil)
}
