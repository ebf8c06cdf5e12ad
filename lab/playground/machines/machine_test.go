package machines

import (
	"errors"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"supercargo.dev/supercargo/test/kit/testapi"
)

// world is one machine called m-1 and its environment.
type world struct {
	t     *testing.T
	c     client.Client
	clock *clocktesting.FakeClock
	r     *machineReconciler
}

// clusterAPIObject returns a Machine or Cluster as cluster-api would create it.
func clusterAPIObject(kind, name string, fields map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: fields}
	o.SetAPIVersion(clusterAPI)
	o.SetKind(kind)
	o.SetNamespace("default")
	o.SetName(name)
	return o
}

func readyCluster() *unstructured.Unstructured {
	return clusterAPIObject("Cluster", "c", map[string]any{
		"status": map[string]any{"initialization": map[string]any{"infrastructureProvisioned": true}},
	})
}

func readyMachine() *unstructured.Unstructured {
	return clusterAPIObject("Machine", "m-1", map[string]any{
		"spec": map[string]any{"bootstrap": map[string]any{"dataSecretName": ""}},
	})
}

// newMachine returns a KwokMachine as cluster-api creates it for the provider.
func newMachine(spec KwokMachineSpec) *KwokMachine {
	spec.CPU, spec.Memory = resource.MustParse("2"), resource.MustParse("4Gi")
	return &KwokMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "m-1", Labels: map[string]string{LabelCluster: "c"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterAPI, Kind: "Machine", Name: "m-1", UID: "u"}},
		},
		Spec: spec,
	}
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&KwokMachine{}, &KwokMachineTemplate{}, &KwokCluster{}, &KwokControlPlane{}).Build()
	// Half a second would reveal times that are only accurate to the second.
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 500e6, time.UTC))
	node := func(m *KwokMachine) (*corev1.Node, error) {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Name, Labels: m.Spec.NodeLabels}}, nil
	}
	return &world{t: t, c: c, clock: clock, r: &machineReconciler{client: c, live: c, nodes: c, clock: clock, node: node}}
}

// settle reconciles the machine until nothing changes, and returns the requeue delay.
func (w *world) settle() time.Duration {
	w.t.Helper()
	for range 20 {
		before := w.machine()
		result, err := w.r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "default", Name: "m-1"}})
		if err != nil {
			w.t.Fatal(err)
		}
		after := w.machine()
		if before == nil || after == nil || before.ResourceVersion == after.ResourceVersion {
			return result.RequeueAfter
		}
	}
	w.t.Fatal("the machine changes without end")
	return 0
}

// machine returns the machine, or nil if it is gone.
func (w *world) machine() *KwokMachine {
	w.t.Helper()
	var m KwokMachine
	err := w.c.Get(w.t.Context(), client.ObjectKey{Namespace: "default", Name: "m-1"}, &m)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return &m
}

// node returns the machine's Node, or nil if there is none.
func (w *world) node() *corev1.Node {
	w.t.Helper()
	var n corev1.Node
	err := w.c.Get(w.t.Context(), client.ObjectKey{Name: "m-1"}, &n)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return &n
}

// remove deletes the machine.
func (w *world) remove() {
	w.t.Helper()
	testapi.Delete(w.t, w.c, w.machine())
}

func (w *world) provisioned() bool {
	w.t.Helper()
	p := w.machine().Status.Initialization.Provisioned
	return p != nil && *p
}

