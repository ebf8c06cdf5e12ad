package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/autoscaler/auditor"
	"supercargo.dev/supercargo/cmd/supercargo/record"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/world/objects"
)

// recordFlags are the flags of `supercargo record`.
type recordFlags struct {
	cluster   *clusterFlags
	output    string
	prices    string
	duration  time.Duration
	hashNames bool
	namespace string // whose pods are recorded; empty for all
}

func newRecordCommand() *cobra.Command {
	flags := recordFlags{cluster: newClusterFlags()}
	cmd := &cobra.Command{
		Use:   "record --output FILE",
		Short: "Record what comes and goes in a cluster, to simulate it",
		Long: `Watches the pods and nodes of a cluster, and appends each that comes, starts, ends or goes to a file. It changes
nothing. "supercargo simulate -f FILE" plays what was recorded: your own load under the policies of kube-scheduler,
of others and of Supercargo. The file is also a trace for a scenario.

Recorded are what pods request, their class, category, declared runtime, architecture and how they may be moved; and
nodes with their size, instance type and price. The simulator knows no other demands of pods, such as affinities. Pods
of DaemonSets are taken off their nodes.

Each row is written at once, so that a crash loses nothing. Ctrl-C ends the recording. The same command continues it;
what went meanwhile is taken to have gone when the recording was interrupted.

It must be allowed to list and watch nodes and pods.`,
		Example: `  # A week of this cluster, and what it would have cost under three policies
  supercargo record -o week.csv --duration 168h
  supercargo simulate -f week.csv --policy default,htas,supercargo

  # Without names, to pass it on; week.csv.salt, by which names are hashed, stays with you
  supercargo record -o week.csv --hash-names

  # With what is really paid for some instance types
  supercargo record -o week.csv --prices prices.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("namespace") && !flags.cluster.allNamespaces {
				flags.namespace = *flags.cluster.Namespace
			}
			return runRecord(cmd.Context(), flags, cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	flags.cluster.addTo(cmd, true)
	flags.cluster.addAllNamespaces(cmd)
	f.Lookup("all-namespaces").Usage = "record the pods of all namespaces: the default, unless --namespace is given"
	f.StringVarP(&flags.output, "output", "o", "", "`file` to append to (required)")
	f.StringVar(&flags.prices, "prices", "", "CSV `file` with columns name, cpu, memory_gib and price_per_hour: prices of your own, which go before list prices")
	f.DurationVar(&flags.duration, "duration", 0, "how long to record; 0 is until Ctrl-C")
	alsoSpelled(cmd, "for", "duration")
	f.BoolVar(&flags.hashNames, "hash-names", false, "write hashes in place of the names of pods, nodes, namespaces and categories")
	return cmd
}

// aliveEvery is how often a recording says that it goes on, and so how much of the end of one that was
// interrupted is not known.
const aliveEvery = time.Minute

func runRecord(ctx context.Context, flags recordFlags, stderr io.Writer) (err error) {
	prices, err := flags.read()
	if err != nil {
		return badInput(err)
	}
	config, err := flags.cluster.config()
	if err != nil {
		return err
	}
	c, err := flags.cluster.client()
	if err != nil {
		return err
	}
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	deployments, err := objects.MachineDeployments(ctx, c)
	if err != nil && !absent(err) {
		return fmt.Errorf("read the prices of MachineDeployments: %w", err)
	}
	file, err := record.OpenFile(flags.output, flags.hashNames)
	if err != nil {
		return badInput(fmt.Errorf("--output: %w", err))
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if flags.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, flags.duration)
		defer cancel()
	}
	unpriced := map[string]bool{}
	priced := auditor.NewPrices(&objects.Objects{Deployments: deployments}, prices)
	start := time.Now()
	tracker, err := record.Run(ctx, record.Options{
		Client: set, Namespace: flags.namespace, File: file, Clock: clock.RealClock{}, Alive: aliveEvery,
		Price: func(node *corev1.Node) *int64 {
			price, why := priced.Of(node)
			if why == "" {
				return &price
			}
			if !unpriced[why] { // once for each reason
				unpriced[why] = true
				fmt.Fprintf(stderr, "supercargo: no price of node %s: %s; --prices may name it\n", file.Name(node.Name), why)
			}
			return nil
		},
		Trouble: func(err error) { fmt.Fprintf(stderr, "supercargo: %v; trying again\n", err) },
	}, nil)
	if err != nil {
		return err
	}
	pods, nodes := tracker.Counts()
	fmt.Fprintf(stderr, "Recorded for %v: %s has %d pods, and %d nodes are there. To play it: supercargo simulate -f %s\n",
		time.Since(start).Round(time.Second), flags.output, pods, nodes, flags.output)
	return nil
}

// read checks the flags, and reads the prices.
func (f *recordFlags) read() (prices []catalogue.Flavor, err error) {
	var errs []error
	if f.output == "" {
		errs = append(errs, errors.New("--output: is missing, want the file to append to, such as week.csv"))
	}
	errs = append(errs, canBeWritten("--output", f.output))
	if f.duration < 0 {
		errs = append(errs, fmt.Errorf("--duration %v: want a time above 0, or 0 for no end", f.duration))
	}
	if f.prices != "" {
		errs = append(errs, readNamed("--prices", f.prices, func(in io.Reader) (err error) {
			prices, err = catalogue.ReadFlavors(f.prices, in)
			return err
		}))
	}
	return prices, errors.Join(errs...)
}
