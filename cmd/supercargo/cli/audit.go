package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/cli/auditor"
	"supercargo.dev/supercargo/cli/auditreport"
	"supercargo.dev/supercargo/cli/objects"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/internal/input"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

// auditFlags are the flags of `supercargo audit`.
type auditFlags struct {
	cluster                      *command.ClusterFlags
	asked                        []string // the names of the given flags that select the cluster
	from, prices, output, report string
	instanceTypes                []string
	obstacles                    int
	deadline                     time.Duration
}

func newAuditCommand() *cobra.Command {
	flags := auditFlags{cluster: command.NewClusterFlags()}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Report what a cluster costs, what it could cost, and what prevents that",
		Long: `Report what a cluster costs and how full it is. The report compares that with what the same pods
would cost after migrations alone, on the cheapest machines that can be bought, and at the lower
bound. It lists what prevents a lower bill and what each obstacle costs, and the nodes that are
used least for their price.

The command changes nothing and needs nothing of Supercargo in the cluster. It reads the current
cluster of the kubeconfig, or the output of kubectl (--from). The price of a node is its annotation
supercargo.dev/price-per-hour, or that of its MachineDeployment; else the price in --prices; else
the list price of AWS, Azure or Google Cloud that this program carries. Nodes without a price are
listed and left out of all figures.

You need permission to list nodes and pods. docs/audit.md has a ClusterRole for everything that the
command reads.`,
		Example: `  # Report on the current cluster
  supercargo audit

  # Write an HTML page to share
  supercargo audit --report audit.html

  # Report on a dump of another cluster
  kubectl get nodes,pods,pdb,daemonsets,namespaces,pvc,pv,storageclasses -A -o json > dump.json
  supercargo audit --from dump.json

  # Use the prices that you really pay
  supercargo audit --prices prices.csv -o json | jq .cheapest.perMonth

  # Consider only some instance families
  supercargo audit --instance-types 'm7i.*,c7i.*,r7i.*,!*.metal*'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.Flags().Visit(func(f *pflag.Flag) {
				if _, is := f.Annotations[command.OfCluster]; is {
					flags.asked = append(flags.asked, f.Name)
				}
			})
			return runAudit(cmd.Context(), flags, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	flags.cluster.AddTo(cmd, false)
	f.StringVar(&flags.from, "from", "", "`file` with the output of kubectl get -o yaml or -o json, - for standard input (default: the cluster itself)")
	command.AddPrices(f, &flags.prices)
	f.StringSliceVar(&flags.instanceTypes, "instance-types", nil, "`patterns` of instance types that may be bought besides those of the nodes, such as m7i.*,c7i.*,!*.metal (default: all but burstable ones and those with GPUs)")
	f.StringVar(&flags.report, "report", "", "HTML file to write")
	f.IntVar(&flags.obstacles, "obstacles", 5, "number of obstacles of each kind to price")
	f.DurationVar(&flags.deadline, "deadline", 0, "stop the search after this time and print the best result; 0 for no limit")
	command.AddOutput(cmd, &flags.output, command.TableJSONOrYAML, "")
	return cmd
}

// The garbage collector of an audit is lazy until the heap is large: all memory is freed at the end.
// With its default, which lets the heap double, 100,000 pods would take more time and memory.
const (
	auditMemory    = 1536 << 20 // soft limit in bytes
	auditGCPercent = 300
)

func runAudit(ctx context.Context, flags auditFlags, stdin io.Reader, stdout io.Writer) error {
	if os.Getenv("GOMEMLIMIT") == "" {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(auditMemory))
	}
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(auditGCPercent))
	}
	start := time.Now()
	read, prices, err := readAudit(ctx, flags, stdin)
	if err != nil {
		return err
	}
	in, err := auditor.Of(ctx, read, auditor.Options{Now: start, Prices: prices, InstanceTypes: flags.instanceTypes})
	if unknown := (*auditor.UnknownTypesError)(nil); errors.As(err, &unknown) {
		return command.BadInput(fmt.Errorf("--instance-types: %w", unknown))
	}
	if err != nil {
		return err
	}
	in.MostObstacles = flags.obstacles
	in.Stop = func() bool { return ctx.Err() != nil || flags.deadline > 0 && time.Since(start) >= flags.deadline }
	result := audit.Audit(*in)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted before the audit was complete: %w", ctx.Err())
	}
	if flags.report != "" {
		if err := command.WriteWhole(flags.report, func(w io.Writer) error { return auditreport.WriteHTML(w, &result) }); err != nil {
			return fmt.Errorf("--report: %w", err)
		}
	}
	if done, err := command.WriteStructured(stdout, flags.output, &result); done {
		return err
	}
	return auditreport.WriteTable(stdout, &result)
}

// readAudit reads and validates all input before anything is computed, and returns all errors.
func readAudit(ctx context.Context, flags auditFlags, stdin io.Reader) (*objects.Objects, []catalogue.Price, error) {
	errs := input.Faults{command.TableJSONOrYAML.Check("output", flags.output), command.CheckWritable("--report", flags.report)}
	errs.If(flags.obstacles < 0, "--obstacles %d: must be 0 or more", flags.obstacles)
	errs.If(flags.deadline < 0, "--deadline %v: must be more than 0, or 0 for no limit", flags.deadline)
	if flags.from != "" {
		for _, flag := range flags.asked {
			errs = append(errs, fmt.Errorf("--%s and --from are mutually exclusive: one selects a cluster, the other a file", flag))
		}
	}
	var prices []catalogue.Price
	if flags.prices != "" {
		errs = append(errs, command.ReadPrices(flags.prices, &prices))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, command.BadInput(err)
	}
	read, err := readObjects(ctx, flags, stdin)
	return read, prices, err
}

// readObjects reads a dump, or the cluster.
func readObjects(ctx context.Context, flags auditFlags, stdin io.Reader) (read *objects.Objects, err error) {
	switch flags.from {
	case "":
		c, err := flags.cluster.Client(metricsv1beta1.AddToScheme)
		if err != nil {
			return nil, err
		}
		return objects.Live(ctx, c)
	case "-":
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		read, err = objects.Dump("stdin", command.UntilDone(ctx, stdin))
	default:
		err = command.ReadNamed("--from", flags.from, func(in io.Reader) (err error) {
			read, err = objects.Dump(flags.from, in)
			return err
		})
	}
	return read, command.BadInput(err)
}
