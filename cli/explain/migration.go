package explain

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/status"
	"supercargo.dev/supercargo/internal/movable"
)

// MigrationLine returns the progress of a migration in one line.
func MigrationLine(m *v1alpha1.Migration) string {
	phase := m.Status.Phase
	if phase == "" {
		return m.Name + ": waits for the descheduler"
	}
	line := fmt.Sprintf("%s: %s", m.Name, phase)
	if why := status.Latest(m.Status.Conditions); why != "" {
		line += ": " + why
	}
	const widest = 150
	if len(line) > widest {
		line = strings.ToValidUTF8(line[:widest], "") + "..."
	}
	return line
}

// MigrationSummary is a short form of a migration. Unknown numbers are omitted.
type MigrationSummary struct {
	Migration       string   `json:"migration"`
	Namespace       string   `json:"namespace"`
	Pod             string   `json:"pod"`
	NewPod          string   `json:"newPod,omitempty"`
	From            string   `json:"from,omitempty"`
	To              string   `json:"to,omitempty"`
	Backend         string   `json:"backend,omitempty"`
	Phase           string   `json:"phase"`
	Reason          string   `json:"reason,omitempty"`
	Message         string   `json:"message,omitempty"`
	FrozenSeconds   *float64 `json:"frozenSeconds,omitempty"`
	DumpSeconds     *float64 `json:"dumpSeconds,omitempty"`
	ShipSeconds     *float64 `json:"shipSeconds,omitempty"`
	RestoreSeconds  *float64 `json:"restoreSeconds,omitempty"`
	TotalSeconds    *float64 `json:"totalSeconds,omitempty"`
	CheckpointBytes int64    `json:"checkpointBytes,omitempty"`
	ShippedBytes    int64    `json:"shippedBytes,omitempty"`
}

// NewMigrationSummary returns the summary of a migration's status.
func NewMigrationSummary(m *v1alpha1.Migration) MigrationSummary {
	s := &m.Status
	j := MigrationSummary{Migration: m.Name, Namespace: m.Namespace, Pod: m.Spec.PodName, Phase: string(s.Phase)}
	if s.Plan != nil {
		j.NewPod, j.From, j.Backend = s.Plan.RestoredPod, s.Plan.SourceNode, string(s.Plan.Backend)
	}
	if s.Reservation != nil {
		j.To = s.Reservation.Node
	}
	kind := v1alpha1.MigrationFinished
	if s.Phase == v1alpha1.MigrationRefused {
		kind = v1alpha1.MigrationEligible
	}
	if c := meta.FindStatusCondition(s.Conditions, kind); c != nil {
		j.Reason, j.Message = c.Reason, c.Message
	}
	if t := s.Measured; t != nil {
		j.FrozenSeconds, j.DumpSeconds, j.ShipSeconds = number(t.FrozenSeconds), number(t.DumpSeconds), number(t.ShipSeconds)
		j.RestoreSeconds, j.TotalSeconds = number(t.RestoreSeconds), number(t.TotalSeconds)
		j.CheckpointBytes, j.ShippedBytes = t.CheckpointBytes, t.ShippedBytes
	}
	return j
}

// number parses a decimal number; nil if it is not one.
func number(text string) *float64 {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil
	}
	return &value
}

// Write prints the summary as a table or, before the migration has a phase, the command to follow
// it.
func (j MigrationSummary) Write(w io.Writer) error {
	if j.Phase == "" {
		_, err := fmt.Fprintf(w, "Migration %s created; `supercargo explain migration/%s -n %s` shows its progress\n", j.Migration, j.Migration, j.Namespace)
		return err
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "POD\tFROM\tTO\tNEW POD\tPHASE\tFROZEN\tDUMP\tSHIP\tRESTORE\tBYTES")
	fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", j.Pod, cmp.Or(j.From, "-"), cmp.Or(j.To, "-"), cmp.Or(j.NewPod, "-"), j.Phase,
		inSeconds(j.FrozenSeconds), inSeconds(j.DumpSeconds), inSeconds(j.ShipSeconds), inSeconds(j.RestoreSeconds), inBytes(j.CheckpointBytes))
	return t.Flush()
}

func inSeconds(value *float64) string {
	if value == nil {
		return "-"
	}
	return strconv.FormatFloat(*value, 'f', 3, 64) + " s"
}

func inBytes(value int64) string {
	if value == 0 {
		return "-"
	}
	return strconv.FormatInt(value, 10)
}

// Verdict reports whether a pod can be moved.
type Verdict struct {
	Pod       string    `json:"pod"`
	Namespace string    `json:"namespace"`
	Node      string    `json:"node,omitempty"`
	Movable   bool      `json:"movable"`
	Backend   string    `json:"backend,omitempty"`
	Refusals  []Refusal `json:"refusals"`
	Notes     []string  `json:"notes"`
}

// Refusal is a reason why a pod cannot be moved, and what would help.
type Refusal struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Lasting means that it lasts as long as the pod, so that the pod loses its state if it is evicted. Others pass.
	Lasting bool `json:"lasting"`
}

