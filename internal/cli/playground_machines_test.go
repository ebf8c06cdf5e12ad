package cli

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"supercargo.dev/supercargo/internal/playground"
)

func TestAFlavorDescribesItsMachineDeployment(t *testing.T) {
	flags := playgroundFlags{
		clusterAPI: true, machineLag: time.Minute, machineReleaseLag: 5 * time.Second,
		machineFlavors: writeFile(t, "name,cpu,memory_gib,price_per_hour,arch,machine_type,max_pods\n"+
			"Standard_D2s.v5,1.93,6.5,0.1008,arm64,xeon,29\nm1.medium,2,8,0.5,,,\n"),
	}
	want := []playground.MachineDeploymentSpec{
		{
			Name: "standard-d2s.v5", Flavor: "Standard_D2s.v5", MachineType: "xeon", CPU: "1930m", Memory: "6979321856", MaxPods: 29,
			Arch: "arm64", PricePerHour: "0.100800", Max: 1000, AcquisitionLag: time.Minute, ReleaseLag: 5 * time.Second,
		},
		{
			Name: "m1.medium", Flavor: "m1.medium", CPU: "2000m", Memory: "8589934592",
			PricePerHour: "0.500000", Max: 1000, AcquisitionLag: time.Minute, ReleaseLag: 5 * time.Second,
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

func TestFlavorsThatCannotNameMachineDeploymentsAreRefused(t *testing.T) {
	for _, tc := range []struct{ name, rows, want string }{
		{"two with one name", "a-b,1,1,1\na_b,1,1,1\n", `"a_b" cannot name a MachineDeployment: "a-b" gives the same name, a-b`},
		{"no label value", "two words,1,1,1\n", `"two words" cannot name`},
		{"too long", strings.Repeat("x", 51) + ",1,1,1\n", "longer than 50 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := writeFile(t, "name,cpu,memory_gib,price_per_hour\n"+tc.rows)
			_, err := readMachineFlavors(playgroundFlags{clusterAPI: true, machineFlavors: file})
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), file+": name: ") {
				t.Errorf("error is %v, want one that says %q and names the file", err, tc.want)
			}
		})
	}
}

func TestFlavorsAreMachineDeploymentsWhenThePlaygroundIsReady(t *testing.T) {
	file := writeFile(t, "name,cpu,memory_gib,price_per_hour\nm1.medium,2,8,0.5\nm1.large,4,16,1\n")
	p := startPlayground(t, t.TempDir(), "--machine-flavors", file)
	config, err := clientcmd.BuildConfigFromFlags("", p.awaitReady(t))
	if err != nil {
		t.Fatal(err)
	}
	list, err := dynamic.NewForConfigOrDie(config).
		Resource(schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machinedeployments"}).
		Namespace(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, item := range list.Items {
		if replicas, has, err := unstructured.NestedInt64(item.Object, "spec", "replicas"); err != nil || !has || replicas != 0 {
			t.Errorf("%s has %d replicas (%v), want 0", item.GetName(), replicas, err)
		}
		got[item.GetName()] = item.GetAnnotations()["supercargo.dev/price-per-hour"]
	}
	if diff := cmp.Diff(map[string]string{"m1.medium": "0.500000", "m1.large": "1.000000"}, got); diff != "" {
		t.Errorf("prices (-want +got):\n%s", diff)
	}
	if code := p.stop(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d, want 0", code)
	}
}
