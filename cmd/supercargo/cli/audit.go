package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/cli/auditor"
	"supercargo.dev/supercargo/cli/auditreport"
	"supercargo.dev/supercargo/cli/objects"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/internal/input"
)

// auditFlags are the flags of `supercargo audit`.
type auditFlags struct {
	cluster                       *command.ClusterFlags
	asked                         []string // the names of the given flags that select the cluster
	from, output, report, byLabel string
	pricingFlags
	instanceTypes, archs []string
	obstacles            int
	deadline             time.Duration
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
cluster of the kubeconfig, or the output of kubectl (-f). The price of a node is its annotation
supercargo.dev/price-per-hour, or that of its MachineDeployment; else the price in --prices; else
the list price of AWS, Azure or Google Cloud that this program carries, less --discount; else its
CPU and memory at the default prices, if they are set. Nodes without a price are listed and left out
of all figures.

You need permission to list nodes and pods. docs/audit.md has a ClusterRole for everything that the
command reads.`,
		Example: `  # Report on the current cluster
  supercargo audit

  # Write a page to share, with what each namespace and each team costs
  supercargo audit --report audit.html --by-label team

  # The same for a spreadsheet, or as Markdown
  supercargo audit --report audit.csv
  supercargo audit --report audit.md

  # Report on a dump of another cluster
  kubectl get nodes,pods,pdb,daemonsets,namespaces,pvc,pv,storageclasses,csinodes -A -o json > dump.json
  supercargo audit -f dump.json

  # Use the prices that you really pay
  supercargo audit --prices prices.csv -o json | jq .cheapest.perMonth
  supercargo audit --discount on-demand=0.28,spot=0.65

  # Price the nodes of your own hardware by CPU and memory
  supercargo audit --default-price-per-cpu-hour 0.03 --default-price-per-gib-hour 0.004

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
	command.AddInput(cmd, &flags.from, "`file` with the output of kubectl get -o yaml or -o json, - for standard input (default: the cluster itself)", "from")
	flags.addPricing(cmd)
	f.StringSliceVar(&flags.instanceTypes, "instance-types", nil, "`patterns` of instance types that may be bought besides those of the nodes, such as m7i.*,c7i.*,!*.metal (default: all but burstable ones and those with GPUs)")
	f.StringSliceVar(&flags.archs, "arch", nil, "CPU `architectures` for which all images exist, such as arm64, besides those on which they were seen running")
	f.StringVar(&flags.byLabel, "by-label", "", "`key` of a pod label by whose values the bill is divided, besides by namespace")
	f.StringVar(&flags.report, "report", "", "`file` to write: a page (.html), Markdown (.md) or a table for spreadsheets (.csv)")
	f.IntVar(&flags.obstacles, "obstacles", 5, "number of obstacles of each kind to price")
	f.DurationVar(&flags.deadline, "deadline", 0, "stop the search after this time and print the best result; 0 for no limit")
	command.AddOutput(cmd, &flags.output, command.TableJSONOrYAML, "")
	architectures.CompleteList(cmd, "arch")
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
	read, options, err := readAudit(ctx, flags, stdin)
	if err != nil {
		return err
	}
	options.Now = start
	in, err := auditor.Of(ctx, read, options)
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
		if err := command.WriteWhole(flags.report, func(w io.Writer) error { return auditreport.WriteFile(w, flags.report, &result) }); err != nil {
			return fmt.Errorf("--report: %w", err)
		}
	}
	if done, err := command.WriteStructured(stdout, flags.output, auditreport.DocumentOf(&result, time.Since(start))); done {
		return err
	}
	return auditreport.WriteTable(stdout, &result)
}

// readAudit reads and validates all input before anything is computed, and returns all errors.
func readAudit(ctx context.Context, flags auditFlags, stdin io.Reader) (*objects.Objects, auditor.Options, error) {
	options := auditor.Options{InstanceTypes: flags.instanceTypes, Archs: flags.archs, ByLabel: flags.byLabel}
	errs := input.Faults{
		command.TableJSONOrYAML.Check("output", flags.output), command.CheckWritable("--report", flags.report), auditreport.CheckFile(flags.report),
	}
	errs.If(flags.obstacles < 0, "--obstacles %d: must be 0 or more", flags.obstacles)
	errs.If(flags.deadline < 0, "--deadline %v: must be more than 0, or 0 for no limit", flags.deadline)
	for _, arch := range flags.archs {
		errs = append(errs, architectures.Check("arch", arch))
	}
	if flags.byLabel != "" {
		for _, problem := range validation.IsQualifiedName(flags.byLabel) {
			errs.If(true, "--by-label %q: is not the key of a label: %s", flags.byLabel, problem)
		}
	}
	if flags.from != "" {
		for _, flag := range flags.asked {
			errs = append(errs, fmt.Errorf("--%s and -f are mutually exclusive: one selects a cluster, the other a file", flag))
		}
	}
	pricing, err := flags.pricing()
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, options, command.BadInput(err)
	}
	options.Pricing = pricing
	read, err := readObjects(ctx, flags.cluster, flags.from, stdin)
	return read, options, err
}

