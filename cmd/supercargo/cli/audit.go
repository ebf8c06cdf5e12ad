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
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/autoscaler/audit"
	"supercargo.dev/supercargo/autoscaler/auditor"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/internal/world/objects"
	"supercargo.dev/supercargo/lab/auditreport"
)

// auditFlags are the flags of `supercargo audit`.
type auditFlags struct {
	kubeconfig, context, as      string
	asGroups                     []string
	from, prices, output, report string
	obstacles                    int
	deadline                     time.Duration
}

func newAuditCommand() *cobra.Command {
	var flags auditFlags
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
  supercargo audit --prices prices.csv -o json | jq .cheapest.perMonth`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runAudit(cmd.Context(), flags, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.kubeconfig, "kubeconfig", "", "kubeconfig `file` of the cluster (default: as kubectl finds it)")
	f.StringVar(&flags.context, "context", "", "`name` of the context of the kubeconfig to use")
	f.StringVar(&flags.as, "as", "", "`user` to act as")
	f.StringSliceVar(&flags.asGroups, "as-group", nil, "`group` to act as; may be repeated")
	f.StringVar(&flags.from, "from", "", "`file` of what kubectl get -o yaml or -o json has printed, - for stdin (default: the cluster itself)")
	f.StringVar(&flags.prices, "prices", "", "CSV `file` with columns name, cpu, memory_gib and price_per_hour: prices of your own, which go before list prices")
	f.StringVar(&flags.report, "report", "", "HTML file to write")
	f.IntVar(&flags.obstacles, "obstacles", 5, "of how many obstacles of each sort to work out what they cost")
	f.DurationVar(&flags.deadline, "deadline", 0, "print what is found in this time; 0 looks at all")
	addOutput(cmd, &flags.output, tableOrJSON, "")
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
	seen, err := auditor.Of(ctx, read, auditor.Options{Now: start, Prices: prices})
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
	if flags.output == "json" {
		return document.WriteJSON(stdout)
	}
	return document.WriteTable(stdout)
}

// readAudit reads and checks everything before anything is computed, and reports every fault.
func readAudit(ctx context.Context, flags auditFlags, stdin io.Reader) (*objects.Objects, []catalogue.Flavor, error) {
	errs := []error{tableOrJSON.check("output", flags.output), canBeWritten("--report", flags.report)}
	if flags.obstacles < 0 {
		errs = append(errs, fmt.Errorf("--obstacles %d: want 0 or more", flags.obstacles))
	}
	if flags.deadline < 0 {
		errs = append(errs, fmt.Errorf("--deadline %v: want a time above 0, or 0 for none", flags.deadline))
	}
	for flag, given := range map[string]bool{"kubeconfig": flags.kubeconfig != "", "context": flags.context != "", "as": flags.as != "", "as-group": len(flags.asGroups) > 0} {
		if given && flags.from != "" {
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
		c, err := flags.client()
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

// client returns one that knows all that an audit reads.
func (f *auditFlags) client() (client.Client, error) {
	config, err := clusterConfig(f.kubeconfig, f.context, f.as, f.asGroups)
	if err != nil {
		return nil, err
	}
	scheme, err := operator.Kinds()
	if err != nil {
		return nil, err
	}
	if err := metricsv1beta1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register kinds: %w", err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	return c, nil
}
