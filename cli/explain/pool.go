package explain

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/status"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Pool prints the state of a WorkerPool, its last decision, and what it has learned.
func Pool(w io.Writer, p *v1alpha1.WorkerPool) error {
	s := &p.Status
	var b strings.Builder
	fmt.Fprintf(&b, "WorkerPool %s/%s, mode %s, phase %s\n", p.Namespace, p.Name, p.Spec.Mode, cmp.Or(string(s.Phase), "?"))
	if text := unreported(s.ObservedGeneration); text != "" {
		_, err := io.WriteString(w, b.String()+text)
		return err
	}
	fmt.Fprintf(&b, "%s connected, %d starting, %d draining; %d to %d allowed\n",
		plural.Count(s.Workers.Connected, "worker"), s.Workers.Starting, s.Workers.Draining, p.Spec.Limits.Min, p.Spec.Limits.Max)
	if q := s.Queue; q != nil {
		fmt.Fprintf(&b, "Manager %s: %s for %s cores, %s, %s done; it has lost %s\n",
			q.Address, plural.Count(q.Waiting, "task")+plural.Form(q.Waiting, " waits", " wait"), cmp.Or(s.ShortageCores, "?"), fmt.Sprint(q.Running)+plural.Form(q.Running, " runs", " run"),
			fmt.Sprint(q.Done)+plural.Form(q.Done, " is", " are"), plural.Count(q.WorkersLost, "worker"))
	}
	writeConditions(&b, s.Conditions, v1alpha1.ConditionPaused, v1alpha1.PoolReady, v1alpha1.PoolConnected, v1alpha1.PoolLimited, v1alpha1.PoolOverstated, v1alpha1.PoolDegraded)
	writeWorkers(&b, s.LastDecision)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	if err := writeCategories(w, s.Categories); err != nil {
		return err
	}
	return writeInitTimes(w, s.InitTimes)
}

func writeWorkers(b *strings.Builder, d *v1alpha1.WorkerDecision) {
	if d == nil {
		b.WriteString("\nNo decision to resize the pool yet.\n")
		return
	}
	shown := status.OfPool("", d)
	if d.Add <= 0 {
		shown.Summary = fmt.Sprintf("drain %s: %s", strings.Join(d.Drain, ", "), d.Reason)
	}
	fmt.Fprintf(b, "\nLast decision, %s, mode %s:\n", clockOf(d.Time.Time), d.Mode)
	for _, line := range append([]string{shown.Summary}, shown.Terms...) {
		fmt.Fprintf(b, "  %s\n", line)
	}
	if d.Add > 0 {
		fmt.Fprintf(b, "  expected: connected after %s\n", durationOr(d.ExpectedReady, "?"))
	}
	fmt.Fprintf(b, "  measured: %s\n", durationOr(d.MeasuredReady, unmeasured(string(d.Mode))))
}

func durationOr(d *metav1.Duration, otherwise string) string {
	if d == nil {
		return otherwise
	}
	return d.Duration.String()
}

func writeCategories(w io.Writer, categories []v1alpha1.TaskCategory) error {
	if len(categories) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "\nCATEGORY\tCPU\tMEMORY\tSOURCE\tUSED CPU\tUSED MEMORY\tRUNTIME\tENDED\tNOTE")
	for i := range categories {
		c := &categories[i]
		var used v1alpha1.TaskUse
		if c.Used != nil {
			used = *c.Used
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", c.Name, c.CPU.String(), c.Memory.String(), c.Source, quantityOr(used.CPU, "-"), quantityOr(used.Memory, "-"), durationOr(c.MeanRuntime, "-"), c.Ended, c.Unplaceable)
	}
	return t.Flush()
}

func quantityOr(q *resource.Quantity, otherwise string) string {
	if q == nil {
		return otherwise
	}
	return q.String()
}

func writeInitTimes(w io.Writer, times []v1alpha1.WorkerInitTime) error {
	if len(times) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "\nFLAVOR\tINIT TIME\tNODE\tIMAGE\tCONNECT\tWORKERS")
	for i := range times {
		f := &times[i]
		fmt.Fprintf(t, "%s\t%v ± %v\t%v\t%v\t%v\t%d\n", cmp.Or(f.Flavor, "-"), f.Mean.Duration, f.Deviation.Duration, f.Node.Duration, f.Image.Duration, f.Connect.Duration, f.Samples)
	}
	return t.Flush()
}
