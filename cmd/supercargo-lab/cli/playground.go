package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/lab/playground/controlplane"
	"supercargo.dev/supercargo/lab/playground/programs"
)

// playgroundFlags are the flags of `supercargo playground`.
type playgroundFlags struct {
	nodes           int
	dir             string
	kubeconfig      string
	workload        string
	schedulerConfig string

	metricsAdapter    bool
	queryAddress      string
	clusterAPI        bool
	machines          string
	machineFlavors    string
	machineLag        time.Duration
	machineReleaseLag time.Duration
}

// playgroundInput is the validated input of the flags.
type playgroundInput struct {
	options  playground.Options
	workload []playground.Manifest
	machines []playground.MachineDeploymentSpec
	// prices is the ConfigMap with the flavors of Karpenter.
	prices []playground.Manifest
}

// What creates the machines of a playground.
const (
	byClusterAPI = "cluster-api"
	byKarpenter  = "karpenter"
)

var machineCreators = command.Words{byClusterAPI, byKarpenter}

func newPlaygroundCommand() *cobra.Command {
	var flags playgroundFlags
	cmd := &cobra.Command{
		Use:   "playground",
		Short: "Run a real control plane on this machine, with nodes simulated by kwok",
		Long: `Run etcd, kube-apiserver, kube-controller-manager, cluster-api and Supercargo's scheduler,
autoscaler and descheduler on this machine. kwok simulates the nodes. The API server listens
on the loopback interface only.

--nodes creates nodes at the start. Further nodes come and go with the replicas of
MachineDeployments: --flavors creates one for each flavor of a CSV file, with its size and
price and no replicas. --cluster-api=false leaves cluster-api out and starts some seconds
faster.

With --machines karpenter, Karpenter and its kwok provider run in place of cluster-api: nodes
come and go with NodeClaims, of NodePools or of NodeFleets with provider Karpenter. --flavors are
its instance types, in the zone playground-a. ConfigMap default/flavors has them as a catalogue
for spec.pricing, and KWOKNodeClass default is the NodeClass.

The command prints the path of a kubeconfig, then "ready" when pods can be scheduled. It runs
until Ctrl-C or SIGTERM and then stops everything that it has started.`,
		Example: `  # Create ten nodes of five types, and a workload
  supercargo playground --nodes 10 --kubeconfig ./kubeconfig -f pods.yaml

  # In another terminal
  kubectl --kubeconfig ./kubeconfig get pods -o wide

  # Report what the nodes would draw, by the requests of their pods
  supercargo playground --nodes 10 -f pods.yaml --metrics-adapter --query-bind-address 127.0.0.1:9090
  supercargo report energy --prometheus http://127.0.0.1:9090 --power model --since 5m

  # Offer machines that take half a minute to start
  supercargo playground --flavors flavors.csv --machine-lag 30s --kubeconfig ./kubeconfig
  kubectl --kubeconfig ./kubeconfig scale machinedeployment m1.large --replicas 3

  # Have Karpenter launch the machines of a NodeFleet
  supercargo playground --machines karpenter --flavors flavors.csv --kubeconfig ./kubeconfig -f manifests/samples/nodefleet-playground-karpenter.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags.clusterAPI = flags.clusterAPI && flags.machines != byKarpenter
			return runPlayground(cmd.Context(), flags, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.IntVar(&flags.nodes, "nodes", 0, "number of nodes, of five machine types in turn; 0 for none")
	f.StringVar(&flags.dir, "dir", "", "directory for all state, which a later run resumes; default: a temporary directory")
	f.StringVar(&flags.kubeconfig, "kubeconfig", "", "where to write the kubeconfig; default: into the directory")
	command.AddInput(cmd, &flags.workload, "YAML `file` of objects to apply, - for standard input", "workload")
	f.StringVar(&flags.schedulerConfig, "scheduler-config", "", "KubeSchedulerConfiguration `file`; default: the one in manifests/scheduler/config, which packs strictly")
	f.BoolVar(&flags.clusterAPI, "cluster-api", true, "run cluster-api, so that MachineDeployments become nodes")
	f.StringVar(&flags.machines, "machines", byClusterAPI, "what creates machines: "+machineCreators.String())
	machineCreators.Complete(cmd, "machines")
	f.BoolVar(&flags.metricsAdapter, "metrics-adapter", false, "run the metrics adapter, so that HorizontalPodAutoscalers find custom and external metrics")
	f.StringVar(&flags.queryAddress, "query-bind-address", "0", "`host:port` where the metrics adapter answers PromQL over HTTP without authentication, such as 127.0.0.1:9090; 0 to disable")
	f.StringVar(&flags.machineFlavors, "flavors", "", "CSV `file` of machine flavors; each becomes a MachineDeployment, or an instance type of Karpenter")
	command.AlsoSpelled(cmd, "machine-flavors", "flavors")
	f.DurationVar(&flags.machineLag, "machine-lag", 0, "how long a machine of --flavors takes to become a node; 0 for at once")
	f.DurationVar(&flags.machineReleaseLag, "machine-release-lag", 0, "how long a machine of --flavors takes to be deleted; 0 for at once")
	return cmd
}

func runPlayground(ctx context.Context, flags playgroundFlags, stdin io.Reader, stdout, stderr io.Writer) error {
	input, err := readPlaygroundInput(flags, stdin)
	if err != nil {
		return command.BadInput(err)
	}
	if note := unservedPods(input.options.SchedulerConfig); note != "" {
		fmt.Fprintf(stderr, "supercargo: --scheduler-config %s: %s\n", flags.schedulerConfig, note)
	}
	p, err := playground.Start(ctx, input.options)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return nil // stopped by the user before it was ready
		}
		return flags.inputOrFailure(err)
	}
	err = servePlayground(ctx, p, flags, input, stdout)
	return errors.Join(err, p.Stop())
}

// readPlaygroundInput reads and validates what can be validated before anything is started.
func readPlaygroundInput(flags playgroundFlags, stdin io.Reader) (*playgroundInput, error) {
	var errs []error
	in := &playgroundInput{options: playground.Options{
		Dir: flags.dir, KubeconfigPath: flags.kubeconfig, ClusterAPI: flags.clusterAPI, OldClusterAPI: flags.clusterAPI,
	}}
	if flags.nodes < 0 {
		errs = append(errs, fmt.Errorf("--nodes %d: must be 0 or more", flags.nodes))
	} else {
		in.options.Nodes = playground.Fleet(flags.nodes)
	}
	if _, _, err := net.SplitHostPort(flags.queryAddress); flags.queryAddress != "0" && (err != nil || !flags.metricsAdapter) {
		errs = append(errs, fmt.Errorf("--query-bind-address %q: must be host:port, and requires --metrics-adapter", flags.queryAddress))
	}
	if flags.schedulerConfig != "" {
		config, err := os.ReadFile(flags.schedulerConfig)
		if err != nil {
			errs = append(errs, fmt.Errorf("--scheduler-config: %w", err))
		}
		in.options.SchedulerConfig = config
	}
	err := machineCreators.Check("machines", flags.machines)
	errs = append(errs, err)
	if in.workload, err = readWorkload(flags.workload, stdin); err != nil {
		errs = append(errs, fmt.Errorf("-f: %w", err))
	}
	if flags.machines == byKarpenter {
		in.options.Karpenter, in.prices, err = readKarpenter(flags)
	} else {
		in.machines, err = readMachineFlavors(flags)
	}
	errs = append(errs, err)
	return in, errors.Join(errs...)
}

// unservedPods returns a note if no profile schedules pods with the default schedulerName. It ignores
// an invalid configuration, which is rejected later.
func unservedPods(schedulerConfig []byte) string {
	var c struct {
		Profiles []struct {
			SchedulerName *string `json:"schedulerName"`
		} `json:"profiles"`
	}
	if yaml.Unmarshal(schedulerConfig, &c) != nil || len(c.Profiles) == 0 {
		return ""
	}
	var names []string
	for _, p := range c.Profiles {
		if p.SchedulerName == nil || *p.SchedulerName == corev1.DefaultSchedulerName {
			return ""
		}
		names = append(names, *p.SchedulerName)
	}
	return "it has no profile " + corev1.DefaultSchedulerName + ": pods remain pending unless their spec.schedulerName is " + strings.Join(names, " or ")
}

func readWorkload(path string, stdin io.Reader) ([]playground.Manifest, error) {
	switch path {
	case "":
		return nil, nil
	case "-":
		return playground.ParseManifests("stdin", stdin)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return playground.ParseManifests(path, f)
}

// servePlayground prints the kubeconfig, starts the programs, and waits until the playground ends.
func servePlayground(ctx context.Context, p *playground.Playground, flags playgroundFlags, input *playgroundInput, stdout io.Writer) error {
	fmt.Fprintln(stdout, p.KubeconfigPath())
	err := p.InstallCRDs(ctx)
	if err == nil {
		var started []*programs.Program
		started, err = programs.Start(ctx, p, programs.Options{
			Autoscaler: flags.clusterAPI || flags.machines == byKarpenter, MetricsAdapter: flags.metricsAdapter, QueryAddress: flags.queryAddress,
		})
		defer func() {
			for _, program := range started {
				_ = program.Stop() // it ends with the playground in any case
			}
		}()
	}
	if err == nil {
		err = p.AddMachineDeployments(ctx, input.machines)
	}
	if err == nil {
		err = p.Apply(ctx, slices.Concat(input.prices, input.workload))
	}
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return flags.inputOrFailure(err)
	}
	fmt.Fprintln(stdout, "ready")
	<-p.Done()
	return p.Err()
}

// inputOrFailure marks errors that the user's input caused, and adds the name of the flag.
func (f playgroundFlags) inputOrFailure(err error) error {
	var input *controlplane.InputError
	if !errors.As(err, &input) {
		return err
	}
	switch input.Option {
	case "Dir":
		err = fmt.Errorf("--dir %s: %w", f.dir, err)
	case "KubeconfigPath":
		err = fmt.Errorf("--kubeconfig %s: %w", f.kubeconfig, err)
	case "SchedulerConfig":
		err = fmt.Errorf("--scheduler-config %s: %w", f.schedulerConfig, err)
	default:
		err = fmt.Errorf("-f: %w", err)
	}
	return command.BadInput(err)
}
