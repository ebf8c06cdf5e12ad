package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/explain"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/energy/score"
)

type explainFlags struct {
	cluster               *command.ClusterFlags
	output                string
	energyWeight          float64
	energy                bool // a flag about energy was given
	priceFile, carbonFile string
}

// explainKind is a kind that can be explained, with its names in kubectl.
type explainKind struct {
	name    string
	aliases []string
	objects command.Objects
	explain func(ctx context.Context, w io.Writer, name string, flags explainFlags) error
}

// explainKinds returns all kinds that can be explained.
func explainKinds() []explainKind {
	ours := func(resource string, namespaced bool) command.Objects {
		return command.Objects{GroupVersionResource: v1alpha1.GroupVersion.WithResource(resource), Namespaced: namespaced}
	}
	return []explainKind{
		{"pod", []string{"pods", "po"}, command.Pods, explainPod},
		{"node", []string{"nodes", "no"}, command.Nodes, explainNode},
		{"nodefleet", []string{"nodefleets", "nf"}, ours("nodefleets", false), explainObject("NodeFleet", explain.Fleet)},
		{"replicapolicy", []string{"replicapolicies", "rp"}, ours("replicapolicies", true), explainObject("ReplicaPolicy", explain.Policy)},
		{"workerpool", []string{"workerpools", "wp"}, ours("workerpools", true), explainObject("WorkerPool", explain.Pool)},
		{"migration", []string{"migrations", "mig"}, ours("migrations", true), explainObject("Migration", explain.Migration)},
		{"machineprofile", []string{"machineprofiles", "mp"}, ours("machineprofiles", false), explainObject("MachineProfile", func(w io.Writer, m *v1alpha1.MachineProfile) error {
			return explain.Profile(w, m, time.Now())
		})},
	}
}

// consolidationName is the argument that explains nodes without a NodeFleet.
const consolidationName = "consolidation"

// explainKindOf returns the kind with a name or alias. The error for an unknown name suggests similar
// ones.
func explainKindOf(name string) (explainKind, error) {
	all := explainKinds()
	var names command.Words
	for i := range all {
		names = append(names, all[i].name)
		if strings.EqualFold(name, all[i].name) || slices.Contains(all[i].aliases, strings.ToLower(name)) {
			return all[i], nil
		}
	}
	return explainKind{}, command.BadInput(fmt.Errorf("kind %q: must be %v%s", name, names, command.DidYouMean(name, names, "")))
}

