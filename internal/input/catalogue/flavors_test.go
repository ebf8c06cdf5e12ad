package catalogue

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
)

func TestReadFlavorsReadsTheCatalogue(t *testing.T) {
	const input = "name,cpu,memory_gib,price_per_hour,arch,machine_type,max_pods,watts_idle,watts_full,kind,interruptions_per_hour\n" +
		"m7i.large,1.93,6.5,0.1008,amd64,m7i,29,4.4,20,,\n" +
		"t3.nano,2,0.5,0.0052,,,,,,Burstable,0.05\n" +
		"g5.xlarge,4,16,1.006,,,,,,Accelerated,1\n" +
		"free,250m,0.0000000019,0,,,,,,,\n"
	want := []Flavor{
		{Flavor: cluster.Flavor{Name: "free", Size: packing.Size{MilliCPU: 250, MemoryBytes: 2}}},
		{Flavor: cluster.Flavor{Name: "g5.xlarge", Size: packing.Size{MilliCPU: 4000, MemoryBytes: 16 << 30}, MicroDollarsPerHour: 1_006_000, Interruptions: 1_000_000}, Kind: KindAccelerated},
		{Flavor: cluster.Flavor{Name: "m7i.large", Size: packing.Size{MilliCPU: 1930, MemoryBytes: 13 << 29}, MicroDollarsPerHour: 100_800, Arch: "amd64", MaxPods: new(int64(29))}, MachineType: "m7i", MilliwattsIdle: 4400, MilliwattsFull: 20_000},
		{Flavor: cluster.Flavor{Name: "t3.nano", Size: packing.Size{MilliCPU: 2000, MemoryBytes: 1 << 29}, MicroDollarsPerHour: 5_200, Interruptions: 50_000}, Kind: KindBurstable},
	}
	got, err := ReadFlavors("f.csv", strings.NewReader(input))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flavors (-want +got):\n%s", diff)
	}
}

