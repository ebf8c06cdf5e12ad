// Package nodefleet tests NodeFleets on a real API server with real cluster-api
// controllers. The machines' nodes are played by kwok.
package nodefleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/internal/playground"
	"supercargo.dev/supercargo/manifests"
)

// bench is a control plane with cluster-api and what a test needs of it.
type bench struct {
	*testing.T
	*playground.Playground
	client.Client
}

// newBench starts a control plane that knows NodeFleets.
func newBench(t *testing.T) *bench {
	t.Helper()
	p := playground.ForTest(t, playground.Options{ClusterAPI: true})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	config := p.Config()
	config.QPS, config.Burst = 500, 1000
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, Playground: p, Client: c}
	b.define()
	return b
}

// define installs the CRDs.
func (b *bench) define() {
	b.Helper()
	err := fs.WalkDir(manifests.CRDs, "crd", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := manifests.CRDs.ReadFile(path)
		if err != nil {
			return err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err != nil {
			return err
		}
		return b.Create(b.Context(), &crd)
	})
	if err != nil {
		b.Fatal(err)
	}
	b.eventually("NodeFleets are served", func() string {
		var fleets v1alpha1.NodeFleetList
		if err := b.List(b.Context(), &fleets); err != nil {
			return err.Error()
		}
		return ""
	})
}

// eventually polls until the check says nothing any more.
func (b *bench) eventually(what string, check func() string) {
	b.Helper()
	deadline := time.Now().Add(90 * time.Second)
	var last string
	for time.Now().Before(deadline) {
		if last = check(); last == "" {
			return
		}
		select {
		case <-b.Playground.Done():
			b.Fatalf("%s: the playground has ended: %v", what, b.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
	b.Fatalf("%s: still %s; %s", what, last, b.fleets())
}

// fleets shows the status of all fleets.
func (b *bench) fleets() string {
	var fleets v1alpha1.NodeFleetList
	if err := b.List(context.Background(), &fleets); err != nil {
		return err.Error()
	}
	text := ""
	for i := range fleets.Items {
		status, _ := json.MarshalIndent(fleets.Items[i].Status, "", " ")
		text += fleets.Items[i].Name + ": " + string(status) + "\n"
	}
	return text
}

// autoscale runs the autoscaler until the function that it returns is called.
func (b *bench) autoscale(change ...func(*app.Options)) (stop func()) {
	b.Helper()
	o := app.Options{Config: app.Throttle(b.Config()), MetricsAddress: "0", ProbeAddress: "0", Log: klog.Background()}
	for _, f := range change {
		f(&o)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx, o) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			b.Errorf("the autoscaler: %v", err)
		}
	}
	b.Cleanup(stop)
	return stop
}

// flavor adds a MachineDeployment without machines.
func (b *bench) flavor(name, cpu, memory, price string, change ...func(*playground.MachineDeploymentSpec)) {
	b.Helper()
	spec := playground.MachineDeploymentSpec{Name: name, Flavor: name, CPU: cpu, Memory: memory, PricePerHour: price, Max: 300}
	for _, f := range change {
		f(&spec)
	}
	if err := b.AddMachineDeployment(b.Context(), spec); err != nil {
		b.Fatal(err)
	}
}

// fleet makes a NodeFleet of all MachineDeployments in the default namespace.
func (b *bench) fleet(name string, change ...func(*v1alpha1.NodeFleetSpec)) {
	b.Helper()
	f := &v1alpha1.NodeFleet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeFleetSpec{
		ClusterAPI: &v1alpha1.ClusterAPIFlavors{Namespace: metav1.NamespaceDefault, Selector: &metav1.LabelSelector{}},
		Pricing:    v1alpha1.FleetPricing{BillingPeriod: seconds(1)},
		Scaling: v1alpha1.FleetScaling{
			Interval: seconds(2), BatchIdle: seconds(0.5), BatchMax: seconds(5), JoinTimeout: seconds(60), BackOff: seconds(30), ExpectedLag: seconds(2),
		},
		Consolidation: v1alpha1.FleetConsolidation{
			Policy: v1alpha1.ConsolidateWhenEmpty, After: seconds(2), QueueEmptyFor: seconds(1), MaxUnavailable: "100%", DrainTimeout: seconds(60),
		},
	}}
	for _, g := range change {
		g(&f.Spec)
	}
	if err := b.Create(b.Context(), f); err != nil {
		b.Fatal(err)
	}
}

func seconds(s float64) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(s * float64(time.Second))}
}

// pods makes pods that are alike.
func (b *bench) pods(prefix string, n int, cpu, memory string, change ...func(*corev1.Pod)) {
	b.Helper()
	for i := range n {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%s-%03d", prefix, i), Labels: map[string]string{"app": prefix}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "main", Image: "none",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
				}},
			}}},
		}
		for _, f := range change {
			f(pod)
		}
		if err := b.Create(b.Context(), pod); err != nil {
			b.Fatal(err)
		}
	}
}

// allRun waits until all pods run.
func (b *bench) allRun(n int) {
	b.Helper()
	b.eventually(fmt.Sprintf("%d pods run", n), func() string {
		var pods corev1.PodList
		if err := b.List(b.Context(), &pods, client.InNamespace(metav1.NamespaceDefault)); err != nil {
			return err.Error()
		}
		run := 0
		for i := range pods.Items {
			if pods.Items[i].Status.Phase == corev1.PodRunning {
				run++
			}
		}
		if run < n {
			return fmt.Sprintf("%d of %d run", run, n)
		}
		return ""
	})
}

// nodes returns how many nodes there are of each flavor.
func (b *bench) nodes() map[string]int {
	b.Helper()
	var nodes corev1.NodeList
	if err := b.List(b.Context(), &nodes); err != nil {
		b.Fatal(err)
	}
	found := map[string]int{}
	for i := range nodes.Items {
		found[nodes.Items[i].Labels[corev1.LabelInstanceTypeStable]]++
	}
	return found
}

// noNodes waits until all machines have gone.
func (b *bench) noNodes() {
	b.Helper()
	b.eventually("all machines are given back", func() string {
		if n := b.nodes(); len(n) > 0 {
			return fmt.Sprintf("there are %v", n)
		}
		return ""
	})
}
