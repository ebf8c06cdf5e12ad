package explain

import (
	"fmt"
	"io"
	"strings"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Consolidation prints the last decisions of the descheduler about nodes.
func Consolidation(w io.Writer, d *v1alpha1.ConsolidationStatus) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Consolidation, mode %s, policy %s, as of %s\n", d.Mode, d.Policy, d.Time.UTC().Format("2006-01-02 15:04:05"))
	if d.Paused != "" {
		fmt.Fprintln(&b, d.Paused)
	}
	fmt.Fprintf(&b, "%s; those that are not emptied cost $%s/h, and $%s/h after all decisions are carried out\n", plural.Count(int(d.Nodes), "node"), d.DollarsPerHour, d.ExpectedDollarsPerHour)
	if len(d.Emptying) > 0 {
		fmt.Fprintf(&b, "Being emptied: %s\n", strings.Join(d.Emptying, ", "))
	}
	if len(d.Emptied) > 0 {
		fmt.Fprintf(&b, "Emptied: %s\n", strings.Join(d.Emptied, ", "))
	}
	for _, drain := range d.Drains {
		fmt.Fprintf(&b, "\n%s, chosen at %s: %s\n", drain.Node, drain.Time.UTC().Format("15:04:05"), drain.Reason)
		for _, p := range drain.Pods {
			fmt.Fprintf(&b, "  %-8s %s", p.Method, p.Pod)
			if p.Target != "" {
				fmt.Fprintf(&b, " (room on %s)", p.Target)
			}
			if p.Reason != "" {
				fmt.Fprintf(&b, ": %s", p.Reason)
			}
			b.WriteString("\n")
		}
	}
	for i, t := range d.Energy {
		if i == 0 {
			fmt.Fprintf(&b, "\nPods that are better suited to other machines, as of %s:\n", t.Time.UTC().Format("15:04:05"))
		}
		fmt.Fprintf(&b, "  %-10s %s from %s to %s: %s\n", t.Method, t.Pod, t.From, t.Target, t.Reason)
	}
	if len(d.Kept) > 0 {
		b.WriteString("\nNodes that are kept:\n")
	}
	for _, k := range d.Kept {
		fmt.Fprintf(&b, "  %s: %s\n", k.Name, k.Reason)
	}
	if d.Omitted > 0 {
		fmt.Fprintf(&b, "%d more are not listed\n", d.Omitted)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
