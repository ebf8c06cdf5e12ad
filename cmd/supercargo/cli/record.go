package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/auditor"
	"supercargo.dev/supercargo/cli/objects"
	"supercargo.dev/supercargo/cli/record"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/internal/input"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/internal/platform/promql/prometheus"
	"supercargo.dev/supercargo/internal/text/plural"
	"supercargo.dev/supercargo/internal/world"
)

// recordFlags are the flags of `supercargo record`.
type recordFlags struct {
	cluster   *command.ClusterFlags
	output    string
	prices    string
	duration  command.Days
	since     command.Days
	server    prometheus.Config
	hashNames bool
	namespace string // of the recorded pods; empty for all

	sinceGiven bool
}

func newRecordCommand() *cobra.Command {
	flags := recordFlags{cluster: command.NewClusterFlags(), since: command.Days(7 * 24 * time.Hour)}
	cmd := &cobra.Command{
		Use:   "record --output-file FILE [--prometheus URL]",
		Short: "Record the pods and nodes of a cluster as a trace to simulate",
		Long: `Watch the pods and nodes of a cluster and append every arrival, start, end and removal to a file.
"supercargo simulate -f FILE" replays the recording under the policies of kube-scheduler, of others
and of Supercargo. The file can also be the trace of a scenario. The command changes nothing in the
cluster.

The recording has the requests, class, category, declared runtime, architecture and migration
method of pods, and the size, instance type and price of nodes. It does not have other constraints
of pods, such as affinities. At the end, the command says which these are, and of how many pods. The
requests of DaemonSet pods are subtracted from their nodes.

Each row is written at once, so a crash loses nothing. Ctrl-C ends the recording. Run the same
command again to continue it: what disappeared in between counts as gone from the time of the
interruption.

You need permission to list and watch nodes and pods.

With --prometheus, the command watches nothing. It reads the time from --since until now from a
Prometheus server that scrapes kube-state-metrics, and writes a new file. docs/record.md lists what
these metrics lack.`,
		Example: `  # Record a week, then simulate what it would have cost under three policies
  supercargo record --output-file week.csv --duration 168h
  supercargo simulate -f week.csv --policy default,supercargo

  # Hash all names, to share the file; keep week.csv.salt, the salt of the hashes, to yourself
  supercargo record --output-file week.csv --hash-names

  # Use the prices that you really pay
  supercargo record --output-file week.csv --prices prices.csv

  # Read the past week from a Prometheus server
  supercargo record --output-file week.csv --prometheus http://localhost:9090 --since 7d`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("namespace") && !flags.cluster.AllNamespaces {
				flags.namespace = flags.cluster.Namespace()
			}
			flags.sinceGiven = cmd.Flags().Changed("since")
			if err := command.CheckOutputFile(cmd); err != nil {
				return command.BadInput(err)
			}
			return runRecord(cmd.Context(), flags, cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	flags.cluster.AddTo(cmd, true)
	flags.cluster.AddAllNamespaces(cmd)
	f.Lookup("all-namespaces").Usage = "record the pods of all namespaces: the default, unless --namespace is given"
	command.AddOutputFile(cmd, &flags.output, "`file` to append to (required)")
	command.AddPrices(f, &flags.prices)
	f.Var(&flags.duration, "duration", "how long to record, such as 24h or 7d; 0 to record until Ctrl-C")
	command.AlsoSpelled(cmd, "for", "duration")
	flags.server.AddFlags(f)
	f.DurationVar(&flags.server.Timeout, "timeout", time.Minute, "how long the server may take for one query")
	f.Var(&flags.since, "since", "with --prometheus: how long before now to begin")
	f.BoolVar(&flags.hashNames, "hash-names", false, "hash the names of pods, nodes, namespaces and categories")
	return cmd
}

// aliveEvery is the interval of the rows that show that a recording continues, and so the uncertainty
// about the end of an interrupted one.
const aliveEvery = time.Minute

func runRecord(ctx context.Context, flags recordFlags, stderr io.Writer) (err error) {
	prices, err := flags.read()
	if err != nil {
		return command.BadInput(err)
	}
	file, err := record.OpenFile(flags.output, flags.hashNames)
	if err != nil {
		return command.BadInput(fmt.Errorf("--output-file: %w", err))
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if flags.server.URL != "" {
		return recordPast(ctx, flags, file, prices, stderr)
	}
	return recordLive(ctx, flags, file, prices, stderr)
}

// recordLive records the cluster by watching it.
func recordLive(ctx context.Context, flags recordFlags, file *record.File, prices []catalogue.Price, stderr io.Writer) error {
	config, err := flags.cluster.Config()
	if err != nil {
		return err
	}
	c, err := flags.cluster.Client()
	if err != nil {
		return err
	}
	watching, err := client.NewWithWatch(config, client.Options{})
	if err != nil {
		return fmt.Errorf("create the client: %w", err)
	}
	deployments, err := objects.MachineDeployments(ctx, c)
	if err != nil && !objects.Absent(err) {
		return fmt.Errorf("read the prices of MachineDeployments: %w", err)
	}
	if flags.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(flags.duration))
		defer cancel()
	}
	start := time.Now()
	tracker, err := record.Run(ctx, record.Options{
		Client: watching, Namespace: flags.namespace, File: file, Clock: clock.RealClock{}, Alive: aliveEvery,
		Price:   pricesOfNodes(&objects.Objects{Deployments: deployments}, prices, file, stderr),
		Trouble: func(err error) { fmt.Fprintf(stderr, "supercargo: %v; retrying\n", err) },
	}, nil)
	if err != nil {
		return err
	}
	pods, nodes := tracker.Counts()
	fmt.Fprintf(stderr, "Recorded for %v: %s has %s, and the cluster has %s. To simulate it: supercargo simulate -f %s\n",
		time.Since(start).Round(time.Second), flags.output, plural.Count(pods, "pod"), plural.Count(nodes, "node"), flags.output)
	if text := tracker.Lacks(); text != "" {
		fmt.Fprintln(stderr, text)
	}
	return nil
}

// recordPast reads the past from a Prometheus server, and writes a complete recording.
func recordPast(ctx context.Context, flags recordFlags, file *record.File, prices []catalogue.Price, stderr io.Writer) error {
	if file.Before != nil {
		return command.BadInput(fmt.Errorf("--output-file: %s already is a recording, and --prometheus writes a new one: use another file", flags.output))
	}
	server, err := prometheus.New(flags.server)
	if err != nil {
		return command.BadInput(fmt.Errorf("--prometheus: %w", err))
	}
	to := time.Now().Truncate(time.Second)
	m := record.Metrics{
		Server: server, From: to.Add(-time.Duration(flags.since)), To: to, Name: file.Name, Price: pricesOfNodes(&objects.Objects{}, prices, file, stderr), Namespace: flags.namespace,
	}
	rows, err := m.Read(ctx)
	if err != nil {
		return err
	}
	t := record.NewTracker(file.Name, m.Price, nil)
	if err := file.Append(slices.Concat([]trace.Row{t.Begin(m.From, file.Hashed)}, rows, []trace.Row{t.Stop(m.To)})...); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "%s has %s; the times of removals are accurate to %v. To simulate it: supercargo simulate -f %s\n", flags.output, plural.Count(len(rows), "row"), m.Step(), flags.output)
	fmt.Fprintln(stderr, record.MetricsLack)
	return nil
}

