package catalogue

import (
	"io"
	"slices"

	"supercargo.dev/supercargo/internal/input/table"
)

// Price is a flavor with its price as a spot machine.
type Price struct {
	Flavor
	// SpotMicroDollarsPerHour is the price as a spot machine; nil if not stated.
	SpotMicroDollarsPerHour *int64
}

const spotColumn = "spot_price_per_hour"

var priceFormat = table.Format{
	Name:     "price list",
	Required: flavorFormat.Required,
	Optional: slices.Concat(flavorFormat.Optional, []string{spotColumn}),
}

// ReadPrices is [ReadFlavors] with column spot_price_per_hour: dollars, as in price_per_hour, or empty.
func ReadPrices(file string, r io.Reader) ([]Price, error) {
	return readCatalogue(file, r, priceFormat, row.price, func(p Price) string { return p.Name })
}

// price reads the current row.
func (t row) price() Price {
	p := Price{Flavor: t.flavor()}
	if t.Cell(spotColumn) != "" {
		p.SpotMicroDollarsPerHour = new(t.AtMost(spotColumn, t.Number(spotColumn, microPerDollar, table.Exact), maxMicroDollarsPerHour))
	}
	return p
}
