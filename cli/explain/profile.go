package explain

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Profile prints whether a profile is used, its models, and how far they are trusted at a time.
func Profile(w io.Writer, o *v1alpha1.MachineProfile, now time.Time) error {
	var b strings.Builder
	fmt.Fprintf(&b, "MachineProfile %s, machine type %s\n", o.Name, o.Spec.MachineType)
	if p := o.Spec.Power; p != nil {
		fmt.Fprintf(&b, "Power: %.4g W without load, %.4g W at full load\n", p.IdleWatts.AsApproximateFloat64(), p.FullWatts.AsApproximateFloat64())
	}
	m, err := profile.FromObject(o)
	switch {
	case errors.Is(err, profile.ErrNothingLearned):
		b.WriteString("Not used: nothing has been learned yet. Nodes of the type get a neutral score.\n")
	case err != nil:
		fmt.Fprintf(&b, "Not used: %v. Nodes of the type get a neutral score.\n", err)
	default:
		if !m.Learned.IsZero() {
			fmt.Fprintf(&b, "Learned: %s, %v ago\n", m.Learned.UTC().Format(time.RFC3339), m.Age(now).Round(time.Minute))
		}
		writeModel(&b, "Energy", "J", m.Profile.Energy, m.Age(now))
		writeModel(&b, "Runtime", "s", m.Profile.Runtime, m.Age(now))
		if m.Governor != "" {
			fmt.Fprintf(&b, "These models are for the CPU governor %s\n", m.Governor)
		}
		for i := range m.Others {
			o := &m.Others[i]
			fmt.Fprintf(&b, "For the CPU governor %s:\n", o.Governor)
			writeModel(&b, "Energy", "J", o.Profile.Energy, m.Age(now))
			writeModel(&b, "Runtime", "s", o.Profile.Runtime, m.Age(now))
		}
	}
	for _, what := range []string{v1alpha1.ProfileLearned, v1alpha1.ProfileProbed} {
		if c := meta.FindStatusCondition(o.Status.Conditions, what); c != nil {
			fmt.Fprintf(&b, "%s: %s, %s (%s)\n", what, c.Status, c.Message, c.Reason)
		}
	}
	_, err = io.WriteString(w, b.String())
	return err
}

func writeModel(b *strings.Builder, name, unit string, m profile.Model, age time.Duration) {
	var terms []string
	for i, t := range m.Terms {
		terms = append(terms, fmt.Sprintf("%.4g·%s", m.Coefficients[i], t))
	}
	q, r := m.Quality, m.Range
	fmt.Fprintf(b, "%s in %s: %s\n", name, unit, strings.Join(terms, " + "))
	fmt.Fprintf(b, "  %s of %s, R² %.3f, usual error on unseen sizes %.1f %%\n", plural.Count(q.Samples, "sample"), plural.Count(q.Sizes, "size"), q.RSquared, 100*q.Spread)
	fmt.Fprintf(b, "  learned from %s to %s: %.4g to %.4g %s\n", sizeText(r.Least), sizeText(r.Most), r.LeastValue, r.MostValue, unit)
	p := m.Predict(profile.Size{MilliCPU: (r.Least.MilliCPU + r.Most.MilliCPU) / 2, MemoryBytes: (r.Least.MemoryBytes + r.Most.MemoryBytes) / 2}, age)
	fmt.Fprintf(b, "  in the middle of that range: %.4g %s, trusted to %.0f %%%s\n", p.Value, unit, 100*p.Trust, because(p.Doubts))
}

func sizeText(s profile.Size) string {
	return fmt.Sprintf("%g CPU, %.3g GiB", float64(s.MilliCPU)/1000, float64(s.MemoryBytes)/(1<<30))
}

func because(d profile.Doubt) string {
	if d == 0 {
		return ""
	}
	return " (" + d.String() + ")"
}
