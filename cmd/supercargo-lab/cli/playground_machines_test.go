package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit/commandtest"
)

func TestAFlavorDescribesItsMachineDeployment(t *testing.T) {
	flags := playgroundFlags{
		clusterAPI: true, machineLag: time.Minute, machineReleaseLag: 5 * time.Second,
		machineFlavors: commandtest.File(t, "name,cpu,memory_gib,price_per_hour,arch,machine_type,max_pods\n"+
			"Standard_D2s.v5,1.93,6.5,0.1008,arm64,xeon,29\nm1.medium,2,8,0.5,,,\n"),
	}
	want := []playground.MachineDeploymentSpec{
		{
			Name: "standard-d2s.v5", Flavor: "Standard_D2s.v5", MachineType: "xeon", CPU: "1930m", Memory: "6979321856", MaxPods: 29,
			Arch: "arm64", PricePerHour: "0.1008", Max: 1000, AcquisitionLag: time.Minute, ReleaseLag: 5 * time.Second,
		},
		{
			Name: "m1.medium", Flavor: "m1.medium", CPU: "2000m", Memory: "8589934592",
			PricePerHour: "0.50", Max: 1000, AcquisitionLag: time.Minute, ReleaseLag: 5 * time.Second,
		},
	}
	got, err := readMachineFlavors(flags)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("MachineDeployments (-want +got):\n%s", diff)
	}
}

func TestFlavorsAreInstanceTypesOfKarpenterAndItsPrices(t *testing.T) {
	const rows = "name,cpu,memory_gib,price_per_hour\nm1.medium,2,8,0.5\n"
	o, prices, err := readKarpenter(playgroundFlags{machines: byKarpenter, machineFlavors: commandtest.File(t, rows), machineLag: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if len(o.Flavors) != 1 || o.Flavors[0].Name != "m1.medium" || o.Lag != time.Minute {
		t.Errorf("options %+v", o)
	}
	if len(prices) != 1 || prices[0].Object.GetName() != "flavors" || !cmp.Equal(prices[0].Object.Object["data"], map[string]any{"flavors.csv": rows}) {
		t.Errorf("prices %+v", prices)
	}
	file := commandtest.File(t, rows)
	for want, flags := range map[string]playgroundFlags{
		"--machines karpenter requires --flavors": {},
		"--machine-lag 1.5s: must be":             {machineFlavors: file, machineLag: 1500 * time.Millisecond},
		"--machine-lag -1s: must be":              {machineFlavors: file, machineLag: -time.Second},
		"--machine-release-lag requires":          {machineFlavors: file, machineReleaseLag: time.Second},
	} {
		if _, _, err := readKarpenter(flags); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error that says %q", err, want)
		}
	}
	in, err := readPlaygroundInput(playgroundFlags{machines: "hand", queryAddress: "0"}, strings.NewReader(""))
	if err == nil || !strings.Contains(err.Error(), `--machines "hand": must be cluster-api or karpenter`) {
		t.Errorf("%+v, %v", in, err)
	}
}

func TestFlavorsThatCannotNameMachineDeploymentsAreRefused(t *testing.T) {
	for _, tc := range []struct{ name, rows, want string }{
		{"two with one name", "a-b,1,1,1\na_b,1,1,1\n", `"a_b" cannot name a MachineDeployment: "a-b" gives the same name, a-b`},
		{"no label value", "two words,1,1,1\n", `"two words" cannot name`},
		{"too long", strings.Repeat("x", 51) + ",1,1,1\n", "longer than 50 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := commandtest.File(t, "name,cpu,memory_gib,price_per_hour\n"+tc.rows)
			_, err := readMachineFlavors(playgroundFlags{clusterAPI: true, machineFlavors: file})
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), file+": name: ") {
				t.Errorf("error is %v, want one that says %q and names the file", err, tc.want)
			}
		})
	}
}