func TestReadFlavorsRefusesBadInput(t *testing.T) {
	const wide = "name,cpu,memory_gib,price_per_hour,arch,machine_type,max_pods,watts_idle,watts_full\n"
	const risky = "name,cpu,memory_gib,price_per_hour,interruptions_per_hour\n"
	tests := []struct{ name, input, want string }{
		{"nothing at all", "", "f.csv: is empty"},
		{"a header without rows", flavorHeader, "f.csv: has a header but no rows"},
		{"a pod list", "arrival_s,cpu_milli,memory_mib,runtime_s\n", "f.csv:1: has no known column: the header must have name,cpu,memory_gib,price_per_hour"},
		{"an unknown column", "name,cpu,memory_gib,price_per_hour,speed\n", "f.csv:1: speed: is not a column of the flavor catalogue"},
		{"no name", flavorHeader + ",1,1,1\n", `f.csv:2: name: "" is not a valid flavor name`},
		{"a name twice", flavorHeader + "a,1,1,1\na,1,1,1\n", `f.csv:3: name: "a" is also the name in line 2`},
		{"no CPU", flavorHeader + "a,0,1,1\n", `f.csv:2: cpu: "0" must be more than 0`},
		{"no milli-CPU", flavorHeader + "a,0m,1,1\n", `f.csv:2: cpu: "0m" must be more than 0`},
		{"a bare suffix", flavorHeader + "a,m,1,1\n", `f.csv:2: cpu: "m" is not a plain decimal number`},
		{"CPU finer than milli", flavorHeader + "a,0.0001,1,1\n", "f.csv:2: cpu: \"0.0001\" must be a multiple of 1/1000"},
		{"no memory", flavorHeader + "a,1,0,1\n", `f.csv:2: memory_gib: "0" must be more than 0`},
		{"memory below a byte", flavorHeader + "a,1,0.0000000001,1\n", "must be more than 0"},
		{"a negative price", flavorHeader + "a,1,1,-0.1\n", `f.csv:2: price_per_hour: "-0.1" must be 0 or more`},
		{"a price that is no number", flavorHeader + "a,1,1,NaN\n", `f.csv:2: price_per_hour: "NaN" is not`},
		{"a price finer than micro-dollars", flavorHeader + "a,1,1,0.0000001\n", "must be a multiple of 1/1000000"},
		{"a price beyond reason", flavorHeader + "a,1,1,1000001\n", "f.csv:2: price_per_hour: \"1000001\" is too large"},
		{"no interruptions of a machine that is interrupted", risky + "a,1,1,1,0\n", `f.csv:2: interruptions_per_hour: "0" must be more than 0`},
		{"interruptions in percent", risky + "a,1,1,1,200\n", `f.csv:2: interruptions_per_hour: "200" is too large`},
		{"interruptions that are no number", risky + "a,1,1,1,often\n", `f.csv:2: interruptions_per_hour: "often" is not`},
		{"interruptions finer than a millionth", risky + "a,1,1,1,0.0000001\n", `f.csv:2: interruptions_per_hour: "0.0000001" must be a multiple of`},
		{"no pods", wide + "a,1,1,1,,,0,,\n", `f.csv:2: max_pods: "0" must be more than 0`},
		{"half a pod", wide + "a,1,1,1,,,1.5,,\n", `f.csv:2: max_pods: "1.5" must be a whole number`},
		{"a bad machine type", wide + "a,1,1,1,,-x,,,\n", `f.csv:2: machine_type: "-x" is not a valid label value`},
		{"an unknown kind", "name,cpu,memory_gib,price_per_hour,kind\na,1,1,1,burstable\n", `f.csv:2: kind: "burstable" is not a kind of machine: must be Burstable, Accelerated or empty`},
		{"watts without a partner", wide + "a,1,1,1,,,,5,\n", "f.csv:2: watts_full: is missing, but watts_idle is set"},
		{"full watts without a partner", wide + "a,1,1,1,,,,,5\n", "f.csv:2: watts_idle: is missing, but watts_full is set"},
		{"idle above full", wide + "a,1,1,1,,,,6,5\n", `f.csv:2: watts_idle: "6" must be at most watts_full, "5"`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			flavors, err := ReadFlavors("f.csv", strings.NewReader(tc.input))
			if err == nil || flavors != nil {
				t.Fatalf("ReadFlavors = %v, %v, want no flavors and an error", flavors, err)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is\n%s\nwant it to contain\n%s", err, tc.want)
			}
		})
	}
}

func TestReadFlavorsReadsOtherResources(t *testing.T) {
	const header = "name,cpu,memory_gib,price_per_hour,ephemeral_storage_gib,extended_resources\n"
	flavors, err := ReadFlavors("f.csv", strings.NewReader(header+"a,1,1,1,,\nb,1,1,1,17.5,nvidia.com/gpu=2; hugepages-2Mi=1Gi\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]map[corev1.ResourceName]int64{nil, {"nvidia.com/gpu": 2, "hugepages-2Mi": 1 << 30}}, []map[corev1.ResourceName]int64{flavors[0].Extended, flavors[1].Extended}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if flavors[0].EphemeralStorage != nil || *flavors[1].EphemeralStorage != 35<<29 {
		t.Errorf("ephemeral storage of %v and %d bytes, want none and 17.5 GiB", flavors[0].EphemeralStorage, *flavors[1].EphemeralStorage)
	}
	for _, tc := range []struct{ cell, want string }{
		{"0,", `ephemeral_storage_gib: "0" must be more than 0`},
		{"2000000,", `ephemeral_storage_gib: "2000000" is too large`},
		{",nvidia.com/gpu", `has "nvidia.com/gpu", which is not a number of an extended resource: must be such as nvidia.com/gpu=2`},
		{",nvidia.com/gpu=0", `has "nvidia.com/gpu=0"`},
		{",nvidia.com/gpu=two", `has "nvidia.com/gpu=two"`},
		{",two words=2", `has "two words=2"`},
		{",cpu=2", `has "cpu=2"`},
		{",nvidia.com/gpu=1;nvidia.com/gpu=1", "has a duplicate entry"},
	} {
		if _, err := ReadFlavors("f.csv", strings.NewReader(header+"a,1,1,1,"+tc.cell+"\n")); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, want %s", tc.cell, err, tc.want)
		}
	}
}
