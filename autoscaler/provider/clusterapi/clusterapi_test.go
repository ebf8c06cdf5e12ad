package clusterapi

import (
	stdcmp "cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/test/kit/testapi"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// capiMachine is a Machine of the MachineDeployment small.
func capiMachine(name string, change ...func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "machines", Name: name, Labels: map[string]string{"cluster.x-k8s.io/deployment-name": "small"}, CreationTimestamp: metav1.NewTime(start),
	}}
	for _, c := range change {
		c(m)
	}
	return m
}

func markedAs(value string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) {
		m.Annotations = map[string]string{"cluster.x-k8s.io/delete-machine": value}
	}
}

func going(m *clusterv1.Machine) {
	m.DeletionTimestamp, m.Finalizers = new(metav1.NewTime(start)), []string{"machine.cluster.x-k8s.io"}
}

func on(node string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) { m.Status.NodeRef.Name = node }
}

func with(replicas int32, d *clusterv1.MachineDeployment) *clusterv1.MachineDeployment {
	d.Spec.Replicas = new(replicas)
	return d
}

// server is a client with the scale subresource of MachineDeployments, which the fake client lacks. before is called
// before each write, and may refuse it or write itself.
type server struct {
	client.WithWatch
	before func(what string) error
	mu     sync.Mutex // for writes, and for before
	writes []string
}

func newServer(t testing.TB, objects ...client.Object) *server {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s := &server{}
	s.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceGet:   s.readScale,
		SubResourcePatch: s.patchScale,
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := s.write("patch " + o.GetName()); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := s.write("create " + kindOf(o) + " " + o.GetName()); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := s.write("delete " + kindOf(o) + " " + o.GetName()); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
	}).Build()
	return s
}

// kindOf returns the kind of an object; a typed one is a MachineDeployment.
func kindOf(o client.Object) string {
	return stdcmp.Or(o.GetObjectKind().GroupVersionKind().Kind, "MachineDeployment")
}

func (s *server) write(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, what)
	if s.before == nil {
		return nil
	}
	return s.before(what)
}

func (s *server) readScale(ctx context.Context, c client.Client, name string, o, body client.Object, _ ...client.SubResourceGetOption) error {
	d := &clusterv1.MachineDeployment{}
	if name != "scale" {
		return fmt.Errorf("subresource %s is read", name)
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), d); err != nil {
		return err
	}
	scale := body.(*autoscalingv1.Scale)
	scale.ObjectMeta = metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name, ResourceVersion: d.ResourceVersion}
	scale.Spec.Replicas = *d.Spec.Replicas
	return nil
}

// patchScale applies a JSON patch to a Scale like the API server: a failed test makes the request invalid, and the
// resourceVersion is ignored.
func (s *server) patchScale(ctx context.Context, c client.Client, name string, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	data, err := p.Data(o)
	if err != nil {
		return err
	}
	var operations []struct {
		Op, Path string
		Value    autoscalingv1.ScaleSpec
	}
	if err := json.Unmarshal(data, &operations); err != nil {
		return err
	}
	if name != "scale" || p.Type() != types.JSONPatchType || len(operations) != 2 || operations[0].Op != "test" || operations[1].Op != "replace" {
		return fmt.Errorf("patch of %s: %s", name, data)
	}
	test, replace := operations[0].Value, operations[1].Value
	if err := s.write(fmt.Sprintf("%s %s to %d", name, o.GetName(), replace.Replicas)); err != nil {
		return err
	}
	d := &clusterv1.MachineDeployment{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), d); err != nil {
		return err
	}
	if *d.Spec.Replicas != test.Replicas {
		return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", "testing value /spec failed", 0, false)
	}
	d.Spec.Replicas = new(replace.Replicas)
	return c.Update(ctx, d)
}

func (s *server) provider() *Provider {
	return New(s, s, Fleet{Spec: v1alpha1.ClusterAPIFlavors{Namespace: "machines", Names: []string{"small"}}}, nil, NewTemplates(clock.RealClock{}))
}

// setReplicas acts as another client.
func (s *server) setReplicas(t *testing.T, n int32) {
	t.Helper()
	d := &clusterv1.MachineDeployment{}
	testapi.Get(t, s, client.ObjectKey{Namespace: "machines", Name: "small"}, d)
	d.Spec.Replicas = new(n)
	testapi.Update(t, s, d)
}

