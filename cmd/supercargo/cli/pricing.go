package cli

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/cli/auditor"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/internal/input"
)

// pricingFlags are the flags about the prices of nodes.
type pricingFlags struct {
	prices, region string
	discounts      map[string]string
	perCPU, perGiB float64
}

// add adds the flags.
func (f *pricingFlags) add(cmd *cobra.Command) {
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
