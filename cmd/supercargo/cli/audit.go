package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/autoscaler/audit"
	"supercargo.dev/supercargo/autoscaler/audit/objects"
	"supercargo.dev/supercargo/autoscaler/audit/observe"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/auditreport"
)

// auditFlags are the flags of `supercargo audit`.
type auditFlags struct {
	from, prices, output, report string
	obstacles                    int
	deadline                     time.Duration
}

func newAuditCommand() *cobra.Command {
	var flags auditFlags
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Say what a cluster costs, what its pods would cost on cheaper machines, and what stands in the way",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runAudit(cmd.Context(), flags, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.from, "from", "", "`file` of what kubectl get -o yaml or -o json has printed, - for stdin (default: the cluster itself)")
	f.StringVar(&flags.prices, "prices", "", "CSV `file` with columns name, cpu, memory_gib and price_per_hour: prices of your own, which go before list prices")
	f.StringVar(&flags.report, "report", "", "HTML file to write")
	f.IntVar(&flags.obstacles, "obstacles", 8, "of how many obstacles of each sort to work out what they cost")
	f.DurationVar(&flags.deadline, "deadline", 0, "print what is found in this time; 0 looks at all")
	addOutput(cmd, &flags.output, tableOrJSON, "")
	return cmd
}

func runAudit(ctx context.Context, flags auditFlags, stdin io.Reader, stdout io.Writer) error {
	start := time.Now()
	read, prices, err := readAudit(ctx, flags, stdin)
	if err != nil {
		return err
	}
	seen, err := observe.Of(ctx, read, observe.Options{Now: start, Prices: prices})
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
	if flags.output == "json" {
		return document.WriteJSON(stdout)
	}
	return document.WriteTable(stdout)
}

// readAudit reads and checks everything before anything is computed, and reports every fault.
func readAudit(ctx context.Context, flags auditFlags, stdin io.Reader) (*objects.Objects, []trace.Flavor, error) {
	errs := []error{tableOrJSON.check("output", flags.output), canBeWritten("--report", flags.report)}
	if flags.obstacles < 0 {
		errs = append(errs, fmt.Errorf("--obstacles %d: want 0 or more", flags.obstacles))
	}
	if flags.deadline < 0 {
		errs = append(errs, fmt.Errorf("--deadline %v: want a time above 0, or 0 for none", flags.deadline))
	}
	var prices []trace.Flavor
	if flags.prices != "" {
		errs = append(errs, readNamed("--prices", flags.prices, func(in io.Reader) (err error) {
			prices, err = trace.ReadFlavors(flags.prices, in)
			return err
		}))
	}
	var read *objects.Objects
	if err := errors.Join(errs...); err != nil {
		return nil, nil, badInput(err)
	}
	var err error
	switch flags.from {
	case "":
		return nil, nil, badInput(errors.New("--from: name a file, or - for stdin"))
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
	if err != nil {
		return nil, nil, badInput(err)
	}
	return read, prices, nil
}