// ready returns the status and reason of the condition Ready.
func (w *world) ready() string {
	w.t.Helper()
	c := meta.FindStatusCondition(w.machine().Status.Conditions, "Ready")
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

func lagOf(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

func TestAMachineJoinsWhenItsAcquisitionLagIsOver(t *testing.T) {
	w := newWorld(t, readyCluster(), readyMachine(), newMachine(KwokMachineSpec{
		AcquisitionLag: lagOf(90 * time.Second), NodeLabels: map[string]string{"zone": "z"},
	}))
	if wait := w.settle(); wait != 90*time.Second {
		t.Errorf("it wants to be checked in %v, want 90s", wait)
	}
	w.clock.Step(90*time.Second - time.Microsecond)
	if wait := w.settle(); wait != time.Microsecond || w.node() != nil || w.provisioned() {
		t.Errorf("a microsecond early: wait %v, node %v", wait, w.node())
	}
	w.clock.Step(time.Microsecond)
	if wait := w.settle(); wait != 0 {
		t.Errorf("it wants to be checked in %v, want not again", wait)
	}
	node := w.node()
	if node == nil || node.Spec.ProviderID != "kwok://m-1" || node.Labels["zone"] != "z" {
		t.Fatalf("node is %v, want one with provider ID kwok://m-1 and its label", node)
	}
	m := w.machine()
	if m.Spec.ProviderID != "kwok://m-1" || !w.provisioned() || w.ready() != "True Provisioned" {
		t.Errorf("provider ID %q, provisioned %v, ready %s", m.Spec.ProviderID, w.provisioned(), w.ready())
	}
	if lag := m.Status.ProvisionTime.Sub(m.Status.RequestTime.Time); lag != 90*time.Second {
		t.Errorf("the lag was %v, want 90s", lag)
	}
}

func TestAMachineLeavesWhenItsReleaseLagIsOver(t *testing.T) {
	w := newWorld(t, readyCluster(), readyMachine(), newMachine(KwokMachineSpec{ReleaseLag: lagOf(5 * time.Second)}))
	w.settle()
	w.remove()
	if wait := w.settle(); wait != 5*time.Second || w.node() == nil || w.ready() != "False Releasing" {
		t.Errorf("wait %v, node %v, ready %s; want 5s, a node and False Releasing", wait, w.node(), w.ready())
	}
	w.clock.Step(5*time.Second - time.Microsecond)
	if wait := w.settle(); wait != time.Microsecond || w.node() == nil {
		t.Errorf("a microsecond early: wait %v, node %v", wait, w.node())
	}
	w.clock.Step(time.Microsecond)
	w.settle()
	if w.node() != nil || w.machine() != nil {
		t.Errorf("node %v and machine %v are still there", w.node(), w.machine())
	}
}

func TestAMachineThatNeverJoinsIsProvisionedWithoutANode(t *testing.T) {
	w := newWorld(t, readyCluster(), readyMachine(), newMachine(KwokMachineSpec{Fault: FaultNever, ReleaseLag: lagOf(time.Second)}))
	w.settle()
	if !w.provisioned() || w.node() != nil || w.machine().Spec.ProviderID == "" {
		t.Errorf("provisioned %v, node %v; want true and none", w.provisioned(), w.node())
	}
	w.remove()
	if wait := w.settle(); wait != time.Second {
		t.Errorf("it goes in %v, want 1s: the machine itself is there", wait)
	}
	w.clock.Step(time.Second)
	w.settle()
	if w.machine() != nil {
		t.Error("the machine is still there")
	}
}

func TestAMachineThatFailsSaysSoAndGoesAtOnce(t *testing.T) {
	w := newWorld(t, readyCluster(), readyMachine(), newMachine(KwokMachineSpec{
		Fault: FaultFail, AcquisitionLag: lagOf(time.Second), ReleaseLag: lagOf(time.Hour),
	}))
	w.settle()
	w.clock.Step(time.Hour)
	w.settle()
	if w.provisioned() || w.node() != nil || w.ready() != "False ProvisioningFailed" {
		t.Errorf("provisioned %v, node %v, ready %q; want a failure", w.provisioned(), w.node(), w.ready())
	}
	w.remove()
	w.settle()
	if w.machine() != nil {
		t.Error("the machine is still there")
	}
}

func TestAMachineThatIsNotYetThereGoesAtOnce(t *testing.T) {
	w := newWorld(t, readyCluster(), readyMachine(), newMachine(KwokMachineSpec{AcquisitionLag: lagOf(time.Hour), ReleaseLag: lagOf(time.Hour)}))
	w.settle()
	w.remove()
	w.settle()
	if w.machine() != nil {
		t.Error("the machine is still there")
	}
}

func TestTheLagBeginsWhenClusterAPIIsThrough(t *testing.T) {
	paused := readyCluster()
	if err := unstructured.SetNestedField(paused.Object, true, "spec", "paused"); err != nil {
		t.Fatal(err)
	}
	orphan := newMachine(KwokMachineSpec{})
	orphan.OwnerReferences = nil
	asleep := newMachine(KwokMachineSpec{})
	asleep.Annotations = map[string]string{"cluster.x-k8s.io/paused": ""}
	machine := newMachine(KwokMachineSpec{})
	for _, tc := range []struct {
		name    string
		objects []client.Object
		wait    time.Duration
	}{
		{"without an owner", []client.Object{readyCluster(), readyMachine(), orphan}, 0},
		{"while paused itself", []client.Object{readyCluster(), readyMachine(), asleep}, 0},
		{"while the Cluster is paused", []client.Object{paused, readyMachine(), machine}, time.Second},
		{"before the Cluster is there", []client.Object{readyMachine(), machine}, time.Second},
		{"before the Cluster is provisioned", []client.Object{clusterAPIObject("Cluster", "c", map[string]any{}), readyMachine(), machine}, time.Second},
		{"before the Machine is there", []client.Object{readyCluster(), machine}, time.Second},
		{"before there is bootstrap data", []client.Object{readyCluster(), clusterAPIObject("Machine", "m-1", map[string]any{}), machine}, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			for _, o := range tc.objects {
				testapi.Create(t, w.c, o.DeepCopyObject().(client.Object))
			}
			if wait := w.settle(); wait != tc.wait || w.machine().Status.RequestTime != nil || w.node() != nil {
				t.Errorf("wait %v, requested at %v; want %v and not at all", wait, w.machine().Status.RequestTime, tc.wait)
			}
		})
	}
}

func TestSomebodyElsesNodeIsLeftUnchanged(t *testing.T) {
	other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m-1"}, Spec: corev1.NodeSpec{ProviderID: "kwok://other"}}
	w := newWorld(t, other, readyCluster(), readyMachine(), newMachine(KwokMachineSpec{}))
	key := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "default", Name: "m-1"}}
	var err error
	for range 5 {
		_, err = w.r.Reconcile(t.Context(), key)
	}
	if err == nil || w.provisioned() {
		t.Errorf("error is %v, want one: the name is taken", err)
	}
	w.remove()
	w.settle()
	if w.machine() != nil || w.node() == nil {
		t.Errorf("machine %v, node %v; want the machine gone and the node there", w.machine(), w.node())
	}
}

