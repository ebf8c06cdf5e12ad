package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
)

type explainFlags struct {
	kubeconfig, output string
}

func newExplainCommand() *cobra.Command {
	var flags explainFlags
	cmd := &cobra.Command{
		Use:   "explain KIND/NAME",
		Short: "Say why Supercargo did what it did to an object of a cluster",
		Long: `Say why Supercargo did what it did to an object of a cluster: the last decision, what was rejected, what it was
expected to lead to and what came of it.

Kinds: nodefleet.`,
		Example: `  # Why these machines?
  supercargo explain nodefleet/batch

  # All of it, for a script
  supercargo explain nodefleet/batch -o json | jq .status.lastDecision`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return explain(cmd.Context(), cmd.OutOrStdout(), args[0], flags)
		},
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return explainable(cmd.Context(), flags.kubeconfig), cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().StringVar(&flags.kubeconfig, "kubeconfig", "", "kubeconfig `file` of the cluster (default: as kubectl finds it)")
	cmd.Flags().StringVarP(&flags.output, "output", "o", "text", "how to print: text or json")
	if err := cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}

func explain(ctx context.Context, w io.Writer, object string, flags explainFlags) error {
	if flags.output != "text" && flags.output != "json" {
		return badInput(fmt.Errorf("--output %q: want text or json", flags.output))
	}
	kind, name, ok := strings.Cut(object, "/")
	if !ok || name == "" {
		return badInput(fmt.Errorf("%q: want KIND/NAME such as nodefleet/batch", object))
	}
	switch strings.ToLower(kind) {
	case "nodefleet", "nodefleets", "nf":
	default:
		return badInput(fmt.Errorf("kind %q: want nodefleet", kind))
	}
	c, err := explainClient(flags.kubeconfig)
	if err != nil {
		return err
	}
	var fleet v1alpha1.NodeFleet
	if err := c.Get(ctx, types.NamespacedName{Name: name}, &fleet); err != nil {
		return fmt.Errorf("read NodeFleet %s: %w", name, err)
	}
	if flags.output == "json" {
		fleet.ManagedFields = nil
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(&fleet)
	}
	return explainFleet(w, &fleet)
}

func explainClient(kubeconfig string) (client.Client, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, badInput(fmt.Errorf("find the cluster: %w", err))
	}
	return supercargoClient(config)
}

// explainable lists what can be explained, for completion.
func explainable(ctx context.Context, kubeconfig string) []string {
	c, err := explainClient(kubeconfig)
	if err != nil {
		return nil
	}
	var fleets v1alpha1.NodeFleetList
	if err := c.List(ctx, &fleets); err != nil {
		return nil
	}
	names := make([]string, len(fleets.Items))
	for i := range fleets.Items {
		names[i] = "nodefleet/" + fleets.Items[i].Name
	}
	return names
}

func explainFleet(w io.Writer, fleet *v1alpha1.NodeFleet) error {
	s := &fleet.Status
	var b strings.Builder
	fmt.Fprintf(&b, "NodeFleet %s, class %s, mode %s\n", fleet.Name, fleet.Spec.Class, fleet.Spec.Mode)
	fmt.Fprintf(&b, "%d machines, %d in flight, %d pods pending, $%s/h (machines for all its pods cost at least $%s/h)\n",
		s.Machines, s.InFlight, s.PendingPods, orUnknown(s.Cost.DollarsPerHour), orUnknown(s.Cost.LowerBoundDollarsPerHour))
	if s.Intent != nil {
		fmt.Fprintf(&b, "Being carried out: %s, since %s\n", s.Intent.ID, s.Intent.Time.UTC().Format("15:04:05"))
	}
	explainConditions(&b, fleet)
	explainDecision(&b, s.LastDecision)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return explainFlavors(w, s.Flavors)
}

func orUnknown(text string) string {
	if text == "" {
		return "?"
	}
	return text
}

func explainConditions(b *strings.Builder, fleet *v1alpha1.NodeFleet) {
	kinds := []string{v1alpha1.FleetReady, v1alpha1.FleetPriced, v1alpha1.FleetLimited, v1alpha1.FleetDegraded}
	for _, kind := range kinds {
		if c := meta.FindStatusCondition(fleet.Status.Conditions, kind); c != nil {
			fmt.Fprintf(b, "%s: %s (%s) %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
}

func explainDecision(b *strings.Builder, d *v1alpha1.FleetDecision) {
	if d == nil {
		b.WriteString("\nNothing was decided yet.\n")
		return
	}
	fmt.Fprintf(b, "\nLast decision, %s, mode %s:\n  %s\n", d.Time.UTC().Format("2006-01-02 15:04:05 MST"), d.Mode, d.Summary)
	for _, buy := range d.Buys {
		fmt.Fprintf(b, "  buy %d %s for %d pods: %s\n", buy.Count, buy.Flavor, buy.Pods, buy.Reason)
	}
	for _, release := range d.Releases {
		fmt.Fprintf(b, "  give back %s: %s\n", release.Node, release.Reason)
	}
	for _, rejected := range d.Rejected {
		fmt.Fprintf(b, "  rejected %s: %s\n", rejected.Name, rejected.Reason)
	}
	explainOutcome(b, "expected", &d.Expected)
	if d.Measured == nil {
		b.WriteString("  measured: not yet\n")
		return
	}
	explainOutcome(b, "measured", d.Measured)
}

func explainOutcome(b *strings.Builder, name string, o *v1alpha1.Outcome) {
	fmt.Fprintf(b, "  %s: $%s/h, %d pods pending, ready after %d s\n", name, orUnknown(o.DollarsPerHour), o.PendingPods, o.ReadySeconds)
}

func explainFlavors(w io.Writer, flavors []v1alpha1.FlavorStatus) error {
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
		if f.LeftAloneUntil != nil {
			note = fmt.Sprintf("left alone until %s after %d failures", f.LeftAloneUntil.UTC().Format("15:04:05"), f.Failures)
		}
		most := "-"
		if f.Max < math.MaxInt32 {
			most = strconv.Itoa(int(f.Max))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\n",
			f.Name, orUnknown(f.PricePerHour), f.CPU, f.Memory, f.MaxPods, f.Machines, f.Min, most, lag, note)
	}
	return t.Flush()
}