// pricesOfNodes returns a function for the prices of nodes, which prints why the price of a node that has started is
// unknown. The user's prices of nodes without an instance type are those of their flavors in the recording.
func pricesOfNodes(from *objects.Objects, own []catalogue.Price, file *record.File, stderr io.Writer) func(*corev1.Node) *int64 {
	priced, printed := auditor.NewPricer(from, auditor.Pricing{Own: own}), map[string]bool{}
	return func(node *corev1.Node) *int64 {
		flavor := record.FlavorOf(node)
		if slices.ContainsFunc(own, func(p catalogue.Price) bool { return p.Name == flavor }) {
			node = node.DeepCopy()
			metav1.SetMetaDataLabel(&node.ObjectMeta, corev1.LabelInstanceTypeStable, flavor)
		}
		price, why := priced.Price(node)
		if why == "" {
			return &price
		}
		text := why + "; " + settable(node, flavor)
		if !printed[text] && world.Unstarted(node) == "" { // once for each reason, and what labels a node may be late
			printed[text] = true
			fmt.Fprintf(stderr, "supercargo: the price of node %s is unknown: %s\n", file.Name(node.Name), text)
		}
		return nil
	}
}

// settable says what can set the price of a node, which has a flavor in the recording.
func settable(node *corev1.Node, flavor string) string {
	switch {
	case auditor.BilledByPod(node):
		return fmt.Sprintf("its annotation %s can set it", v1alpha1.AnnotationPricePerHour)
	case auditor.InstanceType(node) == "":
		return "--prices can set it, as the price of " + flavor
	}
	return "--prices can set it"
}

// read validates the flags, and reads the prices.
func (f *recordFlags) read() (prices []catalogue.Price, err error) {
	var errs input.Faults
	errs.If(f.output == "", "--output-file is required: the file to append to, such as week.csv")
	errs = append(errs, command.CheckWritable("--output-file", f.output))
	switch past := f.server.URL != ""; {
	case past && f.duration != 0:
		errs = append(errs, errors.New("--duration cannot be used with --prometheus, which reads the past: use --since"))
	case past:
		f.server.MaxBytes = mostAnswerBytes
		errs.In("--prometheus", f.server.Validate())
		errs.If(time.Duration(f.since) < time.Minute, "--since %v: must be 1m or more", f.since)
	case f.sinceGiven:
		errs = append(errs, errors.New("--since requires --prometheus"))
	}
	if f.prices != "" {
		errs = append(errs, command.ReadPrices(f.prices, &prices))
	}
	return prices, errors.Join(errs...)
}
