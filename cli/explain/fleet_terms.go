package explain

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
)

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
	text := fmt.Sprintf("%d pods", pods)
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
		fmt.Fprintf(b, "Waiting saves $%s: %s; room for the last pod is expected at %s, and a machine for the first pod is bought at %s at the latest; %s\n",
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
