package explain

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/status"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Fleet prints the state of a fleet, its last decision, and why under-used machines stay.
func Fleet(w io.Writer, fleet *v1alpha1.NodeFleet) error {
	s := &fleet.Status
	var b strings.Builder
	fmt.Fprintf(&b, "NodeFleet %s, class %s, mode %s\n", fleet.Name, fleet.Spec.Class, fleet.Spec.Mode)
	if text := unreported(s.ObservedGeneration); text != "" {
		_, err := io.WriteString(w, b.String()+text)
		return err
	}
	fmt.Fprintf(&b, "%s, %d in flight, %s pending", plural.Count(s.Machines, "machine"), s.InFlight, plural.Count(s.PendingPods, "pod"))
	if c := s.Cost; c.DollarsPerHour != "" {
		fmt.Fprintf(&b, ", $%s/h", c.DollarsPerHour)
		if c.LowerBoundDollarsPerHour != "" {
			fmt.Fprintf(&b, " (machines for all its pods cost at least $%s/h)", c.LowerBoundDollarsPerHour)
		}
	}
	b.WriteString("\n")
	if s.Intent != nil {
		fmt.Fprintf(&b, "In progress: %s, since %s\n", s.Intent.ID, s.Intent.Time.UTC().Format("15:04:05"))
	}
	writeConditions(&b, s.Conditions, v1alpha1.ConditionPaused, v1alpha1.FleetReady, v1alpha1.FleetPriced, v1alpha1.FleetLimited, v1alpha1.FleetDegraded)
	writeDeferral(&b, s.Deferral)
	writeDecision(&b, s.LastDecision)
	writeKept(&b, s.Kept)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return writeFlavors(w, s.Flavors)
}

// unreported returns the line that stands for the status of an object that the autoscaler has not written; empty if it has. Its
// zeros would read as what was observed.
func unreported(observedGeneration int64) string {
	text := status.Unreported(observedGeneration, "autoscaler")
	if text == "" {
		return ""
	}
	return text + " Check that it is running.\n"
}

// writeConditions prints the conditions of some types, in that order.
func writeConditions(b *strings.Builder, all []metav1.Condition, types ...string) {
	for _, kind := range types {
		if c := meta.FindStatusCondition(all, kind); c != nil {
			fmt.Fprintln(b, status.NewCondition(c))
		}
	}
}

func writeDecision(b *strings.Builder, d *v1alpha1.FleetDecision) {
	if d == nil {
		b.WriteString("\nNo decision to buy or release machines yet.\n")
		return
	}
	fmt.Fprintf(b, "\nLast decision, %s, mode %s:\n  %s\n", clockOf(d.Time.Time), d.Mode, d.Summary)
	for _, buy := range d.Buys {
		fmt.Fprintf(b, "  buy %d %s for %s: %s\n", buy.Count, buy.Flavor, plural.Count(buy.Pods, "pod"), buy.Reason)
		writePurchase(b, &buy)
	}
	for _, release := range d.Releases {
		fmt.Fprintf(b, "  release %s: %s\n", release.Node, release.Reason)
		writeRelease(b, &release)
	}
	writeDollars(b, d)
	for _, rejected := range d.Rejected {
		fmt.Fprintf(b, "  rejected %s: %s\n", rejected.Name, rejected.Reason)
	}
	writeOutcome(b, "expected", &d.Expected, len(d.Buys) > 0)
	if d.Measured == nil {
		fmt.Fprintf(b, "  measured: %s\n", unmeasured(string(d.Mode)))
		return
	}
	writeOutcome(b, "measured", d.Measured, len(d.Buys) > 0)
}

// unmeasured says why the outcome of a decision of a mode is not measured. All kinds have the same mode Observe.
func unmeasured(mode string) string {
	if mode == string(v1alpha1.FleetObserve) {
		return "nothing, because nothing is done in mode Observe"
	}
	return "not yet"
}

func writeKept(b *strings.Builder, kept []v1alpha1.KeptMachine) {
	if len(kept) == 0 {
		return
	}
	b.WriteString("\nUnder-used or empty machines that are kept:\n")
	for _, k := range kept {
		fmt.Fprintf(b, "  %s: %s\n", k.Node, k.Reason)
	}
}

// writeOutcome prints an outcome; when machines are ready, only of a decision that buys some.
func writeOutcome(b *strings.Builder, name string, o *v1alpha1.Outcome, buys bool) {
	price := "price unknown"
	if o.DollarsPerHour != "" {
		price = "$" + o.DollarsPerHour + "/h"
	}
	fmt.Fprintf(b, "  %s: %s, %s pending", name, price, plural.Count(o.PendingPods, "pod"))
	if buys {
		fmt.Fprintf(b, ", ready after %d s", o.ReadySeconds)
	}
	b.WriteString("\n")
}

