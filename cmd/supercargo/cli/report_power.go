package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/powerquery"
	"supercargo.dev/supercargo/internal/input"
	"supercargo.dev/supercargo/internal/platform/promql/prometheus"
	"supercargo.dev/supercargo/internal/text/jsondoc"
	"supercargo.dev/supercargo/internal/text/plural"
)

type reportPowerFlags struct {
	server prometheus.Config
	meter  meterFlags
	maxAge time.Duration
	output string
}

func newReportPowerCommand() *cobra.Command {
	var flags reportPowerFlags
	cmd := &cobra.Command{
		Use:   "power --prometheus URL",
		Short: "Report the current power of each node, with its source and age",
		Long: `Report the current power of each node. The command queries a server that answers PromQL, as
"supercargo report energy" does for a period: it reads Supercargo's node agents, Kepler or
node-exporter (--power), or your own query (--power-query). Use it to check a query before you make
a report with it.

Each reading has its source, whether it is measured or modelled, and its age. Readings that are too
old or implausible are dropped and counted by reason.`,
		Example: `  supercargo report power --prometheus http://prometheus.monitoring:9090

  # Check that a query returns one sample per node
  supercargo report power --prometheus http://localhost:9090 --power-query 'sum by (node) (pdu_outlet_watts)'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags.meter.named = cmd.Flags().Changed("power")
			return reportPower(cmd.Context(), cmd.OutOrStdout(), flags, time.Now())
		},
	}
	f := cmd.Flags()
	flags.server.AddFlags(f)
	f.DurationVar(&flags.server.Timeout, "timeout", 10*time.Second, "timeout of one query")
	flags.meter.add(cmd, powerquery.Supercargo, powerquery.Kepler, powerquery.NodeExporter)
	f.DurationVar(&flags.maxAge, "max-age", 2*time.Minute, "maximum age of a reading")
	command.AddOutput(cmd, &flags.output, command.TableOrJSON, "")
	return cmd
}

// check validates the flags and returns the queries to use.
func (f *reportPowerFlags) check() (powerquery.Preset, error) {
	var errs input.Faults
	preset := f.meter.preset(&errs)
	f.server.MaxBytes = mostAnswerBytes
	errs.In("--prometheus", f.server.Validate())
	errs = append(errs, command.TableOrJSON.Check("output", f.output))
	errs.If(f.maxAge <= 0, "--max-age %v: must be more than 0", f.maxAge)
	return preset, errors.Join(errs...)
}

// powerNow is the current power of nodes.
type powerNow struct {
	Time  time.Time   `json:"time"`
	Nodes []nodePower `json:"nodes"`
	// ReadingsDropped are the numbers of dropped readings by reason.
	ReadingsDropped map[string]int `json:"readingsDropped,omitempty"`
	// SamplesWithoutNode is the number of samples without a node label.
	SamplesWithoutNode int `json:"samplesWithoutNode,omitempty"`
}

type nodePower struct {
	Node       string        `json:"node"`
	Watts      float64       `json:"watts"`
	Source     energy.Source `json:"source"`
	Kind       string        `json:"kind"` // measured or modelled
	AgeSeconds float64       `json:"ageSeconds"`
}

// reportPower reads and prints the power of each node at a time.
func reportPower(ctx context.Context, w io.Writer, flags reportPowerFlags, now time.Time) error {
	preset, err := flags.check()
	if err != nil {
		return command.BadInput(err)
	}
	client, err := prometheus.New(flags.server)
	if err != nil {
		return command.BadInput(fmt.Errorf("--prometheus: %w", err))
	}
	defer client.Close()
	readings, tally, err := powerquery.Meter{Querier: client, Preset: preset, Limits: energy.Limits{
		MaxAge: flags.maxAge, MaxSkew: time.Minute, Rated: energy.Watts(flags.meter.ratedWatts),
	}}.Read(ctx, now)
	if err != nil {
		return err
	}
	p := powerNow{Time: now.UTC(), Nodes: []nodePower{}, SamplesWithoutNode: tally.Nameless}
	for _, name := range slices.Sorted(maps.Keys(readings)) {
		r := readings[name]
		p.Nodes = append(p.Nodes, nodePower{Node: name, Watts: float64(r.Watts), Source: r.Source, Kind: kindOf(r.Source), AgeSeconds: max(0, r.Age(now).Seconds())})
	}
	for _, fault := range energy.Faults() {
		if n := tally.Counts.Of(fault); n > 0 {
			if p.ReadingsDropped == nil {
				p.ReadingsDropped = map[string]int{}
			}
			p.ReadingsDropped[fault.String()] = n
		}
	}
	if flags.output == "json" {
		return jsondoc.Write(w, p)
	}
	return p.print(w)
}

func kindOf(s energy.Source) string {
	if s.Measured() {
		return "measured"
	}
	return "modelled"
}

func (p *powerNow) print(w io.Writer) error {
	sums := map[string]float64{}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tWATTS\tSOURCE\tKIND\tAGE")
	for _, n := range p.Nodes {
		sums[n.Kind] += n.Watts
		fmt.Fprintf(t, "%s\t%.1f\t%s\t%s\t%v\n", n.Node, n.Watts, n.Source, n.Kind, time.Duration(n.AgeSeconds*float64(time.Second)).Round(time.Second))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(p.Nodes) == 0 && len(p.ReadingsDropped) == 0 && p.SamplesWithoutNode == 0 {
		fmt.Fprintln(w, "\nNo power of any node was found: --power selects the meters, --power-query uses your own query.\n"+
			"Without meters, supercargo report energy --power model estimates the power of machines.")
		return nil
	}
	fmt.Fprintf(w, "\n%s: %.1f W measured, %.1f W modelled\n", plural.Count(len(p.Nodes), "node"), sums["measured"], sums["modelled"])
	if len(p.ReadingsDropped) > 0 {
		var dropped []string
		for _, fault := range slices.Sorted(maps.Keys(p.ReadingsDropped)) {
			dropped = append(dropped, fmt.Sprintf("%d %s", p.ReadingsDropped[fault], fault))
		}
		fmt.Fprintf(w, "Dropped readings: %s\n", strings.Join(dropped, ", "))
	}
	if p.SamplesWithoutNode > 0 {
		fmt.Fprintf(w, "%s no node: keep one of its labels in the query (docs/power-meters.md lists them)\n",
			plural.Count(p.SamplesWithoutNode, "sample")+plural.Form(p.SamplesWithoutNode, " has", " have"))
	}
	return nil
}