// state is the number of replicas and the marks.
func (s *server) state(t *testing.T) string {
	t.Helper()
	d := &clusterv1.MachineDeployment{}
	testapi.Get(t, s, client.ObjectKey{Namespace: "machines", Name: "small"}, d)
	text := fmt.Sprint(*d.Spec.Replicas)
	var list clusterv1.MachineList
	testapi.List(t, s, &list)
	for i := range list.Items {
		if mark, ok := list.Items[i].Annotations["cluster.x-k8s.io/delete-machine"]; ok {
			text += fmt.Sprintf(" %s=%s", list.Items[i].Name, mark)
		}
	}
	return text
}

func TestBuyRaisesTheNumberOfReplicasOnce(t *testing.T) {
	s := newServer(t, with(3, sized()))
	for range 3 { // twice more, like after a crash
		if err := s.provider().Buy(t.Context(), "i", "small", 3, 5); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.state(t); got != "5" {
		t.Errorf("%s replicas after writes %q", got, s.writes)
	}
}

func TestBuyIsRefusedWhereSomebodyElseHasChangedTheNumber(t *testing.T) {
	s := newServer(t, with(4, sized()))
	if err := s.provider().Buy(t.Context(), "i", "small", 3, 5); !errors.Is(err, provider.ErrChanged) {
		t.Errorf("error %v, want ErrChanged", err)
	}
	if got := s.state(t); got != "4" {
		t.Errorf("%s replicas", got)
	}
}

// TestMachinesThatHaveComeAreNotAbandoned: cluster-api would choose which of them to delete.
func TestMachinesThatHaveComeAreNotAbandoned(t *testing.T) {
	s := newServer(t, with(3, sized()), capiMachine("a"), capiMachine("b"))
	if err := s.provider().Buy(t.Context(), "i", "small", 3, 1); !errors.Is(err, provider.ErrChanged) {
		t.Errorf("error %v, want ErrChanged", err)
	}
	if got := s.state(t); got != "3" {
		t.Errorf("%s replicas while there are two machines", got)
	}
	if err := s.provider().Buy(t.Context(), "i", "small", 3, 2); err != nil {
		t.Error(err)
	}
	if got := s.state(t); got != "2" {
		t.Errorf("%s replicas once only what was never made is abandoned", got)
	}
}

func TestAChangeBetweenReadingAndWritingIsNotOverwritten(t *testing.T) {
	s := newServer(t, with(3, sized()))
	s.before = func(string) error {
		s.before = nil
		s.setReplicas(t, 4)
		return nil
	}
	if err := s.provider().Buy(t.Context(), "i", "small", 3, 5); !errors.Is(err, provider.ErrChanged) {
		t.Errorf("error %v, want ErrChanged", err)
	}
	if got := s.state(t); got != "4" {
		t.Errorf("%s replicas", got)
	}
}

func TestAPurchaseThatMeetsAConflictIsTriedAgain(t *testing.T) {
	s := newServer(t, with(3, sized()))
	conflicts := 2
	s.before = func(string) error {
		if conflicts--; conflicts >= 0 {
			return apierrors.NewConflict(schema.GroupResource{Resource: "machinedeployments"}, "small", errors.New("it has been modified"))
		}
		return nil
	}
	if err := s.provider().Buy(t.Context(), "i", "small", 3, 5); err != nil {
		t.Error(err)
	}
	if got := s.state(t); got != "5" {
		t.Errorf("%s replicas", got)
	}
	conflicts = 1000
	if err := s.provider().Buy(t.Context(), "i", "small", 5, 6); !errors.Is(err, provider.ErrChanged) {
		t.Errorf("without end: error %v, want ErrChanged", err)
	}
}

// TestAnInvalidRequestIsNotTakenForAChange: an admission webhook may refuse the number.
func TestAnInvalidRequestIsNotTakenForAChange(t *testing.T) {
	s := newServer(t, with(3, sized()))
	s.before = func(string) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "MachineDeployment"}, "small", nil)
	}
	if err := s.provider().Buy(t.Context(), "i", "small", 3, 5); !apierrors.IsInvalid(err) || errors.Is(err, provider.ErrChanged) {
		t.Errorf("error %v, want that of the API server", err)
	}
}

