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

	"supercargo.dev/supercargo/autoscaler/audit"
	"supercargo.dev/supercargo/autoscaler/auditor"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/world/objects"
	"supercargo.dev/supercargo/lab/auditreport"
)

// auditFlags are the flags of `supercargo audit`.
type auditFlags struct {
	cluster                      *clusterFlags
	asked                        []string // which flags that say which cluster are given
	from, prices, output, report string
	instanceTypes                []string
	obstacles                    int
	deadline                     time.Duration
}

func newAuditCommand() *cobra.Command {
	flags := auditFlags{cluster: newClusterFlags()}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Say what a cluster costs, what its pods would cost on cheaper machines, and what stands in the way",
		Long: `Looks at a cluster and changes nothing: what it costs, how full it is, what the same pods would cost
by moving them alone, on the cheapest machines that can be bought, and at the least; what stands in
the way of a lower bill, and what each of that costs; and the nodes that are used least for their price.

Nothing of Supercargo need be installed. It asks the cluster that kubectl asks, or reads what kubectl has
printed (--from). Nodes are priced by the annotation supercargo.dev/price-per-hour of the node or of its
MachineDeployment, else by the prices of --prices, else by the list prices of AWS, Azure and Google Cloud
that this program carries. A node without a price is listed, and is in no figure.

It must be allowed to list nodes and pods; docs/audit.md has a ClusterRole for all that it reads.`,
		Example: `  # The cluster that kubectl asks, on one screen
  supercargo audit

  # A page to pass on
  supercargo audit --report audit.html

  # From what somebody else has printed
  kubectl get nodes,pods,pdb,daemonsets,namespaces,pvc,pv,storageclasses -A -o json > dump.json
  supercargo audit --from dump.json

  # With what is really paid for some instance types
  supercargo audit --prices prices.csv -o json | jq .cheapest.perMonth

  # Among the families that you would rent
  supercargo audit --instance-types 'm7i.*,c7i.*,r7i.*,!*.metal*'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.Flags().Visit(func(f *pflag.Flag) {
				if _, is := f.Annotations[ofCluster]; is {
					flags.asked = append(flags.asked, f.Name)
				}
			})
			return runAudit(cmd.Context(), flags, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	flags.cluster.addTo(cmd, false)
	f.StringVar(&flags.from, "from", "", "`file` of what kubectl get -o yaml or -o json has printed, - for stdin (default: the cluster itself)")
	f.StringVar(&flags.prices, "prices", "", "CSV `file` with columns name, cpu, memory_gib and price_per_hour: prices of your own, which go before list prices")
	f.StringSliceVar(&flags.instanceTypes, "instance-types", nil, "`patterns` of instance types that may be bought besides those of the nodes, such as m7i.*,c7i.*,!*.metal (default: all but burstable ones and those with GPUs)")
	f.StringVar(&flags.report, "report", "", "HTML file to write")
	f.IntVar(&flags.obstacles, "obstacles", 5, "of how many obstacles of each sort to work out what they cost")
	f.DurationVar(&flags.deadline, "deadline", 0, "print what is found in this time; 0 looks at all")
	addOutput(cmd, &flags.output, tableJSONOrYAML, "")
	return cmd
}

// auditMemory is how many bytes the garbage collector keeps an audit within where it can: the default of
// letting garbage grow as large as what is in use would take 100,000 pods beyond 2 GiB.
const auditMemory = 1536 << 20

func runAudit(ctx context.Context, flags auditFlags, stdin io.Reader, stdout io.Writer) error {
	if os.Getenv("GOMEMLIMIT") == "" {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(auditMemory))
	}
	start := time.Now()
	read, prices, err := readAudit(ctx, flags, stdin)
	if err != nil {
		return err
	}
	seen, err := auditor.Of(ctx, read, auditor.Options{Now: start, Prices: prices, InstanceTypes: flags.instanceTypes})
	if unknown := (*auditor.UnknownTypesError)(nil); errors.As(err, &unknown) {
		return badInput(fmt.Errorf("--instance-types: %w", unknown))
	}
	if err != nil {
		return err
	}
	seen.Input.MostObstacles = flags.obstacles
	seen.Input.Stop = func() bool { return ctx.Err() != nil || flags.deadline > 0 && time.Since(start) >= flags.deadline }
	result := audit.Audit(seen.Input)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted before the audit was complete: %w", ctx.Err())
	}
	document := auditreport.NewDocument(seen, &result)
	if flags.report != "" {
		if err := writeWhole(flags.report, document.WriteHTML); err != nil {
			return fmt.Errorf("--report: %w", err)
		}
	}
	if done, err := writeStructured(stdout, flags.output, document); done {
		return err
	}
	return document.WriteTable(stdout)
}

// readAudit reads and checks everything before anything is computed, and reports every fault.
func readAudit(ctx context.Context, flags auditFlags, stdin io.Reader) (*objects.Objects, []catalogue.Flavor, error) {
	errs := []error{tableJSONOrYAML.check("output", flags.output), canBeWritten("--report", flags.report)}
	if flags.obstacles < 0 {
		errs = append(errs, fmt.Errorf("--obstacles %d: want 0 or more", flags.obstacles))
	}
	if flags.deadline < 0 {
		errs = append(errs, fmt.Errorf("--deadline %v: want a time above 0, or 0 for none", flags.deadline))
	}
	if flags.from != "" {
		for _, flag := range flags.asked {
			errs = append(errs, fmt.Errorf("--%s: is about a cluster, and --from reads a file: want one of the two", flag))
		}
	}
	var prices []catalogue.Flavor
	if flags.prices != "" {
		errs = append(errs, readNamed("--prices", flags.prices, func(in io.Reader) (err error) {
			prices, err = catalogue.ReadFlavors(flags.prices, in)
			return err
		}))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, badInput(err)
	}
	read, err := readObjects(ctx, flags, stdin)
	return read, prices, err
}

// readObjects reads a dump, or asks the cluster.
func readObjects(ctx context.Context, flags auditFlags, stdin io.Reader) (read *objects.Objects, err error) {
	switch flags.from {
	case "":
		c, err := flags.cluster.client(metricsv1beta1.AddToScheme)
		if err != nil {
			return nil, err
		}
		return objects.Live(ctx, c)
	case "-":
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		read, err = objects.Dump("stdin", untilDone(ctx, stdin))
	default:
		err = readNamed("--from", flags.from, func(in io.Reader) (err error) {
			read, err = objects.Dump(flags.from, in)
			return err
		})
	}
	return read, badInput(err)
}
