package catalogue

import (
	"io"
	"slices"

	"supercargo.dev/supercargo/internal/input/table"
)

// Price is a flavor with its price as a spot machine. Its Size is 0 if the list does not state it.
type Price struct {
	Flavor
	// SpotMicroDollarsPerHour is the price as a spot machine; nil if not stated.
	SpotMicroDollarsPerHour *int64
}

const spotColumn = "spot_price_per_hour"

var priceFormat = table.Format{
	Name:     "price list",
	Required: []string{"name", "price_per_hour"},
	Optional: slices.Concat([]string{"cpu", "memory_gib"}, flavorFormat.Optional, []string{spotColumn}),
}

// ReadPrices is [ReadFlavors] with column spot_price_per_hour: dollars, as in price_per_hour, or empty. Only name and
// price_per_hour are required: a price needs no size. cpu and memory_gib must be given as a pair.
func ReadPrices(file string, r io.Reader) ([]Price, error) {
	return readCatalogue(file, r, priceFormat, row.price, func(p Price) string { return p.Name })
}

// price reads the current row.
func (t row) price() Price {
	p := Price{Flavor: t.priced()}
	cpu, memory := t.Cell("cpu") != "", t.Cell("memory_gib") != ""
	switch {
	case cpu && memory:
		p.Size = t.size()
	case cpu:
		t.Fault(t.Line(), "memory_gib", "is missing, but cpu is set: set both or neither")
	case memory:
		t.Fault(t.Line(), "cpu", "is missing, but memory_gib is set: set both or neither")
	}
	if t.Cell(spotColumn) != "" {
		p.SpotMicroDollarsPerHour = new(t.AtMost(spotColumn, t.Number(spotColumn, microPerDollar, table.Exact), maxMicroDollarsPerHour))
	}
	return p
}