func writeFlavors(w io.Writer, flavors []v1alpha1.FlavorStatus) error {
	if len(flavors) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "\nFLAVOR\t$/H\tCPU\tMEMORY\tPODS\tMACHINES\tMIN\tMAX\tLAG\tNOTE")
	for _, f := range flavors {
		lag := "-"
		if f.Lag != nil {
			lag = fmt.Sprintf("%v ± %v", f.Lag.Mean.Duration, f.Lag.Deviation.Duration)
		}
		note := cmp.Or(f.Message, f.Warning)
		if f.BackOffUntil != nil {
			note = fmt.Sprintf("in back-off until %s (consecutive back-offs: %d)", f.BackOffUntil.UTC().Format("15:04:05"), f.Failures)
		}
		most := "-"
		if f.Max < math.MaxInt32 {
			most = strconv.Itoa(int(f.Max))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\n",
			f.Name, cmp.Or(f.PricePerHour, "?"), f.CPU, f.Memory, f.MaxPods, f.Machines, f.Min, most, lag, note)
	}
	return t.Flush()
}

// writePurchase prints the expected cost of machines until they are empty again, and its parts.
// Decisions of older versions lack these fields.
func writePurchase(b *strings.Builder, p *v1alpha1.DecidedPurchase) {
	if p.DollarsUntilEmpty == "" {
		return
	}
	fmt.Fprintf(b, "    at $%s/h, %v to start, paid for %v in all: $%s until they are empty\n",
		p.PricePerHour, ofSeconds(p.StartSeconds), ofSeconds(p.BilledSeconds), p.DollarsUntilEmpty)
	listed := int32(0)
	for i := range p.Machines {
		m := &p.Machines[i]
		listed += m.Count
		if m.BusySeconds > 0 {
			fmt.Fprintf(b, "    %d busy for %v, paid for %v each: $%s", m.Count, ofSeconds(m.BusySeconds), ofSeconds(m.BilledSeconds), m.DollarsUntilEmpty)
		} else {
			fmt.Fprintf(b, "    %d not expected to become empty, compared by what %v cost: $%s", m.Count, ofSeconds(m.BilledSeconds), m.DollarsUntilEmpty)
		}
		fmt.Fprintf(b, ", for %s\n", someOf(m.PodNames, m.Pods))
	}
	if more := p.Count - listed; more > 0 && listed > 0 {
		fmt.Fprintf(b, "    %d more, each paid for at most as long as these\n", more)
	}
}

func ofSeconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// someOf returns the number of pods and the given names, which may be a part of them.
func someOf(names []string, pods int32) string {
	text := plural.Count(pods, "pod")
	if len(names) == 0 {
		return text
	}
	text += ": " + strings.Join(names, ", ")
	if more := int(pods) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func writeRelease(b *strings.Builder, r *v1alpha1.DecidedRelease) {
	if r.KeepDollars != "" {
		fmt.Fprintf(b, "    keeping it to the end of the next billing period would cost $%s, starting another machine $%s\n", r.KeepDollars, cmp.Or(r.StartDollars, "?"))
	}
	if r.SavesDollars != "" {
		fmt.Fprintf(b, "    saves $%s and costs $%s\n", r.SavesDollars, cmp.Or(r.CostsDollars, "?"))
	}
}

// writeDeferral prints which pods wait for room, and what that saves.
func writeDeferral(b *strings.Builder, d *v1alpha1.FleetDeferral) {
	if d != nil {
		fmt.Fprintf(b, "Waiting saves $%s: %s; room for the last pod is expected at %s, and a machine for the first pod is due at %s at the latest; %s\n",
			d.SavesDollars, d.Reason, d.RoomTime.UTC().Format("15:04:05"), d.BuyTime.UTC().Format("15:04:05"), someOf(d.PodNames, d.Pods))
	}
}

// writeDollars prints the totals of a decision.
func writeDollars(b *strings.Builder, d *v1alpha1.FleetDecision) {
	if d.DollarsUntilEmpty != "" {
		fmt.Fprintf(b, "  expected until all machines bought are empty: $%s\n", d.DollarsUntilEmpty)
	}
	if d.Deferral != nil {
		b.WriteString("  ")
		writeDeferral(b, d.Deferral)
	}
	if d.SavesDollars != "" {
		fmt.Fprintf(b, "  emptying or exchanging machines saves $%s and costs $%s\n", d.SavesDollars, cmp.Or(d.CostsDollars, "?"))
	}
}