func TestOtherFaultsAreNotTakenForAChange(t *testing.T) {
	s := newServer(t, with(3, sized()), capiMachine("a"))
	s.before = func(string) error { return apierrors.NewTooManyRequests("slowly", 1) }
	for what, err := range map[string]error{
		"buy":                   s.provider().Buy(t.Context(), "i", "small", 3, 5),
		"release":               s.provider().Release(t.Context(), "i", "small", 3, []string{"a"}),
		"buy what nobody sells": s.provider().Buy(t.Context(), "i", "none", 3, 5),
	} {
		if err == nil || errors.Is(err, provider.ErrChanged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := s.state(t); got != "3" {
		t.Errorf("%s replicas", got)
	}
}

func TestReleaseMarksMachinesBeforeTheNumberFalls(t *testing.T) {
	s := newServer(t, with(3, sized()), capiMachine("a"), capiMachine("b"), capiMachine("c"))
	for range 2 { // once more, like after a crash
		if err := s.provider().Release(t.Context(), "i", "small", 3, []string{"a", "c"}); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(s.writes[:min(2, len(s.writes))]) // Machines are marked concurrently
	if diff := cmp.Diff([]string{"patch a", "patch c", "scale small to 1"}, s.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if got, want := s.state(t), "1 a=supercargo.dev/i c=supercargo.dev/i"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestReleaseMarksNothingWhereTheNumberHasChanged(t *testing.T) {
	s := newServer(t, with(4, sized()), capiMachine("a"), capiMachine("b"))
	if err := s.provider().Release(t.Context(), "i", "small", 3, []string{"a"}); !errors.Is(err, provider.ErrChanged) {
		t.Errorf("error %v, want ErrChanged", err)
	}
	if got := s.state(t); got != "4" {
		t.Errorf("%s", got)
	}
}

// TestAMachineThatHasGoneIsNotPaidForByAnother: cluster-api has replaced it, and lowering the number would delete
// another machine.
func TestAMachineThatHasGoneIsNotPaidForByAnother(t *testing.T) {
	s := newServer(t, with(3, sized()), capiMachine("b"), capiMachine("c"), capiMachine("successor"))
	if err := s.provider().Release(t.Context(), "i", "small", 3, []string{"a"}); !errors.Is(err, provider.ErrChanged) {
		t.Errorf("error %v, want ErrChanged", err)
	}
	if got := s.state(t); got != "3" {
		t.Errorf("%s", got)
	}
}

func TestAMachineThatIsGoingIsReleasedAnyway(t *testing.T) {
	s := newServer(t, with(3, sized()), capiMachine("a", going), capiMachine("b"), capiMachine("c"))
	if err := s.provider().Release(t.Context(), "i", "small", 3, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	if got, want := s.state(t), "2 a=supercargo.dev/i"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestMarksOfAReleaseThatCameToNothingAreTakenAway: cluster-api deletes any marked Machine, and pods may run by now on
// those that were marked then.
func TestMarksOfAReleaseThatCameToNothingAreTakenAway(t *testing.T) {
	s := newServer(t, with(3, sized()), capiMachine("a"), capiMachine("b"), capiMachine("c"))
	s.before = func(what string) error {
		if strings.HasPrefix(what, "scale") {
			s.before = nil
			s.setReplicas(t, 4)
		}
		return nil
	}
	if err := s.provider().Release(t.Context(), "i", "small", 3, []string{"a"}); !errors.Is(err, provider.ErrChanged) {
		t.Fatalf("error %v, want ErrChanged", err)
	}
	testapi.Create(t, s, capiMachine("d"))
	if got, want := s.state(t), "4 a=supercargo.dev/i"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	if err := s.provider().Release(t.Context(), "j", "small", 4, []string{"b"}); err != nil {
		t.Fatal(err)
	}
	if got, want := s.state(t), "3 b=supercargo.dev/j"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestMarksThatClusterAPIHasYetToActOnStay: without them it would delete another Machine.
func TestMarksThatClusterAPIHasYetToActOnStay(t *testing.T) {
	s := newServer(t, with(3, sized()), capiMachine("a"), capiMachine("b"), capiMachine("c"), capiMachine("z", markedAs("supercargo.dev/old"), going))
	for i, name := range []string{"a", "b"} {
		if err := s.provider().Release(t.Context(), "i", "small", 3-i, []string{name}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := s.state(t), "1 a=supercargo.dev/i b=supercargo.dev/i z=supercargo.dev/old"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestMarksOfOthersAreLeftUnchanged(t *testing.T) {
	s := newServer(t, with(3, sized()), capiMachine("a", markedAs("yes")), capiMachine("b"), capiMachine("c", markedAs("")))
	if err := s.provider().Release(t.Context(), "i", "small", 3, []string{"b"}); err != nil {
		t.Fatal(err)
	}
	if got, want := s.state(t), "2 a=yes b=supercargo.dev/i c="; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestReleaseIsTheSameWhereverItBreaksOff fails each write in turn, and repeats the release.
func TestReleaseIsTheSameWhereverItBreaksOff(t *testing.T) {
	for fails := 1; ; fails++ {
		s := newServer(t, with(3, sized()), capiMachine("a"), capiMachine("b", markedAs("supercargo.dev/old")), capiMachine("c"))
		n := 0
		s.before = func(string) error {
			if n++; n == fails {
				return errors.New("the process dies")
			}
			return nil
		}
		first := s.provider().Release(t.Context(), "i", "small", 3, []string{"a", "c"})
		if err := s.provider().Release(t.Context(), "i", "small", 3, []string{"a", "c"}); err != nil {
			t.Fatal(err)
		}
		if got, want := s.state(t), "1 a=supercargo.dev/i c=supercargo.dev/i"; got != want {
			t.Errorf("after write %d failed: %s, want %s", fails, got, want)
		}
		if first == nil {
			if fails != 5 {
				t.Errorf("there were %d writes, want 4", fails-1)
			}
			return
		}
	}
}

func TestMachinesOnTheirWayOut(t *testing.T) {
	mark := markedAs("supercargo.dev/i")
	tests := []struct {
		name     string
		replicas int32
		own      []clusterv1.Machine
		want     []string
	}{
		{"none", 2, []clusterv1.Machine{*capiMachine("a"), *capiMachine("b")}, nil},
		{"what is being deleted", 1, []clusterv1.Machine{*capiMachine("a"), *capiMachine("b", going)}, []string{"b"}},
		{"what is marked and more than there is to be", 1, []clusterv1.Machine{*capiMachine("a"), *capiMachine("b", mark)}, []string{"b"}},
		{"not what is marked while all are to be there", 2, []clusterv1.Machine{*capiMachine("a"), *capiMachine("b", mark)}, nil},
		{"of the marked the first by name, as cluster-api has it", 2, []clusterv1.Machine{*capiMachine("c", mark), *capiMachine("b"), *capiMachine("a", mark)}, []string{"a"}},
		{"what is being deleted does not count for the marked", 2, []clusterv1.Machine{*capiMachine("a", mark), *capiMachine("b", going), *capiMachine("c")}, []string{"b"}},
		{"a mark of others counts as well", 1, []clusterv1.Machine{*capiMachine("a"), *capiMachine("b", markedAs(""))}, []string{"b"}},
		{"nobody knows which while none is marked", 1, []clusterv1.Machine{*capiMachine("a"), *capiMachine("b")}, nil},
		{"fewer than there are to be", 5, []clusterv1.Machine{*capiMachine("a", mark)}, nil},
		{"marked and being deleted counts once", 1, []clusterv1.Machine{*capiMachine("a", mark, going), *capiMachine("b", mark), *capiMachine("c")}, []string{"a", "b"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var got, names []string
			for _, m := range machinesOf(with(tc.replicas, deployment()), tc.own) {
				names = append(names, m.Name)
				if m.Leaving {
					got = append(got, m.Name)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("leaving (-want +got):\n%s", diff)
			}
			if len(names) != len(tc.own) || !slices.IsSorted(names) {
				t.Errorf("the machines are %v", names)
			}
		})
	}
	d := deployment()
	d.Spec.Replicas = nil
	if machinesOf(d, []clusterv1.Machine{*capiMachine("a", mark)})[0].Leaving {
		t.Error("a machine is taken for surplus where nobody has said how many there are to be")
	}
}

func TestAMachineSaysWhatItWaitsFor(t *testing.T) {
	waits := func(kind string, status metav1.ConditionStatus, reason, message string) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) {
			m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message})
		}
	}
	tests := []struct {
		name string
		m    *clusterv1.Machine
		want string
	}{
		{"nothing", capiMachine("a"), ""},
		{"the infrastructure", capiMachine("a", waits("InfrastructureReady", metav1.ConditionFalse, "NotReady", "no quota")), "no quota"},
		{"the bootstrap data, without words", capiMachine("a", waits("BootstrapConfigReady", metav1.ConditionFalse, "NotReady", "")), "NotReady"},
		{"both: the last step", capiMachine("a", waits("BootstrapConfigReady", metav1.ConditionFalse, "X", "first"), waits("InfrastructureReady", metav1.ConditionFalse, "Y", "second")), "second"},
		{"what is true is not waited for", capiMachine("a", waits("InfrastructureReady", metav1.ConditionTrue, "Ready", "fine")), ""},
		{"nor anything else", capiMachine("a", waits("NodeHealthy", metav1.ConditionFalse, "X", "sick")), ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := machine("small", tc.m).Waits; got != tc.want {
				t.Errorf("it waits for %q, want %q", got, tc.want)
			}
		})
	}
	got := machine("small", capiMachine("a", on("node-1"), going))
	want := provider.Machine{Name: "a", Flavor: "small", Node: "node-1", Ordered: start, Leaving: true, RolledOut: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("machine (-want +got):\n%s", diff)
	}
}

// TestAMachineThatCannotBeHadIsNotWaitedFor has the messages of infrastructure providers.
func TestAMachineThatCannotBeHadIsNotWaitedFor(t *testing.T) {
	waits := func(message string) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) {
			m.Status.Conditions = []metav1.Condition{{Type: "InfrastructureReady", Status: metav1.ConditionFalse, Reason: "NotReady", Message: message}}
		}
	}
	for _, message := range []string{
		"failed to create AWSMachine instance: failed to run instance: InsufficientInstanceCapacity: We currently do not have sufficient m7i.large capacity in the Availability Zone you requested (us-east-1a).",
		"failed to run instance: VcpuLimitExceeded: You have requested more vCPU capacity than your current vCPU limit of 32 allows",
		`{"error": {"code": "SkuNotAvailable", "message": "The requested VM size is currently not available in location 'eastus'"}}`,
		"Operation could not be completed as it results in exceeding approved standardDSv5Family Cores quota",
		"ZONE_RESOURCE_POOL_EXHAUSTED: The zone 'us-central1-a' does not have enough resources available to fulfill the request",
		"Openstack instance state is ERROR: No valid host was found. There are not enough hosts available.",
		"Quota exceeded for cores: Requested 8, but already used 40 of 40 cores",
	} {
		if got := machine("small", capiMachine("a", waits(message))).Failed; got != message {
			t.Errorf("%q is waited for", message)
		}
		if got := machine("small", capiMachine("a", on("node-1"), waits(message))).Failed; got != "" {
			t.Errorf("a machine that has a node has failed: %q", got)
		}
	}
	for _, message := range []string{"", "waiting for the instance to run", "failed to create AWSMachine instance: RequestLimitExceeded: Request limit exceeded."} {
		if got := machine("small", capiMachine("a", waits(message))).Failed; got != "" {
			t.Errorf("%q is not waited for", message)
		}
	}
}

func TestObserveListsWhatTheSpecChooses(t *testing.T) {
	named := func(name string, labels map[string]string) *clusterv1.MachineDeployment {
		d := sized()
		d.Name, d.Labels = name, labels
		return d
	}
	foreign := named("b", nil)
	foreign.Namespace = "elsewhere"
	other := capiMachine("m-b", func(m *clusterv1.Machine) { m.Labels["cluster.x-k8s.io/deployment-name"] = "b" })
	lone := capiMachine("lone", func(m *clusterv1.Machine) { m.Labels = nil })
	objects := []client.Object{
		named("made", map[string]string{"fleet": "x", v1alpha1.LabelFleet: "other"}), // for another fleet
		named("b", map[string]string{"fleet": "x"}), named("a", map[string]string{"fleet": "x"}), named("c", nil), foreign,
		other, lone, capiMachine("m-c", func(m *clusterv1.Machine) { m.Labels["cluster.x-k8s.io/deployment-name"] = "c" }),
	}
	tests := []struct {
		name             string
		spec             v1alpha1.ClusterAPIFlavors
		flavors, machine []string
	}{
		{"by name, one of which there is not", v1alpha1.ClusterAPIFlavors{Names: []string{"none", "b"}}, []string{"b", "none: MachineDeployment machines/none does not exist"}, []string{"m-b"}},
		{"by label", v1alpha1.ClusterAPIFlavors{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"fleet": "x"}}}, []string{"a", "b"}, []string{"m-b"}},
		{"all", v1alpha1.ClusterAPIFlavors{Selector: &metav1.LabelSelector{}}, []string{"a", "b", "c"}, []string{"m-b", "m-c"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t, objects...)
			tc.spec.Namespace = "machines"
			found, err := New(s, s, Fleet{Spec: tc.spec}, nil, NewTemplates(clock.RealClock{})).Observe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var flavors, machines []string
			for _, f := range found.Flavors {
				text := f.Name
				if f.Problem != "" {
					text += ": " + f.Problem
				}
				flavors = append(flavors, text)
			}
			for _, m := range found.Machines {
				machines = append(machines, m.Name)
			}
			if diff := cmp.Diff(tc.flavors, flavors); diff != "" {
				t.Errorf("flavors (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.machine, machines); diff != "" {
				t.Errorf("machines (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAMachineHasTheNodeOfItsProviderID has nodes that joined before cluster-api recorded their Machines.
func TestAMachineHasTheNodeOfItsProviderID(t *testing.T) {
	node := func(name, id string) *corev1.Node {
		n := readyNode(name, capacity("cpu", "1", "memory", "1Gi"))
		n.Spec.ProviderID = id
		return n
	}
	id := func(id string) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) { m.Spec.ProviderID = id }
	}
	nodes := map[string]*corev1.Node{}
	for _, n := range []*corev1.Node{node("joined", "x://1"), node("noted", "x://2"), node("twin-1", "x://3"), node("twin-2", "x://3"), node("own", "")} {
		nodes[n.Name] = n
	}
	for _, tc := range []struct {
		name string
		m    *clusterv1.Machine
		want string
	}{
		{"joined, and not noted yet", capiMachine("a", id("x://1")), "joined"},
		{"what cluster-api has noted counts", capiMachine("a", id("x://1"), on("noted")), "noted"},
		{"not joined", capiMachine("a", id("x://4")), ""},
		{"nodes of one ID are nobody's", capiMachine("a", id("x://3")), ""},
		{"no ID matches none", capiMachine("a"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t, sized(), tc.m)
			found, err := New(s, s, Fleet{Spec: v1alpha1.ClusterAPIFlavors{Namespace: "machines", Selector: &metav1.LabelSelector{}}}, nodes, NewTemplates(clock.RealClock{})).Observe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(found.Machines) != 1 || found.Machines[0].Node != tc.want {
				t.Errorf("machines %+v, want one with node %q", found.Machines, tc.want)
			}
		})
	}
}

func TestTheExampleIsTheNewestNodeThatHasStarted(t *testing.T) {
	at := func(age time.Duration, n *corev1.Node) *corev1.Node {
		n.CreationTimestamp = metav1.NewTime(start.Add(-age))
		return n
	}
	some := capacity("cpu", "1", "memory", "1Gi")
	fresh := at(0, readyNode("fresh", some))
	fresh.Spec.Taints = []corev1.Taint{{Key: "node.cluster.x-k8s.io/uninitialized"}}
	down := at(time.Second, readyNode("down", some))
	down.Status.Conditions[0].Status = corev1.ConditionUnknown
	cordoned := at(2*time.Minute, readyNode("cordoned", some))
	cordoned.Spec.Taints = []corev1.Taint{{Key: "node.kubernetes.io/unschedulable"}}
	tests := []struct {
		name  string
		nodes []*corev1.Node
		want  string
	}{
		{"none", nil, ""},
		{"the newest", []*corev1.Node{at(time.Hour, readyNode("old", some)), at(time.Minute, readyNode("new", some)), at(2*time.Hour, readyNode("older", some))}, "new"},
		{"of the same age by name", []*corev1.Node{readyNode("b", some), readyNode("a", some)}, "a"},
		{"not one that is just starting", []*corev1.Node{fresh, at(time.Hour, readyNode("old", some))}, "old"},
		{"not one that is down", []*corev1.Node{down, at(time.Hour, readyNode("old", some))}, "old"},
		{"a closed one is as good", []*corev1.Node{cordoned, at(time.Hour, readyNode("old", some))}, "cordoned"},
		{"for want of a better the newest", []*corev1.Node{down, fresh}, "fresh"},
		{"not one that says nothing", []*corev1.Node{readyNode("mute", nil)}, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			nodes := map[string]*corev1.Node{}
			machines := []clusterv1.Machine{*capiMachine("without-a-node"), *capiMachine("with-a-node-that-is-gone", on("gone"))}
			for _, n := range tc.nodes {
				nodes[n.Name] = n
				machines = append(machines, *capiMachine("m-"+n.Name, on(n.Name)))
			}
			got := ""
			if n, _ := New(nil, nil, Fleet{Spec: v1alpha1.ClusterAPIFlavors{}}, nodes, NewTemplates(clock.RealClock{})).example(machines); n != nil {
				got = n.Name
			}
			if got != tc.want {
				t.Errorf("the example is %q, want %q", got, tc.want)
			}
		})
	}
}

// TestSizesComeFromTheInfrastructureTemplate has a CRD that states which of its versions follows the contract of
// cluster-api: the last.
func TestSizesComeFromTheInfrastructureTemplate(t *testing.T) {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(crdKind)
	crd.SetName("kwokmachinetemplates.infrastructure.example.com")
	crd.SetLabels(map[string]string{"cluster.x-k8s.io/v1beta2": "v1alpha3_v1beta1"})
	object := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"capacity": map[string]any{"cpu": "8", "memory": "32Gi"}}}}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "infrastructure.example.com", Version: "v1beta1", Kind: "KwokMachineTemplate"})
	object.SetNamespace("machines")
	object.SetName("large")
	d := deployment()
	d.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.example.com", Kind: "KwokMachineTemplate", Name: "large"}
	observe := func(objects ...client.Object) (*provider.Inventory, error) {
		s := newServer(t, append(objects, d.DeepCopy())...)
		return s.provider().Observe(t.Context())
	}
	found, err := observe(crd, object)
	if err != nil {
		t.Fatal(err)
	}
	if f := found.Flavors[0]; f.Size.MilliCPU != 8000 || f.Size.MemoryBytes != 32*gib || f.Problem != "" {
		t.Errorf("the flavor is %+v", f)
	}
	foreign := crd.DeepCopy()
	foreign.SetLabels(map[string]string{"cluster.x-k8s.io/v1alpha4": "v1beta1"})
	for name, objects := range map[string][]client.Object{"no template": {crd}, "no CRD": {object}, "a CRD that follows no contract": {foreign, object}} {
		found, err := observe(objects...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if f := found.Flavors[0]; !strings.Contains(f.Problem, "the capacity of its machines is unknown") {
			t.Errorf("%s: the problem is %q", name, f.Problem)
		}
	}
}

func TestAFaultInReadingIsNoEmptyInventory(t *testing.T) {
	for _, kind := range []string{"*v1beta2.MachineDeploymentList", "*v1beta2.MachineList"} {
		s := newServer(t, sized())
		broken := interceptor.NewClient(s.WithWatch, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if fmt.Sprintf("%T", list) == kind {
					return apierrors.NewServiceUnavailable("later")
				}
				return c.List(ctx, list, opts...)
			},
		})
		if found, err := New(broken, broken, Fleet{Spec: v1alpha1.ClusterAPIFlavors{Namespace: "machines", Names: []string{"small"}}}, nil, NewTemplates(clock.RealClock{})).Observe(t.Context()); err == nil {
			t.Errorf("%s cannot be listed, and the inventory is %+v", kind, found)
		}
	}
	spec := v1alpha1.ClusterAPIFlavors{Namespace: "machines", Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Odd"}}}}
	s := newServer(t)
	if _, err := New(s, s, Fleet{Spec: spec}, nil, NewTemplates(clock.RealClock{})).Observe(t.Context()); err == nil || !strings.Contains(err.Error(), "spec.clusterAPI.selector") {
		t.Errorf("a selector that is none gives %v", err)
	}
}