// architectures are the values of --arch.
var architectures = command.Words{"amd64", "arm64", "ppc64le", "riscv64", "s390x"}

// pricingFlags are the flags about the prices of nodes.
type pricingFlags struct {
	prices, region string
	discounts      map[string]string
	perCPU, perGiB float64
}

// add adds the flags.
func (f *pricingFlags) addPricing(cmd *cobra.Command) {
	flags := cmd.Flags()
	command.AddPrices(flags, &f.prices)
	flags.StringVar(&f.region, "region", "", "use the list prices of this `region` for all nodes: "+strings.Join(auditor.Regions(), ", ")+" (default: the region of each node, or one on the same side of the Atlantic)")
	flags.StringToStringVar(&f.discounts, "discount", nil, "`fractions` by which machines cost less than their on-demand price, by capacity type, such as on-demand=0.28,spot=0.65")
	flags.Float64Var(&f.perCPU, "default-price-per-cpu-hour", 0, "`dollars` per CPU and hour, for nodes without another price; 0 for no such price")
	flags.Float64Var(&f.perGiB, "default-price-per-gib-hour", 0, "`dollars` per GiB of memory and hour, for nodes without another price; 0 for no such price")
	command.Words(auditor.RegionNames()).Complete(cmd, "region")
}

// mostPerUnit is the maximum price of a CPU or of a GiB, in dollars per hour.
const mostPerUnit = 1000

// pricing validates what the flags state about prices.
func (f *pricingFlags) pricing() (auditor.Pricing, error) {
	p := auditor.Pricing{Region: f.region, Discounts: map[string]float64{}, PerCPU: micros(f.perCPU), PerGiB: micros(f.perGiB)}
	var errs input.Faults
	if f.prices != "" {
		errs = append(errs, command.ReadPrices(f.prices, &p.Own))
	}
	errs.If(f.region != "" && !auditor.KnownRegion(f.region), "--region %q: no list prices of it are included: must be one of %s, or use --prices with the prices of your region",
		f.region, strings.Join(auditor.Regions(), ", "))
	for _, sold := range slices.Sorted(maps.Keys(f.discounts)) {
		discount, err := strconv.ParseFloat(f.discounts[sold], 64)
		errs.If(sold != audit.OnDemand && sold != audit.Spot, "--discount %s: is not a capacity type: must be %s or %s", sold, audit.OnDemand, audit.Spot)
		errs.If(err != nil || !(discount >= 0 && discount < 1), "--discount %s=%s: must be a fraction from 0 to less than 1, such as 0.28 for 28 %% less", sold, f.discounts[sold])
		p.Discounts[sold] = discount
	}
	for flag, price := range map[string]float64{"cpu": f.perCPU, "gib": f.perGiB} {
		errs.If(!(price >= 0 && price <= mostPerUnit), "--default-price-per-%s-hour %v: must be from 0 to %d dollars", flag, price, mostPerUnit)
	}
	return p, errors.Join(errs...)
}

// micros converts dollars to micro-dollars.
func micros(dollars float64) int64 { return int64(math.Round(dollars * 1e6)) }

// readObjects reads a dump, or the cluster.
func readObjects(ctx context.Context, from *command.ClusterFlags, file string, stdin io.Reader) (read *objects.Objects, err error) {
	if file == "" {
		c, err := from.Client(metricsv1beta1.AddToScheme)
		if err != nil {
			return nil, err
		}
		return objects.Live(ctx, c)
	}
	err = command.ReadInput(ctx, file, stdin, func(name string, in io.Reader) (err error) {
		read, err = objects.Dump(name, in)
		return err
	})
	return read, command.BadInput(err)
}
