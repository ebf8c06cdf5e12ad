package catalogue

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/internal/packing"
)

func TestReadPricesReadsThePriceOfSpotMachinesIfThereIsOne(t *testing.T) {
	for _, tc := range []struct {
		name, input string
		want        map[string]*int64
	}{
		{"without the column", flavorHeader + "a,1,1,0.2\n", map[string]*int64{"a": nil}},
		{"with the column", "name,cpu,memory_gib,price_per_hour,spot_price_per_hour\na,1,1,0.2,0.06\nb,1,1,0.2,\nc,1,1,0.2,0\n",
			map[string]*int64{"a": new(int64(60_000)), "b": nil, "c": new(int64(0))}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			prices, err := ReadPrices("f.csv", strings.NewReader(tc.input))
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]*int64{}
			for _, p := range prices {
				got[p.Name] = p.SpotMicroDollarsPerHour
				if p.MicroDollarsPerHour != 200_000 {
					t.Errorf("%s costs %d micro-dollars, want 200000", p.Name, p.MicroDollarsPerHour)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("prices of spot machines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPriceNeedsNoSize(t *testing.T) {
	prices, err := ReadPrices("f.csv", strings.NewReader("name,price_per_hour\nm7i.large,0.1\n"))
	if err != nil || len(prices) != 1 || prices[0].Size != (packing.Size{}) || prices[0].MicroDollarsPerHour != 100_000 {
		t.Errorf("%+v, %v; want $0.10 without a size", prices, err)
	}
	const header = "name,cpu,memory_gib,price_per_hour\n"
	if prices, err = ReadPrices("f.csv", strings.NewReader(header+"a,,,0.1\nb,2,8,0.1\n")); err != nil || prices[0].Size != (packing.Size{}) || prices[1].Size.MilliCPU != 2000 {
		t.Errorf("%+v, %v; want a without a size, and b with one", prices, err)
	}
	for row, want := range map[string]string{
		"a,2,,1\n": "f.csv:2: memory_gib: is missing, but cpu is set", "a,,8,1\n": "f.csv:2: cpu: is missing, but memory_gib is set", "a,x,8,1\n": "f.csv:2: cpu: ",
	} {
		if _, err := ReadPrices("f.csv", strings.NewReader(header+row)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", row, err, want)
		}
	}
}

func TestReadPricesRefusesPricesOfSpotMachinesThatAreNone(t *testing.T) {
	const header = "name,cpu,memory_gib,price_per_hour,spot_price_per_hour\n"
	for _, tc := range []struct{ name, input, want string }{
		{"a negative one", header + "a,1,1,1,-0.1\n", `f.csv:2: spot_price_per_hour: "-0.1" must be 0 or more`},
		{"no number", header + "a,1,1,1,cheap\n", `f.csv:2: spot_price_per_hour: "cheap" is not`},
		{"beyond reason", header + "a,1,1,1,1000001\n", `f.csv:2: spot_price_per_hour: "1000001" is too large`},
		{"a misspelt column", "name,cpu,memory_gib,price_per_hour,spot\na,1,1,1,1\n", "f.csv:1: spot: is not a column of the price list"},
	} {
		if _, err := ReadPrices("f.csv", strings.NewReader(tc.input)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	if _, err := ReadFlavors("f.csv", strings.NewReader(header+"a,1,1,1,1\n")); err == nil {
		t.Error("a catalogue of machines to buy accepts prices of spot machines, which nothing reads")
	}
}