func TestANodeThatSomebodyDeletesDoesNotComeBack(t *testing.T) {
	w := newWorld(t, readyCluster(), readyMachine(), newMachine(KwokMachineSpec{}))
	w.settle()
	testapi.Delete(t, w.c, w.node())
	w.settle()
	if w.node() != nil {
		t.Error("the node is back")
	}
	w.remove()
	w.settle()
	if w.machine() != nil {
		t.Error("the machine is still there")
	}
}

func TestLagsAreDrawnByName(t *testing.T) {
	spec := KwokMachineSpec{AcquisitionLag: lagOf(157 * time.Second), AcquisitionLagSD: lagOf(4 * time.Second)}
	const n = 4000
	sum, squares := 0.0, 0.0
	for i := range n {
		lag := spec.lag("machine-" + strconv.Itoa(i))
		if again := spec.lag("machine-" + strconv.Itoa(i)); again != lag {
			t.Fatalf("machine %d waits %v and then %v", i, lag, again)
		}
		off := (lag - 157*time.Second).Seconds()
		sum += off
		squares += off * off
	}
	// Five standard errors.
	if mean := sum / n; !(math.Abs(mean) <= 5*4/math.Sqrt(n)) {
		t.Errorf("the mean is %v s off", mean)
	}
	if sd := math.Sqrt(squares / n); !(math.Abs(sd-4) <= 5*4/math.Sqrt(2*n)) {
		t.Errorf("the standard deviation is %v s, want 4", sd)
	}
	wild := KwokMachineSpec{AcquisitionLag: lagOf(time.Second), AcquisitionLagSD: lagOf(time.Hour)}
	for i := range 100 {
		if lag := wild.lag(strconv.Itoa(i)); lag < 0 {
			t.Fatalf("a lag of %v", lag)
		}
	}
}

