package explain

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/status"
)

// Fleet prints the state of a fleet, its last decision, and why under-used machines stay.
func Fleet(w io.Writer, fleet *v1alpha1.NodeFleet) error {
	s := &fleet.Status
	var b strings.Builder
	fmt.Fprintf(&b, "NodeFleet %s, class %s, mode %s\n", fleet.Name, fleet.Spec.Class, fleet.Spec.Mode)
	fmt.Fprintf(&b, "%d machines, %d in flight, %d pods pending, $%s/h (machines for all its pods cost at least $%s/h)\n",
		s.Machines, s.InFlight, s.PendingPods, cmp.Or(s.Cost.DollarsPerHour, "?"), cmp.Or(s.Cost.LowerBoundDollarsPerHour, "?"))
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
		fmt.Fprintf(b, "  buy %d %s for %d pods: %s\n", buy.Count, buy.Flavor, buy.Pods, buy.Reason)
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
	writeOutcome(b, "expected", &d.Expected)
	if d.Measured == nil {
		b.WriteString("  measured: not yet\n")
		return
	}
	writeOutcome(b, "measured", d.Measured)
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

func writeOutcome(b *strings.Builder, name string, o *v1alpha1.Outcome) {
	fmt.Fprintf(b, "  %s: $%s/h, %d pods pending, ready after %d s\n", name, cmp.Or(o.DollarsPerHour, "?"), o.PendingPods, o.ReadySeconds)
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
		note := f.Message
		if f.BackOffUntil != nil {
			note = fmt.Sprintf("in back-off until %s after %d failures", f.BackOffUntil.UTC().Format("15:04:05"), f.Failures)
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
