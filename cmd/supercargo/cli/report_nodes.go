package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/cli/nodequery"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/internal/input"
	"supercargo.dev/supercargo/internal/platform/promql/prometheus"
	"supercargo.dev/supercargo/internal/text/jsondoc"
)

type reportNodesFlags struct {
	server      prometheus.Config
	from, to    string
	at          string
	since, step time.Duration
	output      string
	hasSince    bool // --since was given
}

func newReportNodesCommand() *cobra.Command {
	var flags reportNodesFlags
	cmd := &cobra.Command{
		Use:   "nodes --prometheus URL",
		Short: "Report the nodes of a cluster, what was available on them, and when their batch pods finish",
		Long: `Report the nodes of a cluster over a time, by machine type and by node: their CPU and memory; the
amounts that further pods could request at one moment (--at), on average and at the minimum; when
the last batch pod there is expected to finish; and when nodes joined and left. The command queries
Supercargo's metrics adapter, or another server that has its series and answers PromQL. A node that
is not Ready, or that is cordoned, has nothing available.

The time is sampled every --step. Means are over the samples in which the node was present. For a
machine type, they are over the samples in which any of its nodes was present. MEAN and LEAST are of
what was available. A node joined or left within one step before the printed time. A node that was
present from the start has no such time. Only batch pods that Supercargo's scheduler has placed have
an expected finish.

The adapter keeps one day of history by default. docs/metrics.md lists its series.`,
		Example: `  # Report the last day
  kubectl -n supercargo-system port-forward deployment/supercargo-metrics-adapter 9090 &
  supercargo report nodes --prometheus http://localhost:9090

  # Report the state at three o'clock, and the hour before
  supercargo report nodes --prometheus http://localhost:9090 --at 2026-01-31T15:00:00Z --since 1h

  # Report the time of a rollout in steps of 10 s
  supercargo report nodes --prometheus http://localhost:9090 --from 2026-01-31T15:00:00Z --to 2026-01-31T15:30:00Z --step 10s -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags.hasSince = cmd.Flags().Changed("since")
			return reportNodes(cmd.Context(), cmd.OutOrStdout(), flags, time.Now())
		},
	}
	f := cmd.Flags()
	flags.server.AddFlags(f)
	f.DurationVar(&flags.server.Timeout, "timeout", time.Minute, "timeout of one query")
	f.StringVar(&flags.from, "from", "", "start `time`, such as 2026-01-31T15:00:00Z (default: --since before the end)")
	f.StringVar(&flags.to, "to", "", "end `time` (default: --at, else now)")
	f.DurationVar(&flags.since, "since", 24*time.Hour, "how long before the end to start")
	f.StringVar(&flags.at, "at", "", "`time` of the state to show (default: the end)")
	f.DurationVar(&flags.step, "step", 0, "time between samples (default: about 300 samples, 30s or more apart)")
	command.AddOutput(cmd, &flags.output, command.TableOrJSON, "")
	return cmd
}

// span validates the flags, and returns the time range or all errors.
func (f *reportNodesFlags) span(now time.Time) (nodequery.Span, error) {
	var errs input.Faults
	parse := func(flag, text string, otherwise time.Time) time.Time {
		return timeOf(&errs, flag, text, otherwise).Truncate(time.Second)
	}
	var s nodequery.Span
	s.To = parse("to", cmp.Or(f.to, f.at), now.Truncate(time.Second))
	s.At = parse("at", f.at, s.To)
	s.From = parse("from", f.from, s.To.Add(-f.since.Truncate(time.Second)))
	errs.If(f.from != "" && f.hasSince, "--from and --since are mutually exclusive")
	if s.Step = f.step; s.Step == 0 {
		s.Step = min(nodequery.UsualStep(s.From, s.To), max(s.To.Sub(s.From), nodequery.MinStep))
	}
	if len(errs) == 0 {
		errs.In("--from, --to, --since, --at, --step", s.Validate())
	}
	f.server.MaxBytes = mostAnswerBytes
	if errs.If(f.server.URL == "", "--prometheus is required: the URL of the server, such as https://prometheus.monitoring:9090"); f.server.URL != "" {
		errs.In("--prometheus", f.server.Validate())
	}
	errs = append(errs, command.TableOrJSON.Check("output", f.output))
	return s, errors.Join(errs...)
}

// nodesReport is the printed report.
type nodesReport struct {
	*nodequery.Report
	// Notes are what a reader should know, a sentence each.
	Notes []string `json:"notes,omitempty"`
}

// reportNodes reads the history of nodes and prints it.
func reportNodes(ctx context.Context, w io.Writer, flags reportNodesFlags, now time.Time) error {
	span, err := flags.span(now)
	if err != nil {
		return command.BadInput(err)
	}
	client, err := prometheus.New(flags.server)
	if err != nil {
		return command.BadInput(fmt.Errorf("--prometheus: %w", err))
	}
	defer client.Close()
	found, err := nodequery.Read(ctx, client, span)
	if err != nil {
		return err
	}
	report := nodesReport{Report: found, Notes: historyNotes(found)}
	if flags.output == "json" {
		return jsondoc.Write(w, report)
	}
	return report.print(w)
}

// historyNotes returns notes about times without history, and what to do about them.
func historyNotes(r *nodequery.Report) []string {
	if len(r.Nodes) == 0 {
		return []string{"No history of nodes was found. Supercargo's metrics adapter records it (kubectl apply --server-side -k manifests/replicas), unless --history=false, " +
			"and serves it on port 9090 of its pod: docs/metrics.md explains how to query it. It keeps one day unless --store-retention is set."}
	}
	var notes []string
	step := time.Duration(r.StepSeconds * float64(time.Second))
	if r.Begins == nil {
		return []string{"Nodes existed only between two samples: use a smaller --step."}
	}
	if r.Begins.Sub(r.From) >= step {
		notes = append(notes, fmt.Sprintf("The history begins at %s: there are no samples of the time before.", moment(r.Begins)))
	}
	if r.To.Sub(*r.Ends) >= step {
		notes = append(notes, fmt.Sprintf("The history ends at %s: after that there was no node, or the metrics adapter did not run.", moment(r.Ends)))
	}
	return notes
}

func (r nodesReport) print(w io.Writer) error {
	fmt.Fprintf(w, "%s to %s, sampled every %v; nodes as of %s\n", moment(&r.From), moment(&r.To), time.Duration(r.StepSeconds*float64(time.Second)), moment(&r.At))
	if len(r.Nodes) > 0 {
		const resources = "CORES\tAVAILABLE CORES\tMEAN CORES\tLEAST CORES\tGIB\tAVAILABLE GIB\tMEAN GIB\tLEAST GIB"
		t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		fmt.Fprintf(t, "\nMACHINE TYPE\tNODES\tREADY\tPODS\t%s\tLAST FINISH\tREMAINING\n", resources)
		for _, m := range r.MachineTypes {
			fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\t%s\n", typeName(m.MachineType), m.Nodes, m.Ready, m.Pods, amounts(m.CPU, m.Memory), finishCells(m.Busy))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		fmt.Fprintf(t, "\nNODE\tMACHINE TYPE\tSTATE\tPODS\t%s\tLAST FINISH\tREMAINING\tJOINED\tLEFT\tPRESENT FOR\n", resources)
		for _, n := range r.Nodes {
			there := time.Duration(n.ThereSeconds * float64(time.Second))
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%v\n", printable(n.Name), typeName(n.MachineType), stateName(n.State), n.Pods, amounts(n.CPU, n.Memory), finishCells(n.Busy), moment(n.Came), moment(n.Went), there)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "\n%s\n", note)
	}
	return nil
}

func typeName(name string) string { return printable(cmp.Or(name, "(unknown)")) }

// printable returns a name from a server without control characters, which could be escape sequences of
// a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// amounts returns the cells of CPU in cores and of memory in GiB.
func amounts(cpu nodequery.CPU, memory nodequery.Memory) string {
	cells := func(r nodequery.Resource, unit float64) string {
		return amount(r.Capacity, unit) + "\t" + amount(r.Available, unit) + "\t" + amount(r.Mean, unit) + "\t" + amount(r.Least, unit)
	}
	return cells(cpu.Resource, 1) + "\t" + cells(memory.Resource, 1<<30)
}

// amount formats a number of units with two decimals; "-" if unknown.
func amount(v *float64, unit float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v/unit, 'f', 2, 64)
}

// finishCells returns the cells of the latest expected finish, and the time until then.
func finishCells(b nodequery.Busy) string {
	if b.Finish == nil {
		return "-\t-"
	}
	return moment(b.Finish) + "\t" + time.Duration(*b.RemainingSeconds*float64(time.Second)).Round(time.Second).String()
}

// moment formats a time in UTC; "-" for nil.
func moment(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// stateName names a state of a node in the table. The series do not tell a cordoned node from one that is not ready.
func stateName(state string) string {
	if state == nodequery.StateNotReady {
		return "not ready or cordoned"
	}
	return state
}
