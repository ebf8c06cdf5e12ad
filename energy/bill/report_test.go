package bill

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/tariff"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// example returns an hour of two nodes, one with a meter and one without.
func example() Report {
	r := Report{
		Bill: Make([]Slice{hour(0, []Node{node("n", 1000, 0), node("o", 0, 500)}, pod("shop", "web", "n", 4, 4), pod("jobs", "<train>\x1b[2J", "o", 2, 1))},
			Tariffs{Price: tariff.Flat(0.2), Carbon: tariff.Flat(250)}, func(string) (energy.Watts, bool) { return 400, true }),
		PowerFrom: "supercargo", HasPrice: true, HasCarbon: true, Notes: []string{"Something to know."},
	}
	r.Dropped[energy.Negative] = 3
	return r
}

func TestTheReportAsText(t *testing.T) {
	var out strings.Builder
	if err := example().WriteTable(&out, 20); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2026-01-01 12:00 to 2026-01-01 13:00 UTC; power by supercargo; 2.0 node-hours with data, 0.0 without\n",
		// Of the other node's 500 W, 100 W are dynamic and 400 W idle; the pod requests half of the latter.
		"shop        1.0000        0.0000         60      0.2000      0.0000           0.2500           0.0000\n",
		"jobs        0.0000        0.3000         33      0.0000      0.0600           0.0000           0.0750\n",
		"(unallocated)        0.0000        0.2000          0      0.0000      0.0400           0.0000           0.0500\n",
		"(all)        1.0000        0.5000         47      0.2000      0.1000           0.2500           0.1250\n",
		"<train>\uFFFD[2J", "\nSomething to know.\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	out.Reset()
	r := example()
	r.HasPrice, r.HasCarbon = false, false
	if err := r.WriteTable(&out, 1); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "$") || strings.Contains(text, "CO2") || !strings.Contains(text, "(1 more)        0.0000        0.3000") {
		t.Errorf("without tariffs and with one row a table:\n%s", text)
	}
}

// TestSmallAmountsAreNotNothing uses a cluster that has run for minutes.
func TestSmallAmountsAreNotNothing(t *testing.T) {
	for want, got := range map[string]string{
		"0.000283": figure(0.0002833), "0.0400": figure(0.04), "0.0000": figure(0), "-0.001000": figure(-0.001), "12.3457": figure(12.34567),
		"0.060000": kWh(0.06 * 3.6e6), "1.0000": kWh(3.6e6), "0.00": rounded(0), "0.01": rounded(0.0123), "0.001230": rounded(0.00123),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTheReportAsJSON(t *testing.T) {
	var out strings.Builder
	if err := example().WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	type amount struct {
		Joules, KilowattHours float64
		Dollars, CO2Grams     *float64
	}
	type row struct {
		Namespace, Workload, MachineType string
		Measured, Modelled               amount
		DynamicJoules                    float64
	}
	var got struct {
		From, To, PowerFrom                                          string
		Total, Unallocated                                           row
		ByNamespace, ByWorkload, ByMachineType                       []row
		CoveredNodeHours, GapNodeHours, PricedPercent, CarbonPercent float64
		IdleWatts                                                    map[string]float64
		ReadingsDropped                                              map[string]int
		Notes                                                        []string
	}
	testfile.JSON(t, out.String(), &got)
	if got.From != "2026-01-01T12:00:00Z" || got.Total.Measured.Joules != 3.6e6 || got.Total.Measured.KilowattHours != 1 || got.Total.Modelled.Joules != 1.8e6 ||
		*got.Total.Measured.Dollars != 0.2 || *got.Total.Modelled.CO2Grams != 125 || got.Total.DynamicJoules != 700*3600 {
		t.Errorf("total %+v", got.Total)
	}
	if len(got.ByNamespace) != 2 || got.ByNamespace[0].Namespace != "shop" || len(got.ByWorkload) != 2 || got.ByWorkload[1].Workload != "<train>\x1b[2J" ||
		len(got.ByMachineType) != 1 || got.ByMachineType[0].MachineType != "m" {
		t.Errorf("tables %+v, %+v, %+v", got.ByNamespace, got.ByWorkload, got.ByMachineType)
	}
	figures := []float64{got.CoveredNodeHours, got.PricedPercent, got.CarbonPercent, got.IdleWatts["n"], float64(got.ReadingsDropped["negative"])}
	if diff := cmp.Diff([]float64{2, 100, 100, 400, 3}, figures); diff != "" || len(got.ReadingsDropped) != 1 || len(got.Notes) != 1 {
		t.Errorf("hours, shares, idle watts and dropped readings (-want +got):\n%s\n%+v", diff, got)
	}
}

func TestAnEmptyReportAsJSON(t *testing.T) {
	var out strings.Builder
	if err := (Report{}).WriteJSON(&out); err != nil || strings.Contains(out.String(), "dollars") || strings.Contains(out.String(), "null") {
		t.Errorf("an empty report is %s, %v; want no dollars and empty lists", out.String(), err)
	}
}

func TestTheReportAsAPage(t *testing.T) {
	var out strings.Builder
	if err := example().WriteHTML(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		"<title>Energy of the cluster</title>", "&lt;train&gt;", "1.5000 kWh, 67 % of it measured, $0.30, 0.38 kg of CO2; 53 % of it was idle power, and 13 % is not allocated to pods.",
		`aria-label="66.7 % of all"`, "Something to know.", "default-src &#39;none&#39;",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, no := range []string{"<script", "http://", "https://", "<train", "\x1b", " style="} {
		if strings.Contains(text, no) {
			t.Errorf("%q stands in\n%s", no, text)
		}
	}
	out.Reset()
	if err := (Report{}).WriteHTML(&out); err != nil || !strings.Contains(out.String(), "There is no data") {
		t.Errorf("an empty report is %s, %v", out.String(), err)
	}
}