func TestATemplateSaysHowLargeItsMachinesAre(t *testing.T) {
	template := &KwokMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "t"}}
	template.Spec.Template.Spec = KwokMachineSpec{CPU: resource.MustParse("1500m"), Memory: resource.MustParse("3Gi"), Pods: 29, Arch: "arm64"}
	w := newWorld(t, template)
	key := client.ObjectKeyFromObject(template)
	if _, err := (&templateReconciler{client: w.c}).Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	testapi.Get(t, w.c, key, template)
	capacity := map[string]string{}
	for name, quantity := range template.Status.Capacity {
		capacity[string(name)] = quantity.String()
	}
	if diff := cmp.Diff(map[string]string{"cpu": "1500m", "memory": "3Gi", "pods": "29"}, capacity); diff != "" {
		t.Errorf("capacity (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(NodeInfo{Architecture: "arm64", OperatingSystem: "linux"}, template.Status.NodeInfo); diff != "" {
		t.Errorf("node info (-want +got):\n%s", diff)
	}
}

func TestAClusterIsReadyOnceItsKubeconfigIsThere(t *testing.T) {
	cluster := &KwokCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "infra", UID: "u"}}
	w := newWorld(t, cluster)
	key := client.ObjectKeyFromObject(cluster)
	written := func() string {
		var s corev1.Secret
		err := w.c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "c-kubeconfig"}, &s)
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return string(s.Data["value"])
	}
	see := func(kubeconfig string) (provisioned bool, secret string) {
		r := &clusterReconciler{client: w.c, kubeconfig: []byte(kubeconfig)}
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		testapi.Get(t, w.c, key, cluster)
		return cluster.Status.Initialization.Provisioned != nil, written()
	}
	if ready, secret := see("first"); ready || secret != "" {
		t.Errorf("ready %v with kubeconfig %q before it belongs to a Cluster", ready, secret)
	}
	cluster.Labels = map[string]string{LabelCluster: "c"}
	testapi.Update(t, w.c, cluster)
	for _, kubeconfig := range []string{"first", "first", "second"} {
		if ready, secret := see(kubeconfig); !ready || secret != kubeconfig {
			t.Errorf("ready %v with kubeconfig %q, want true with %q", ready, secret, kubeconfig)
		}
	}
	if err := refreshKubeconfigs(t.Context(), w.c, []byte("third")); err != nil {
		t.Fatal(err)
	}
	if got := written(); got != "third" {
		t.Errorf("kubeconfig is %q after it was refreshed", got)
	}
}

// TestAMachineIsWhatItsInstanceTypeIs uses a machine that has only a type, of which there are none
// in one failure domain for a while.
func TestAMachineIsWhatItsInstanceTypeIs(t *testing.T) {
	m := newMachine(KwokMachineSpec{})
	m.Spec = KwokMachineSpec{InstanceType: "m7i.large"}
	owner := m.OwnerReferences
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterAPI, Kind: "MachineSet", Name: "set", UID: "s"}}
	of := readyMachine()
	if err := unstructured.SetNestedField(of.Object, "z1", "spec", "failureDomain"); err != nil {
		t.Fatal(err)
	}
	market := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: Market}, Data: map[string]string{
		MarketTypes:   "name,cpu,memory_gib,price_per_hour,arch,machine_type,max_pods\nm7i.large,1.93,6.5,0.1008,arm64,m7i,29\n",
		MarketSoldOut: "m7i.large/z1\n",
	}}
	w := newWorld(t, readyCluster(), of, m, market)
	if w.settle() == 0 || w.node() != nil || w.ready() != "False ProvisioningFailed" {
		t.Errorf("before cluster-api has made the Machine its owner: node %v, ready %s", w.node(), w.ready())
	}
	m = w.machine()
	m.OwnerReferences = owner
	testapi.Update(t, w.c, m)
	if w.settle() == 0 || w.node() != nil || w.ready() != "False ProvisioningFailed" {
		t.Errorf("while there are none: node %v, ready %s", w.node(), w.ready())
	}
	market.Data[MarketSoldOut] = "m7i.large/z2\n"
	testapi.Update(t, w.c, market)
	w.settle()
	s := w.machine().Spec
	if s.CPU.MilliValue() != 1930 || s.Memory.Value() != 13<<29 || s.Pods != 29 || s.Arch != "arm64" || w.node() == nil || w.ready() != "True Provisioned" {
		t.Errorf("the machine is %+v, node %v, ready %s", s, w.node(), w.ready())
	}
	if labels := w.node().Labels; labels[corev1.LabelTopologyZone] != "z1" || labels["supercargo.dev/machine-type"] != "m7i" {
		t.Errorf("its node has the labels %v", labels)
	}
}
