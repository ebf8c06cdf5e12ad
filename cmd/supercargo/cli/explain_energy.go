package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/energy/profile"
	"supercargo.dev/supercargo/internal/energy/score"
	"supercargo.dev/supercargo/internal/energy/tariff"
)

// explainProfile says whether a profile is used, what it is made of, and how far it is
// trusted at a time.
func explainProfile(w io.Writer, o *v1alpha1.MachineProfile, now time.Time) error {
	var b strings.Builder
	fmt.Fprintf(&b, "MachineProfile %s, machine type %s\n", o.Name, o.Spec.MachineType)
	if p := o.Spec.Power; p != nil {
		fmt.Fprintf(&b, "Power: %.4g W without load, %.4g W at full load\n", p.IdleWatts.AsApproximateFloat64(), p.FullWatts.AsApproximateFloat64())
	}
	m, err := profile.FromObject(o)
	switch {
	case errors.Is(err, profile.ErrNothingLearned):
		b.WriteString("Not used: nothing has been learned yet. Nodes of the type score neutral.\n")
	case err != nil:
		fmt.Fprintf(&b, "Not used: %v. Nodes of the type score neutral.\n", err)
	default:
		if !m.Learned.IsZero() {
			fmt.Fprintf(&b, "Learned: %s, %v ago\n", m.Learned.UTC().Format(time.RFC3339), m.Age(now).Round(time.Minute))
		}
		explainModel(&b, "Energy", "J", m.Profile.Energy, m.Age(now))
		explainModel(&b, "Runtime", "s", m.Profile.Runtime, m.Age(now))
		if m.Governor != "" {
			fmt.Fprintf(&b, "That is under the CPU governor %s\n", m.Governor)
		}
		for i := range m.Others {
			o := &m.Others[i]
			fmt.Fprintf(&b, "Under the CPU governor %s:\n", o.Governor)
			explainModel(&b, "Energy", "J", o.Profile.Energy, m.Age(now))
			explainModel(&b, "Runtime", "s", o.Profile.Runtime, m.Age(now))
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

func explainModel(b *strings.Builder, name, unit string, m profile.Model, age time.Duration) {
	var terms []string
	for i, t := range m.Terms {
		terms = append(terms, fmt.Sprintf("%.4g·%s", m.Coefficients[i], t))
	}
	q, r := m.Quality, m.Range
	fmt.Fprintf(b, "%s in %s: %s\n", name, unit, strings.Join(terms, " + "))
	fmt.Fprintf(b, "  %d samples of %d sizes, R² %.3f, usual error on unseen sizes %.1f %%\n", q.Samples, q.Sizes, q.RSquared, 100*q.Spread)
	fmt.Fprintf(b, "  learned from %s to %s: %.4g to %.4g %s\n", sizeText(r.Least), sizeText(r.Most), r.LeastValue, r.MostValue, unit)
	p := m.Predict(profile.Size{MilliCPU: (r.Least.MilliCPU + r.Most.MilliCPU) / 2, MemoryBytes: (r.Least.MemoryBytes + r.Most.MemoryBytes) / 2}, age)
	fmt.Fprintf(b, "  in the middle of that: %.4g %s, trusted to %.0f %%%s\n", p.Value, unit, 100*p.Trust, because(p.Doubts))
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

// explainedPod is how EnergyPerformance sees the nodes for a pod.
type explainedPod struct {
	Pod          string          `json:"pod"`
	EnergyWeight float64         `json:"energyWeight"`
	WeightFrom   score.Origin    `json:"weightFrom"`
	Note         string          `json:"note,omitempty"`
	Unit         tariff.Unit     `json:"energyCountsBy,omitempty"`
	Nodes        []explainedNode `json:"nodes"`
}

type explainedNode struct {
	Node           string  `json:"node"`
	MachineType    string  `json:"machineType"`
	Governor       string  `json:"governor,omitempty"`
	Idle           bool    `json:"idle"`
	Score          int64   `json:"score"`
	Known          bool    `json:"known"`
	EnergyJoules   float64 `json:"energyJoules,omitempty"`
	RuntimeSeconds float64 `json:"runtimeSeconds,omitempty"`
	EnergyTrust    float64 `json:"energyTrustRatio"`
	RuntimeTrust   float64 `json:"runtimeTrustRatio"`
	Doubts         string  `json:"doubts,omitempty"`
	// Zone, PerKWh and Cost are there with a tariff, the last two where it has a value.
	Zone   string   `json:"zone,omitempty"`
	PerKWh *float64 `json:"perKWh,omitempty"`
	Cost   *float64 `json:"energyCost,omitempty"`
}

// explainPod scores all nodes for a pod as EnergyPerformance would now, with idle power
// counted. Whether the pod could run there is not its question.
func explainPod(ctx context.Context, w io.Writer, name string, flags explainFlags) error {
	if h := flags.energyWeight; !(h >= 0 && h <= 1) {
		return badInput(fmt.Errorf("--energy-weight %v: want a number from 0 to 1", h))
	}
	now := time.Now()
	prices, unit, err := flags.tariff()
	if err != nil {
		return badInput(err)
	}
	c, namespace, err := namespacedClient(flags.kubeconfig, flags.namespace)
	if err != nil {
		return err
	}
	var pod corev1.Pod
	if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &pod); err != nil {
		return fmt.Errorf("read Pod %s: %w", name, err)
	}
	var ns corev1.Namespace
	if err := c.Get(ctx, types.NamespacedName{Name: namespace}, &ns); err != nil {
		return fmt.Errorf("read Namespace %s: %w", namespace, err)
	}
	var profiles v1alpha1.MachineProfileList
	if err := c.List(ctx, &profiles); err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("read machine profiles: %w", err)
	}
	nodes, zones, err := comparedNodes(ctx, c, &pod, func(zone string) tariff.Price { return prices.At(zone, now, tariff.DefaultMaxAge) })
	if err != nil {
		return err
	}
	weight, wrong := score.WeightOf(pod.Annotations, ns.Annotations, flags.energyWeight)
	e := explainedPod{Pod: namespace + "/" + name, EnergyWeight: weight.H, WeightFrom: weight.Origin, Unit: unit}
	if weight.Origin == score.FromProfile {
		e.WeightFrom = "--energy-weight"
	}
	if wrong != nil {
		e.Note = wrong.Error()
	}
	var book profile.Book
	for i := range profiles.Items {
		// What is wrong with a profile is said when the profile is explained.
		_ = book.Put(&profiles.Items[i])
	}
	for _, l := range score.Compare(weight.H, score.SizeOf(&pod), nodes, book.Set(), now) {
		n := explained(l)
		if unit != "" {
			n.priced(l, zones[n.Node])
		}
		e.Nodes = append(e.Nodes, n)
	}
	if flags.output == "json" {
		return writeJSON(w, e)
	}
	return e.print(w)
}

// tariff reads what joules count by; a file may be named for one unit.
func (f explainFlags) tariff() (t tariff.Tariff, unit tariff.Unit, err error) {
	switch {
	case f.priceFile != "" && f.carbonFile != "":
		return t, "", errors.New("--price-file and --carbon-file: joules count by one of the two")
	case f.priceFile != "":
		t, err = readTariff("price", false, 0, f.priceFile, tariff.Dollars.Column())
		return t, tariff.Dollars, err
	case f.carbonFile != "":
		t, err = readTariff("carbon", false, 0, f.carbonFile, tariff.Grams.Column())
		return t, tariff.Grams, err
	}
	return t, "", nil
}

// comparedNodes returns the nodes of a cluster, with what a kWh costs in their zones, and the
// zones by node. One is idle when no other pod is on it but those that every node has.
func comparedNodes(ctx context.Context, c client.Client, of *corev1.Pod, price func(zone string) tariff.Price) ([]score.Node, map[string]string, error) {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return nil, nil, fmt.Errorf("read nodes: %w", err)
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods); err != nil {
		return nil, nil, fmt.Errorf("read pods: %w", err)
	}
	busy := map[string]bool{}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.UID != of.UID && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed && !class.EveryNode(p) {
			busy[p.Spec.NodeName] = true
		}
	}
	compared, zones := make([]score.Node, len(nodes.Items)), map[string]string{}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		zones[n.Name] = n.Labels[corev1.LabelTopologyZone]
		compared[i] = score.Node{Name: n.Name, MachineType: score.MachineType(n.Labels), Governor: score.Governor(n.Annotations), Idle: !busy[n.Name], Price: price(zones[n.Name])}
	}
	return compared, zones, nil
}