func refusalsOf(all []movable.Refusal) (printed []Refusal) {
	for _, r := range all {
		printed = append(printed, Refusal{Reason: r.Reason, Message: r.Message, Lasting: r.Lasts()})
	}
	return printed
}

// NewVerdict converts a verdict to its printed form.
func NewVerdict(pod *corev1.Pod, v movable.Verdict) Verdict {
	j := Verdict{
		Pod: pod.Name, Namespace: pod.Namespace, Node: pod.Spec.NodeName, Movable: len(v.Refusals) == 0, Backend: string(v.Backend),
		Refusals: append([]Refusal{}, refusalsOf(v.Refusals)...), Notes: append([]string{}, v.Notes...),
	}
	return j
}

// Write prints whether the pod can be moved, and if not, why.
func (j Verdict) Write(w io.Writer) error {
	var b strings.Builder
	switch {
	case j.Movable:
		fmt.Fprintf(&b, "Pod %s can be moved from node %s, with back-end %s. The agent of the node makes the final decision.\n", j.Pod, j.Node, j.Backend)
	case slices.ContainsFunc(j.Refusals, func(r Refusal) bool { return r.Lasting }):
		fmt.Fprintf(&b, "Pod %s cannot be moved:\n", j.Pod)
	default:
		fmt.Fprintf(&b, "Pod %s cannot be moved yet:\n", j.Pod)
	}
	for _, r := range j.Refusals {
		fmt.Fprintf(&b, "  %s: %s\n", r.Reason, r.Message)
	}
	for _, note := range j.Notes {
		fmt.Fprintf(&b, "  %s\n", note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Migration prints how a migration went.
func Migration(w io.Writer, m *v1alpha1.Migration) error {
	s := &m.Status
	j := NewMigrationSummary(m)
	var b strings.Builder
	fmt.Fprintf(&b, "Migration %s of pod %s, %s\n", m.Name, m.Spec.PodName, cmp.Or(string(s.Phase), "?"))
	if s.Plan == nil {
		b.WriteString("Nothing was changed.\n")
	} else {
		fmt.Fprintf(&b, "From node %s to %s, by back-end %s; name of the new pod: %s\n", s.Plan.SourceNode, cmp.Or(j.To, "?"), s.Plan.Backend, s.Plan.RestoredPod)
		fmt.Fprintf(&b, "Started %s, deadline %s; order to the agents: %s\n",
			clockOf(s.Plan.StartedAt.Time), s.Plan.DeadlineAt.UTC().Format("15:04:05"), s.Order)
		for _, note := range s.Plan.Notes {
			fmt.Fprintf(&b, "  %s\n", note)
		}
	}
	b.WriteString("\n")
	for _, kind := range status.Steps {
		if c := meta.FindStatusCondition(s.Conditions, kind); c != nil {
			fmt.Fprintf(&b, "%s %s: %s (%s) %s\n", c.LastTransitionTime.UTC().Format("15:04:05"), c.Type, c.Status, c.Reason, c.Message)
		}
	}
	writeReports(&b, s)
	writeMeasured(&b, s.Measured)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeMeasured prints what has been measured so far.
func writeMeasured(b *strings.Builder, t *v1alpha1.MigrationMeasured) {
	if t == nil {
		return
	}
	b.WriteString("\n")
	if t.FrozenSeconds != "" {
		fmt.Fprintf(b, "No copy ran for %s s. ", t.FrozenSeconds)
	}
	fmt.Fprintf(b, "Measured: dump %s s, ship %s s, restore %s s; %s s in all.", cmp.Or(t.DumpSeconds, "?"), cmp.Or(t.ShipSeconds, "?"), cmp.Or(t.RestoreSeconds, "?"), cmp.Or(t.TotalSeconds, "?"))
	if t.CheckpointBytes > 0 {
		fmt.Fprintf(b, " The checkpoint had %d bytes.", t.CheckpointBytes)
	}
	if t.ShippedBytes > 0 {
		fmt.Fprintf(b, " Sent over the network after the freeze, compressed: %d bytes.", t.ShippedBytes)
	}
	b.WriteString("\n")
}

// writeReports prints the reports of the two agents.
func writeReports(b *strings.Builder, s *v1alpha1.MigrationStatus) {
	if r := s.Source; r != nil {
		used := ""
		if r.MemoryBytes > 0 {
			used = fmt.Sprintf("; the container used %d bytes of memory", r.MemoryBytes)
		}
		fmt.Fprintf(b, "\nThe agent of node %s: %s since %s%s. %s\n", s.Plan.SourceNode, r.Step, r.Time.UTC().Format("15:04:05.000"), used, r.Message)
	}
	if r := s.Target; r != nil {
		fmt.Fprintf(b, "The agent of node %s: %s since %s. %s\n", r.Node, r.Step, r.Time.UTC().Format("15:04:05.000"), r.Message)
	}
}
