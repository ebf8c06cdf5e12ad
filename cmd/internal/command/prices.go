package command

import (
	"io"

	"github.com/spf13/pflag"

	"supercargo.dev/supercargo/internal/input/catalogue"
)

// AddPrices adds the flag --prices for the user's prices of instance types.
func AddPrices(f *pflag.FlagSet, file *string) {
	f.StringVar(file, "prices", "", "CSV `file` with columns name and price_per_hour, and optionally spot_price_per_hour, cpu and memory_gib: prices of your own, which go before list prices")
}

// ReadPrices reads the file of --prices.
func ReadPrices(file string, prices *[]catalogue.Price) error {
	return ReadNamed("--prices", file, func(in io.Reader) (err error) {
		*prices, err = catalogue.ReadPrices(file, in)
		return err
	})
}