func explained(l score.Line) explainedNode {
	n := explainedNode{Node: l.Node.Name, MachineType: l.Node.MachineType, Governor: l.Node.Governor, Idle: l.Node.Idle, Score: l.Result.Score, Known: l.Option.Known}
	if l.Option.Known {
		n.EnergyJoules, n.RuntimeSeconds = float64(l.Option.Joules()), l.Option.Runtime.Value
		n.EnergyTrust, n.RuntimeTrust, n.Doubts = l.Option.Energy.Trust, l.Option.Runtime.Trust, l.Doubts().String()
	}
	return n
}

// priced says what the energy costs on the node.
func (n *explainedNode) priced(l score.Line, zone string) {
	n.Zone = zone
	if p := l.Node.Price; p.Known {
		n.PerKWh = &p.PerKWh
	}
	if cost, known := l.Option.Cost(); known && l.Option.Known {
		n.Cost = &cost
	}
}

func (e explainedPod) print(w io.Writer) error {
	fmt.Fprintf(w, "Pod %s: energy weighs %g against runtime (%s)\n", e.Pod, e.EnergyWeight, e.WeightFrom)
	if e.Note != "" {
		fmt.Fprintln(w, e.Note)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	header := ""
	if e.Unit != "" {
		header = "ZONE\tENERGY COSTS\t"
	}
	fmt.Fprintf(t, "\nNODE\tMACHINE TYPE\tSCORE\tENERGY J\tRUNTIME S\tTRUST\t%sNOTE\n", header)
	for _, n := range e.Nodes {
		if !n.Known {
			fmt.Fprintf(t, "%s\t%s\t%d\t?\t?\t-\t%snothing is known about this machine type\n", n.Node, orUnknown(n.MachineType), n.Score, n.costText(e.Unit))
			continue
		}
		var notes []string
		if n.Idle {
			notes = append(notes, "idle: its idle power counts")
		}
		if n.Doubts != "" {
			notes = append(notes, n.Doubts)
		}
		if e.Unit != "" && n.PerKWh == nil {
			notes = append(notes, "no price is known for the zone: that of the others, or none, counts")
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%.4g\t%.4g\t%.0f %%\t%s%s\n", n.Node, n.MachineType, n.Score, n.EnergyJoules, n.RuntimeSeconds,
			100*min(n.EnergyTrust, n.RuntimeTrust), n.costText(e.Unit), strings.Join(notes, "; "))
	}
	return t.Flush()
}

// costText has the cells that are there with a tariff.
func (n *explainedNode) costText(unit tariff.Unit) string {
	if unit == "" {
		return ""
	}
	cost := "?"
	if n.Cost != nil {
		cost = unit.Format(*n.Cost)
	}
	return orUnknown(n.Zone) + "\t" + cost + "\t"
}