func newExplainCommand() *cobra.Command {
	flags := explainFlags{cluster: command.NewClusterFlags()}
	cmd := &cobra.Command{
		Use:   "explain (KIND/NAME | KIND NAME | pods | consolidation)",
		Short: "Explain Supercargo's last decision about a pod, a node or another object",
		Long: `Explain the last decision about an object: what was decided, which alternatives were rejected, what
was expected of it, and its outcome. For a NodeFleet, also explain what keeps each under-used
machine: a pod, a setting or its cost.

Kinds and their short names: pod (po), node (no), nodefleet (nf), replicapolicy (rp), workerpool (wp),
migration (mig), machineprofile (mp). "consolidation" is the descheduler's last decision about nodes
that belong to no NodeFleet.

For a pod, the command answers up to three questions:
  Why is it pending?    What kube-scheduler reports, why each node and each flavor of each NodeFleet
                        does not take it, and what the fleets do about it.
  Why this node?        What the scheduler recorded about its choice.
  What would move it?   How it may leave its node, what prevents that, and whether the node is to be
                        drained.
"pods" lists all pending pods, one per line.

If machine profiles are installed, the command also shows the energy and the time that the pod would
take on each node, and the scores of the EnergyPerformance plugin. The energy flags request this in
any case. For a machine profile, it shows the predictions and how far they are trusted.`,
		Example: `  # Why is this pod pending, or why is it on its node, and what would move it?
  supercargo explain pod work-0-x7k2p -n jobs

  # Which pods are pending, and what happens about each?
  supercargo explain pods -A

  # Will this node be drained, and which of its pods can leave?
  supercargo explain node worker-3

  # Why these machines?
  supercargo explain nodefleet/batch

  # Print everything as JSON
  supercargo explain nf/batch -o json | jq .status.lastDecision

  # Why this many workers, and what was learned about tasks?
  supercargo explain workerpool/blast -n genomics

  # Which nodes does the descheduler drain, and why not the others?
  supercargo explain consolidation

  # Why this many replicas?
  supercargo explain replicapolicy/web -n shop

  # How far is this migration, or why was it rolled back?
  supercargo explain migration/work-0-x7k2p-8k2lq -n jobs

  # On which node would this pod use the least energy?
  supercargo explain pod/work-0-x7k2p -n jobs --energy-weight 1

  # On which node would it emit the least CO2, with the scheduler's carbon intensities?
  supercargo explain pod/work-0-x7k2p -n jobs --carbon-file carbon.csv`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return command.BadInput(errors.New("name what to explain, such as pod NAME, pods, node NAME, nodefleet/NAME or consolidation; one at a time"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, flag := range []string{"energy-weight", "price-file", "carbon-file"} {
				flags.energy = flags.energy || cmd.Flags().Changed(flag)
			}
			return runExplain(cmd.Context(), cmd.OutOrStdout(), args, flags)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return explainable(cmd.Context(), flags.cluster, args, typed), cobra.ShellCompDirectiveNoFileComp
		},
	}
	flags.cluster.AddTo(cmd, true)
	flags.cluster.AddAllNamespaces(cmd)
	command.AddOutput(cmd, &flags.output, command.TableJSONOrYAML, "")
	cmd.Flags().Float64Var(&flags.energyWeight, "energy-weight", score.DefaultWeight, "for a pod: weight of energy against runtime, from 0 to 1, where neither it nor its namespace says")
	cmd.Flags().StringVar(&flags.priceFile, "price-file", "", "for a pod: CSV `file` with columns time, dollars_per_kwh and zone; joules count by them, as with a tariff in the plugin's arguments")
	cmd.Flags().StringVar(&flags.carbonFile, "carbon-file", "", "for a pod: the same with grams_per_kwh, of CO2 equivalent")
	return cmd
}

func runExplain(ctx context.Context, w io.Writer, args []string, flags explainFlags) error {
	if err := command.TableJSONOrYAML.Check("output", flags.output); err != nil {
		return command.BadInput(err)
	}
	kind, name, named := args[0], "", len(args) == 2
	if named {
		name = args[1]
	} else {
		kind, name, named = strings.Cut(kind, "/")
	}
	if kind == consolidationName && !named {
		return explainConsolidation(ctx, w, flags)
	}
	k, err := explainKindOf(kind)
	switch {
	case err != nil && !named:
		return command.BadInput(fmt.Errorf("%q: must be KIND/NAME such as nodefleet/batch, pods, or %s%s", args[0], consolidationName, command.DidYouMean(args[0], []string{consolidationName, "pods"}, "")))
	case err != nil:
		return err
	case k.name == "pod" && !named:
		return explainPods(ctx, w, flags)
	case name == "":
		return command.BadInput(fmt.Errorf("%q: must be KIND/NAME such as nodefleet/batch: the name of the %s is missing", args[0], k.name))
	case flags.cluster.AllNamespaces:
		return command.BadInput(fmt.Errorf("--all-namespaces: cannot be used with the name %s: use -n NAMESPACE", name))
	}
	return k.explain(ctx, w, name, flags)
}

// explainObject returns a function that reads an object and prints it: as JSON or YAML, or else with say.
func explainObject[T any, O interface {
	*T
	client.Object
}](kind string, say func(io.Writer, O) error) func(ctx context.Context, w io.Writer, name string, flags explainFlags) error {
	return func(ctx context.Context, w io.Writer, name string, flags explainFlags) error {
		c, namespace, err := flags.cluster.Namespaced()
		if err != nil {
			return err
		}
		if kind == "NodeFleet" || kind == "MachineProfile" {
			namespace = "" // they are cluster-scoped
		}
		object := O(new(T))
		if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, object); err != nil {
			return fmt.Errorf("read %s %s: %w", kind, name, err)
		}
		object.SetManagedFields(nil)
		object.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind)) // a client does not set it
		if done, err := command.WriteStructured(w, flags.output, object); done {
			return err
		}
		return say(w, object)
	}
}

// explainable returns the completions of an argument: names of kinds, then names of objects of that kind, as for kubectl.
func explainable(ctx context.Context, cluster *command.ClusterFlags, args []string, typed string) (names []string) {
	kind, _, slash := strings.Cut(typed, "/")
	switch {
	case len(args) == 1 && !strings.Contains(args[0], "/"):
		if k, err := explainKindOf(args[0]); err == nil {
			return cluster.Complete(ctx, k.objects)
		}
	case len(args) == 0 && slash:
		if k, err := explainKindOf(kind); err == nil {
			for _, name := range cluster.Complete(ctx, k.objects) {
				names = append(names, kind+"/"+name)
			}
		}
	case len(args) == 0:
		for _, k := range explainKinds() {
			names = append(names, k.name)
		}
		names = append(names, "pods\tall pods without a node", consolidationName+"\tthe descheduler's last decision about nodes")
	}
	return names
}

// explainConsolidation prints the last decision of the descheduler about nodes.
func explainConsolidation(ctx context.Context, w io.Writer, flags explainFlags) error {
	c, err := flags.cluster.Client()
	if err != nil {
		return err
	}
	var object v1alpha1.Consolidation
	switch err := c.Get(ctx, types.NamespacedName{Name: v1alpha1.ConsolidationName}, &object); {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return fmt.Errorf("there is no Consolidation %s, in whose status the descheduler reports: the manifests of the descheduler create it", v1alpha1.ConsolidationName)
	case err != nil:
		return fmt.Errorf("read the descheduler's last decision: %w", err)
	case object.Status.Time == nil:
		return fmt.Errorf("the status of Consolidation %s has no decision: the descheduler has not decided yet, or runs with --consolidation=Off", v1alpha1.ConsolidationName)
	}
	if done, err := command.WriteStructured(w, flags.output, object.Status); done {
		return err
	}
	return explain.Consolidation(w, &object.Status)
}
