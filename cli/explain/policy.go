package explain

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/status"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Policy prints the last decision of a ReplicaPolicy, and its reasons.
func Policy(w io.Writer, p *v1alpha1.ReplicaPolicy) error {
	s, spec := &p.Status, &p.Spec
	var b strings.Builder
	fmt.Fprintf(&b, "ReplicaPolicy %s of %s %s, law %s, mode %s\n", p.Name, spec.Target.Kind, spec.Target.Name, spec.Law.Name, spec.Mode)
	if spec.SLO != nil {
		fmt.Fprintf(&b, "Target: a mean response time of %v\n", spec.SLO.ResponseTime.Duration)
	}
	if text := unreported(s.ObservedGeneration); text != "" {
		_, err := io.WriteString(w, b.String()+text)
		return err
	}
	desired := plural.Count(s.DesiredReplicas, "replica") + " desired"
	if s.DesiredReplicas == 0 { // at least one, once it is decided
		desired = "Desired replicas: not decided yet"
	}
	fmt.Fprintf(&b, "%s (%d to %d allowed); %d in the spec of the target, %s, %d of them Ready\n",
		desired, spec.MinReplicas, spec.MaxReplicas, s.SpecReplicas, plural.Count(s.Replicas, "pod"), s.ReadyReplicas)
	if s.StartUp != nil {
		fmt.Fprintf(&b, "Pods take %v ± %v to become Ready, learned from %s\n", s.StartUp.Mean.Duration, s.StartUp.Deviation.Duration, plural.Count(s.StartUp.Samples, "pod"))
	}
	for i := range s.Conditions {
		fmt.Fprintln(&b, status.NewCondition(&s.Conditions[i]))
	}
	if o := s.LastObservation; o != nil {
		fmt.Fprintf(&b, "\nMeasured, %s: %s\n", clockOf(o.Time.Time), policyFigures(o))
		for _, n := range o.Notes {
			fmt.Fprintf(&b, "  %s\n", n)
		}
	}
	writePolicyDecision(&b, s.LastDecision)
	if s.Memory != nil {
		fmt.Fprintf(&b, "Memory: %s, written %s, for %s\n", plural.Count(len(s.Memory.Data.Raw), "byte"), s.Memory.Time.UTC().Format("15:04:05"), s.Memory.Of)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// policyFigures returns the measurements as one line.
func policyFigures(o *v1alpha1.ReplicaObservation) string {
	return fmt.Sprintf("%s requests/s, response time %s, queue length %s, utilisation %s %%, with %d of %s Ready",
		cmp.Or(o.ArrivalRate, "?"), durationOr(o.ResponseTime, "?"), cmp.Or(o.QueueLength, "?"), cmp.Or(o.UtilizationPercent, "?"), o.ReadyReplicas, plural.Count(o.SpecReplicas, "replica"))
}

func writePolicyDecision(b *strings.Builder, d *v1alpha1.ReplicaDecision) {
	if d == nil {
		b.WriteString("\nNo decision yet.\n")
		return
	}
	shown := status.OfPolicy("", d)
	fmt.Fprintf(b, "\nLast decision, %s, mode %s: %s\n", clockOf(d.Time.Time), d.Mode, shown.Summary)
	for _, reason := range shown.Terms {
		fmt.Fprintf(b, "  %s\n", reason)
	}
	fmt.Fprintf(b, "  based on: %s\n", policyFigures(&d.Observation))
	writePolicyOutcome(b, "expected", &d.Expected)
	if d.Measured == nil {
		fmt.Fprintf(b, "  measured: %s\n", unmeasured(string(d.Mode)))
		return
	}
	writePolicyOutcome(b, "measured", d.Measured)
}

func writePolicyOutcome(b *strings.Builder, name string, o *v1alpha1.ReplicaOutcome) {
	fmt.Fprintf(b, "  %s: %s requests/s, response time %s, utilisation %s %%, all Ready after %d s\n",
		name, cmp.Or(o.ArrivalRate, "?"), durationOr(o.ResponseTime, "?"), cmp.Or(o.UtilizationPercent, "?"), o.ReadySeconds)
}
