package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cmd/supercargo/explain"
	"supercargo.dev/supercargo/internal/energy/score"
)

type explainFlags struct {
	kubeconfig, namespace, output string
	energyWeight                  float64
	priceFile, carbonFile         string
}

func newExplainCommand() *cobra.Command {
	var flags explainFlags
	cmd := &cobra.Command{
		Use:   "explain KIND/NAME|consolidation",
		Short: "Say why Supercargo did what it did to an object of a cluster",
		Long: `Say why Supercargo did what it did to an object of a cluster: the last decision, what was rejected, what it was
expected to lead to and what came of it. Of a NodeFleet also what keeps each machine that is used little: a pod, a setting or what it would cost.

Kinds: nodefleet, replicapolicy, workerpool, migration, machineprofile, pod. "consolidation" is what the descheduler decided last about nodes that no NodeFleet has.

A machine profile is shown with what it predicts and how far that is trusted; a pod with how much energy and time it would take on
each node, and how the plugin EnergyPerformance scores that.`,
		Example: `  # Why these machines?
  supercargo explain nodefleet/batch

  # All of it, for a script
  supercargo explain nodefleet/batch -o json | jq .status.lastDecision

  # Why so many workers, and what was learned of tasks?
  supercargo explain workerpool/blast -n genomics

  # Which nodes does the descheduler empty, and why not the others?
  supercargo explain consolidation

  # Why so many replicas?
  supercargo explain replicapolicy/web -n shop

  # How far is this move, or why did it go back?
  supercargo explain migration/work-0-x7k2p-8k2lq -n jobs

  # On which machine would this pod take the least energy?
  supercargo explain pod/work-0-x7k2p -n jobs --energy-weight 1

  # And on which would it emit the least, with the carbon intensities that the scheduler has?
  supercargo explain pod/work-0-x7k2p -n jobs --carbon-file carbon.csv`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runExplain(cmd.Context(), cmd.OutOrStdout(), args[0], flags)
		},
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return explainable(cmd.Context(), flags), cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().StringVar(&flags.kubeconfig, "kubeconfig", "", "kubeconfig `file` of the cluster (default: as kubectl finds it)")
	cmd.Flags().StringVarP(&flags.namespace, "namespace", "n", "", "namespace of a policy, a pool, a migration or a pod (default: that of the kubeconfig)")
	addOutput(cmd, &flags.output, textOrJSON, "")
	cmd.Flags().Float64Var(&flags.energyWeight, "energy-weight", score.DefaultWeight, "for a pod: weight of energy against runtime, from 0 to 1, where neither it nor its namespace says")
	cmd.Flags().StringVar(&flags.priceFile, "price-file", "", "for a pod: CSV `file` with columns time, dollars_per_kwh and zone; joules count by them, as with a tariff in the plugin's arguments")
	cmd.Flags().StringVar(&flags.carbonFile, "carbon-file", "", "for a pod: the same with grams_per_kwh, of CO2 equivalent")
	return cmd
}

func runExplain(ctx context.Context, w io.Writer, object string, flags explainFlags) error {
	if err := textOrJSON.check("output", flags.output); err != nil {
		return badInput(err)
	}
	if object == "consolidation" {
		return explainConsolidation(ctx, w, flags)
	}
	kind, name, ok := strings.Cut(object, "/")
	if !ok || name == "" {
		return badInput(fmt.Errorf("%q: want KIND/NAME such as nodefleet/batch, or consolidation", object))
	}
	switch strings.ToLower(kind) {
	case "nodefleet", "nodefleets", "nf":
		fleet := &v1alpha1.NodeFleet{}
		return explainObject(ctx, w, "NodeFleet", name, flags, fleet, func() error { return explain.Fleet(w, fleet) })
	case "replicapolicy", "replicapolicies", "rp":
		p := &v1alpha1.ReplicaPolicy{}
		return explainObject(ctx, w, "ReplicaPolicy", name, flags, p, func() error { return explain.Policy(w, p) })
	case "migration", "migrations", "mig":
		m := &v1alpha1.Migration{}
		return explainObject(ctx, w, "Migration", name, flags, m, func() error { return explain.Migration(w, m) })
	case "machineprofile", "machineprofiles", "mp":
		m := &v1alpha1.MachineProfile{}
		return explainObject(ctx, w, "MachineProfile", name, flags, m, func() error { return explain.Profile(w, m, time.Now()) })
	case "workerpool", "workerpools", "wp":
		p := &v1alpha1.WorkerPool{}
		return explainObject(ctx, w, "WorkerPool", name, flags, p, func() error { return explain.Pool(w, p) })
	case "pod", "pods", "po":
		return explainPod(ctx, w, name, flags)
	}
	return badInput(fmt.Errorf("kind %q: want nodefleet, replicapolicy, workerpool, migration, machineprofile or pod", kind))
}

// explainObject reads an object and prints it, by say unless it is for a script.
func explainObject(ctx context.Context, w io.Writer, kind, name string, flags explainFlags, object client.Object, say func() error) error {
	c, namespace, err := namespacedClient(flags.kubeconfig, flags.namespace)
	if err != nil {
		return err
	}
	if kind == "NodeFleet" || kind == "MachineProfile" {
		namespace = "" // there is one of a name in a cluster
	}
	if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, object); err != nil {
		return fmt.Errorf("read %s %s: %w", kind, name, err)
	}
	if flags.output == "json" {
		object.SetManagedFields(nil)
		return writeJSON(w, object)
	}
	return say()
}

// explainable lists what can be explained, for completion.
func explainable(ctx context.Context, flags explainFlags) (names []string) {
	c, namespace, err := namespacedClient(flags.kubeconfig, flags.namespace)
	if err != nil {
		return nil
	}
	names = append(names, "consolidation")
	var fleets v1alpha1.NodeFleetList
	if err := c.List(ctx, &fleets); err == nil {
		for i := range fleets.Items {
			names = append(names, "nodefleet/"+fleets.Items[i].Name)
		}
	}
	var profiles v1alpha1.MachineProfileList
	if err := c.List(ctx, &profiles); err == nil {
		for i := range profiles.Items {
			names = append(names, "machineprofile/"+profiles.Items[i].Name)
		}
	}
	var policies v1alpha1.ReplicaPolicyList
	if err := c.List(ctx, &policies, client.InNamespace(namespace)); err == nil {
		for i := range policies.Items {
			names = append(names, "replicapolicy/"+policies.Items[i].Name)
		}
	}
	var pools v1alpha1.WorkerPoolList
	if err := c.List(ctx, &pools, client.InNamespace(namespace)); err == nil {
		for i := range pools.Items {
			names = append(names, "workerpool/"+pools.Items[i].Name)
		}
	}
	var migrations v1alpha1.MigrationList
	if err := c.List(ctx, &migrations, client.InNamespace(namespace)); err == nil {
		for i := range migrations.Items {
			names = append(names, "migration/"+migrations.Items[i].Name)
		}
	}
	return names
}
