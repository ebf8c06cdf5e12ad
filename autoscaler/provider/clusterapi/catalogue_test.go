package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/test/kit/testapi"
)

const testGroup = "infrastructure.cluster.x-k8s.io"

// catalogueScene is a management cluster with a MachineDeployment to copy, and a fleet that copies it.
type catalogueScene struct {
	*server
	t     *testing.T
	clock *clocktesting.FakePassiveClock
	known *Templates
	spec  v1alpha1.ClusterAPIFlavors
	types []catalogue.Flavor
	nodes map[string]*corev1.Node
}

// types are three instance types for amd64, one of them burstable, and one for arm64.
func someTypes() []catalogue.Flavor {
	const gib = 1 << 30
	return []catalogue.Flavor{
		{Flavor: cluster.Flavor{Name: "m7g.large", Size: packing.Size{MilliCPU: 1930, MemoryBytes: 7 * gib}, MicroDollarsPerHour: 81_600, Arch: "arm64", MaxPods: new(int64(29))}, MachineType: "m7g"},
		{Flavor: cluster.Flavor{Name: "m7i.large", Size: packing.Size{MilliCPU: 1930, MemoryBytes: 7 * gib}, MicroDollarsPerHour: 100_800, Arch: "amd64", MaxPods: new(int64(29))}, MachineType: "m7i"},
		{Flavor: cluster.Flavor{Name: "m7i.xlarge", Size: packing.Size{MilliCPU: 3920, MemoryBytes: 14 * gib}, MicroDollarsPerHour: 201_600, Arch: "amd64", MaxPods: new(int64(58))}, MachineType: "m7i"},
		{Flavor: cluster.Flavor{Name: "t3.large", Size: packing.Size{MilliCPU: 1930, MemoryBytes: 7 * gib}, MicroDollarsPerHour: 83_200, Arch: "amd64", MaxPods: new(int64(35))}, MachineType: "t3", Kind: catalogue.KindBurstable},
	}
}

// toCopy is a MachineDeployment as a user writes it.
func toCopy() *clusterv1.MachineDeployment {
	d := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "machines", Name: "workers", Labels: map[string]string{"team": "a"}, UID: "model",
		Annotations: map[string]string{
			clusterv1.AutoscalerMinSizeAnnotation: "1", "kubectl.kubernetes.io/last-applied-configuration": "{}", annotationLabels: "disk=ssd", annotationProvision: "5m",
		},
	}}
	d.Spec.ClusterName, d.Spec.Replicas = "c", new(int32(0))
	d.Spec.Selector.MatchLabels = map[string]string{clusterv1.MachineDeploymentNameLabel: "workers"}
	d.Spec.Template.Labels = map[string]string{clusterv1.MachineDeploymentNameLabel: "workers", "node.cluster.x-k8s.io/pool": "p"}
	d.Spec.Template.Spec.ClusterName, d.Spec.Template.Spec.FailureDomain = "c", "z1"
	d.Spec.Template.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfigTemplate", Name: "workers"}
	d.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: testGroup, Kind: "AWSMachineTemplate", Name: "workers"}
	return d
}

// toCopyOf is toCopy with another kind of infrastructure template.
func toCopyOf(kind string) *clusterv1.MachineDeployment {
	d := toCopy()
	d.Spec.Template.Spec.InfrastructureRef.Kind = kind
	return d
}

// infrastructureOf is the infrastructure template of a kind, as a user writes it.
func infrastructureOf(kind string, spec map[string]any) []client.Object {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(crdKind)
	crd.SetName(strings.ToLower(kind) + "s." + testGroup)
	crd.SetLabels(map[string]string{contracts[0]: "v1beta2"})
	t := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": spec}}}}
	t.SetAPIVersion(testGroup + "/v1beta2")
	t.SetKind(kind)
	t.SetNamespace("machines")
	t.SetName("workers")
	return []client.Object{crd, t}
}

func newCatalogueScene(t *testing.T, objects ...client.Object) *catalogueScene {
	t.Helper()
	if len(objects) == 0 {
		objects = append(infrastructureOf("AWSMachineTemplate", map[string]any{"instanceType": "t3.medium", "ami": map[string]any{"id": "ami-1"}}), toCopy())
	}
	s := &catalogueScene{
		server: newServer(t, objects...), t: t, clock: clocktesting.NewFakePassiveClock(start), types: someTypes(),
		spec: v1alpha1.ClusterAPIFlavors{Namespace: "machines", Templates: []v1alpha1.MachineTemplate{{MachineDeployment: "workers"}}},
	}
	s.known = NewTemplates(s.clock)
	return s
}

func (s *catalogueScene) provider() *Provider {
	of := Fleet{Name: "f", Spec: s.spec, Types: func(context.Context) ([]catalogue.Flavor, error) { return s.types, nil }}
	return New(s, s, of, s.nodes, s.known)
}

func (s *catalogueScene) observe() (*Provider, *provider.Inventory) {
	s.t.Helper()
	p := s.provider()
	found, err := p.Observe(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return p, found
}

// named is the name of the flavor of an instance type.
func (s *catalogueScene) named(instanceType string) string {
	s.t.Helper()
	_, found := s.observe()
	for _, f := range found.Flavors {
		if f.InstanceType == instanceType && f.Problem == "" {
			return f.Name
		}
	}
	s.t.Fatalf("there is no flavor %s", instanceType)
	return ""
}

// buy buys machines of a flavor, like a round.
func (s *catalogueScene) buy(name string, from, to int) {
	s.t.Helper()
	p, _ := s.observe()
	if err := p.Buy(s.t.Context(), "i", name, from, to); err != nil {
		s.t.Fatal(err)
	}
}

// made are the MachineDeployments and infrastructure templates of the fleet, with their replicas or
// instance types.
func (s *catalogueScene) made() []string {
	s.t.Helper()
	all := []string{}
	var deployments clusterv1.MachineDeploymentList
	testapi.List(s.t, s, &deployments, client.MatchingLabels{v1alpha1.LabelFleet: "f"})
	for _, d := range deployments.Items {
		all = append(all, fmt.Sprintf("%s: %d", d.Name, *d.Spec.Replicas))
	}
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(testGroup + "/v1beta2")
	list.SetKind("AWSMachineTemplateList")
	testapi.List(s.t, s, list, client.MatchingLabels{v1alpha1.LabelFleet: "f"})
	for i := range list.Items {
		of, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "template", "spec", "instanceType")
		all = append(all, list.Items[i].GetName()+" of "+of)
	}
	return all
}

func (s *catalogueScene) checkMade(what string, want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), s.made()); diff != "" {
		s.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestEveryInstanceTypeThatATemplateMayBeUsedWithIsAFlavor(t *testing.T) {
	s := newCatalogueScene(t)
	_, found := s.observe()
	const gib = 1 << 30
	labels := func(instanceType, zone string) map[string]string {
		all := map[string]string{
			corev1.LabelInstanceTypeStable: instanceType, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", v1alpha1.LabelMachineType: "m7i",
			"disk": "ssd", "node.cluster.x-k8s.io/pool": "p", corev1.LabelTopologyZone: zone,
		}
		constraint.AddFollowing(all)
		return all
	}
	want := []provider.Flavor{
		{InstanceType: "m7i.large", Size: packing.Size{MilliCPU: 1930, MemoryBytes: 7 * gib}, MaxPods: 29, Labels: labels("m7i.large", "z1"), Max: 1<<31 - 1, JoinTimeout: new(5 * time.Minute)},
		{InstanceType: "m7i.xlarge", Size: packing.Size{MilliCPU: 3920, MemoryBytes: 14 * gib}, MaxPods: 58, Labels: labels("m7i.xlarge", "z1"), Max: 1<<31 - 1, JoinTimeout: new(5 * time.Minute)},
	}
	ignored := cmpopts.IgnoreFields(provider.Flavor{}, "Name", "Template")
	if diff := cmp.Diff(want, found.Flavors, ignored); diff != "" {
		t.Errorf("flavors (-want +got):\n%s", diff)
	}
	if len(s.writes) > 0 {
		t.Errorf("it writes %q", s.writes)
	}
	s.spec.Templates[0].FailureDomains, s.spec.Templates[0].InstanceTypes = []string{"z2", "z3"}, []string{"m7i.large"}
	_, found = s.observe()
	var zones, names []string
	for _, f := range found.Flavors {
		zones, names = append(zones, f.Labels[corev1.LabelTopologyZone]), append(names, f.Name)
	}
	if slices.Sort(zones); !slices.Equal(zones, []string{"z2", "z3"}) || len(slices.Compact(names)) != 2 {
		t.Errorf("flavors %q in zones %q", names, zones)
	}
}

// TestAFlavorIsTheSameBeforeItsMachineDeploymentIsMadeAndAfter so that what is learned about it stays valid.
func TestAFlavorIsTheSameBeforeItsMachineDeploymentIsMadeAndAfter(t *testing.T) {
	s := newCatalogueScene(t)
	_, before := s.observe()
	s.buy(s.named("m7i.large"), 0, 2)
	_, after := s.observe()
	for i := range after.Flavors {
		if after.Flavors[i].InstanceType == "m7i.large" {
			if after.Flavors[i].Want != 2 {
				t.Errorf("there are to be %d machines, want 2", after.Flavors[i].Want)
			}
			after.Flavors[i].Want = 0
		}
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	s.types[1].MaxPods = new(int64(20))
	_, after = s.observe()
	if after.Flavors[0].MaxPods != 20 {
		t.Errorf("the catalogue has changed, and a machine still takes %d pods", after.Flavors[0].MaxPods)
	}
}

// TestAPriceIsThatOfTheInstanceTypeWhateverANodeIsCalled has a node with another instance type name than the catalogue,
// and with less allocatable.
func TestAPriceIsThatOfTheInstanceTypeWhateverANodeIsCalled(t *testing.T) {
	s := newCatalogueScene(t)
	name := s.named("m7i.large")
	s.buy(name, 0, 1)
	node := readyNode("n", capacity("cpu", "1500m", "memory", "6Gi"))
	node.Labels = map[string]string{corev1.LabelInstanceTypeStable: "other"}
	s.nodes = map[string]*corev1.Node{"n": node}
	testapi.Create(t, s, capiMachine("a", on("n"), func(m *clusterv1.Machine) { m.Labels[clusterv1.MachineDeploymentNameLabel] = name }))
	_, found := s.observe()
	at := slices.IndexFunc(found.Flavors, func(f provider.Flavor) bool { return f.Name == name })
	if f := found.Flavors[at]; f.InstanceType != "m7i.large" || f.Size.MilliCPU != 1500 || !f.Seen {
		t.Errorf("the flavor is %+v", f)
	}
}

func TestTheFirstPurchaseMakesWhatItNeeds(t *testing.T) {
	s := newCatalogueScene(t)
	name := s.named("m7i.xlarge")
	s.buy(name, 0, 3)
	s.checkMade("after a purchase", name+": 3", name+" of m7i.xlarge")
	d := &clusterv1.MachineDeployment{}
	testapi.Get(t, s, client.ObjectKey{Namespace: "machines", Name: name}, d)
	want := toCopy().Spec
	want.Replicas = new(int32(3))
	want.Selector.MatchLabels[clusterv1.MachineDeploymentNameLabel], want.Template.Labels[clusterv1.MachineDeploymentNameLabel] = name, name
	want.Template.Spec.InfrastructureRef.Name = name
	if diff := cmp.Diff(want, d.Spec); diff != "" {
		t.Errorf("spec of the MachineDeployment (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"team": "a", v1alpha1.LabelFleet: "f", clusterv1.ClusterNameLabel: "c"}, d.Labels); diff != "" {
		t.Errorf("its labels (-want +got):\n%s", diff)
	}
	if d.Annotations[annotationCPU] != "3920m" || d.Annotations[clusterv1.AutoscalerMinSizeAnnotation] != "" || len(d.Annotations) != 5 {
		t.Errorf("its annotations are %v", d.Annotations)
	}
	s.buy(name, 3, 4)
	s.checkMade("after another", name+": 4", name+" of m7i.xlarge")
}

// TestWhereverAPurchaseIsInterruptedItIsDoneOnce has the process die before each write.
func TestWhereverAPurchaseIsInterruptedItIsDoneOnce(t *testing.T) {
	died := errors.New("the process died")
	for at := 0; ; at++ {
		s := newCatalogueScene(t)
		name := s.named("m7i.large")
		p, _ := s.observe()
		writes := 0
		s.before = func(string) error {
			if writes++; writes == at+1 {
				return died
			}
			return nil
		}
		err := p.Buy(t.Context(), "i", name, 0, 2)
		s.before = nil
		s.buy(name, 0, 2) // and again if it did not die
		s.checkMade(fmt.Sprintf("after dying before write %d", at), name+": 2", name+" of m7i.large")
		if err == nil {
			if at != 3 { // the number of replicas, and the created objects
				t.Errorf("a purchase takes %d writes", at)
			}
			return
		}
		if !errors.Is(err, died) {
			t.Fatal(err)
		}
	}
}

func TestAPurchaseIsRefusedWhereSomebodyElseHasBought(t *testing.T) {
	s := newCatalogueScene(t)
	name := s.named("m7i.large")
	p, _ := s.observe()
	s.buy(name, 0, 1)
	if err := p.Buy(t.Context(), "i", name, 0, 2); !errors.Is(err, provider.ErrChanged) {
		t.Errorf("error %v, want ErrChanged", err)
	}
	s.checkMade("after both", name+": 1", name+" of m7i.large")
}

// setMade changes the MachineDeployment of a flavor like another client.
func (s *catalogueScene) setMade(name string, change func(*clusterv1.MachineDeployment)) {
	s.t.Helper()
	d := &clusterv1.MachineDeployment{}
	testapi.Get(s.t, s, client.ObjectKey{Namespace: "machines", Name: name}, d)
	change(d)
	testapi.Update(s.t, s, d)
}

func TestWhatIsNotUsedAnyMoreIsRemoved(t *testing.T) {
	s := newCatalogueScene(t)
	used, unused := s.named("m7i.xlarge"), s.named("m7i.large")
	s.buy(used, 0, 1)
	s.buy(unused, 0, 1)
	clean := func() {
		t.Helper()
		p, _ := s.observe()
		if err := p.Clean(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	machine := capiMachine("a", func(m *clusterv1.Machine) { m.Labels[clusterv1.MachineDeploymentNameLabel] = unused })
	testapi.Create(t, s, machine)
	s.setMade(unused, func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = new(int32(0)) })
	both := []string{unused + ": 0", used + ": 1", unused + " of m7i.large", used + " of m7i.xlarge"}
	s.clock.SetTime(start.Add(time.Hour))
	clean()
	s.checkMade("while its last machine leaves", both...)
	testapi.Delete(t, s, machine)

	s.clock.SetTime(start)
	orphan := infrastructureOf("AWSMachineTemplate", map[string]any{"instanceType": "x"})[1]
	orphan.SetName("orphan")
	orphan.SetLabels(map[string]string{v1alpha1.LabelFleet: "f"})
	orphan.SetCreationTimestamp(metav1.NewTime(start))
	testapi.Create(t, s, orphan)
	s.setMade(unused, func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = new(int32(1)) }) // it is kept for now
	clean()
	s.checkMade("while a template has just been made", unused+": 1", used+": 1", "orphan of x", unused+" of m7i.large", used+" of m7i.xlarge")
	s.clock.SetTime(start.Add(orphanAge))
	clean()
	s.setMade(unused, func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = new(int32(0)) })
	s.checkMade("once nobody is going to use it", both...)
	s.clock.SetTime(start.Add(time.Hour))

	buying := s.known.buying(client.ObjectKey{Namespace: "machines", Name: unused})
	buying.RLock()
	clean()
	s.checkMade("while it is being bought", both...)
	buying.RUnlock()

	p, _ := s.observe()
	s.setMade(unused, func(d *clusterv1.MachineDeployment) { d.Labels["changed"] = "yes" })
	if err := p.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.checkMade("after a change by somebody else", both...)

	clean()
	s.checkMade("once it has no machine", used+": 1", unused+" of m7i.large", used+" of m7i.xlarge")
	clean()
	s.checkMade("once it is gone", used+": 1", used+" of m7i.xlarge")
	s.buy(unused, 0, 1)
	s.checkMade("when it is bought again", unused+": 1", used+": 1", unused+" of m7i.large", used+" of m7i.xlarge")
}

func TestWhatWasMadeOfAnOlderTemplateContinuesUntilItIsEmpty(t *testing.T) {
	s := newCatalogueScene(t)
	old := s.named("m7i.large")
	s.buy(old, 0, 1)
	d := &clusterv1.MachineDeployment{}
	testapi.Get(t, s, client.ObjectKey{Namespace: "machines", Name: "workers"}, d)
	d.Spec.Template.Spec.Version = "v1.36.0"
	testapi.Update(t, s, d)
	renewed := s.named("m7i.large")
	if renewed == old {
		t.Fatal("machines of the new template are made by the old MachineDeployment")
	}
	_, found := s.observe()
	for _, f := range found.Flavors {
		if f.Name == old && (!strings.Contains(f.Problem, "have changed") || f.Want != 1 || f.Size.MilliCPU != 1930) {
			t.Errorf("the old one is %+v", f)
		}
	}
	s.buy(renewed, 0, 1)
	s.setMade(old, func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = new(int32(0)) })
	s.clock.SetTime(start.Add(time.Hour))
	for range 2 {
		p, _ := s.observe()
		if err := p.Clean(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.checkMade("once the old one is empty", renewed+": 1", renewed+" of m7i.large")
}

func TestScalingOrPausingTheTemplateItselfChangesNothing(t *testing.T) {
	s := newCatalogueScene(t)
	before := s.named("m7i.large")
	d := &clusterv1.MachineDeployment{}
	testapi.Get(t, s, client.ObjectKey{Namespace: "machines", Name: "workers"}, d)
	d.Spec.Replicas, d.Spec.Paused = new(int32(5)), new(true)
	testapi.Update(t, s, d)
	if after := s.named("m7i.large"); after != before {
		t.Errorf("the flavor is %s now, not %s", after, before)
	}
}

func TestATemplateThatCannotBeUsedRefusesTheFleet(t *testing.T) {
	aws := infrastructureOf("AWSMachineTemplate", map[string]any{"instanceType": "t3.medium"})
	silent := infrastructureOf("AWSMachineTemplate", map[string]any{"ami": map[string]any{"id": "ami-1"}})
	number := infrastructureOf("AWSMachineTemplate", map[string]any{"instanceType": int64(3)})
	other, unknown := infrastructureOf("OtherMachineTemplate", map[string]any{"size": "large"}), toCopyOf("OtherMachineTemplate")
	host, docker := infrastructureOf("DockerMachineTemplate", map[string]any{"customImage": "kindest/node:v1.35.0"}), toCopyOf("DockerMachineTemplate")
	twice, openStack := infrastructureOf("OpenStackMachineTemplate", map[string]any{"flavor": "m1.small", "flavorID": "1"}), toCopyOf("OpenStackMachineTemplate")
	without := infrastructureOf("OpenStackMachineTemplate", map[string]any{"flavor": map[string]any{"id": "1"}})
	foreign := infrastructureOf("AWSMachineTemplate", map[string]any{"instanceType": "t3.medium"})
	foreign[0].SetLabels(map[string]string{"cluster.x-k8s.io/v1alpha4": "v1beta2"})
	for _, tc := range []struct {
		name         string
		objects      []client.Object
		change       func(*v1alpha1.MachineTemplate)
		reason, want string
	}{
		{"there is no MachineDeployment", aws, nil, "TemplateMissing", "MachineDeployment machines/workers does not exist"},
		{"there is no infrastructure template", []client.Object{aws[0], toCopy()}, nil, "TemplateMissing", "AWSMachineTemplate workers of MachineDeployment machines/workers cannot be read"},
		{"there is no such kind", []client.Object{toCopy()}, nil, "TemplateMissing", "AWSMachineTemplate workers"},
		{"its kind follows no contract", append(foreign, toCopy()), nil, "TemplateMissing", "has neither of the labels cluster.x-k8s.io/v1beta2 and cluster.x-k8s.io/v1beta1"},
		{"the field is not there", append(silent, toCopy()), nil, "InstanceTypeFieldMissing", "AWSMachineTemplate workers has no text in spec.template.spec.instanceType"},
		{"the field holds a number", append(number, toCopy()), nil, "InstanceTypeFieldMissing", "spec.template.spec.instanceType"},
		{"another field was said", append(aws, toCopy()), func(m *v1alpha1.MachineTemplate) { m.InstanceTypeField = "spec.template.spec.flavor" }, "InstanceTypeFieldMissing", "has no text in spec.template.spec.flavor"},
		{"the field lies below a text", append(aws, toCopy()), func(m *v1alpha1.MachineTemplate) { m.InstanceTypeField = "spec.template.spec.instanceType.name" }, "InstanceTypeFieldMissing", "instanceType.name"},
		{"nothing is known of the kind", append(other, unknown), nil, "InstanceTypeFieldUnknown", "is required for OtherMachineTemplate"},
		{"machines of the kind are all of one size", append(host, docker), nil, "InstanceTypeFieldUnknown", "specify MachineDeployments in spec.clusterAPI.names or selector"},
		{"another field takes precedence", append(twice, openStack), nil, "InstanceTypeFieldOverridden", "spec.template.spec.flavorID, which takes precedence over spec.template.spec.flavor"},
		{"none of the fields is there", append(without, openStack), nil, "InstanceTypeFieldMissing", "has no text in spec.template.spec.flavor or spec.template.spec.flavor.filter.name"},
		{"an instance type is unknown", append(aws, toCopy()), func(m *v1alpha1.MachineTemplate) { m.InstanceTypes = []string{"m7i.large", "m9x.*"} }, "InstanceTypesUnknown", "no instance type that matches m9x.*"},
		{"all are for another architecture", append(aws, toCopy()), func(m *v1alpha1.MachineTemplate) { m.Architecture = "s390x" }, "InstanceTypesUnknown", "no instance type of architecture s390x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newCatalogueScene(t, tc.objects...)
			if tc.change != nil {
				tc.change(&s.spec.Templates[0])
			}
			_, err := s.provider().Observe(t.Context())
			var refused *provider.Refused
			if !errors.As(err, &refused) || refused.Reason != tc.reason || !strings.Contains(refused.Message, tc.want) {
				t.Errorf("error %v, want the reason %s and %q", err, tc.reason, tc.want)
			}
			if len(s.writes) > 0 {
				t.Errorf("it writes %q", s.writes)
			}
		})
	}
}

func TestWhatHoldsTheInstanceTypeIsKnownOfWellKnownProviders(t *testing.T) {
	for _, tc := range []struct {
		kind     string
		is, want map[string]any
	}{
		{"AWSMachineTemplate", map[string]any{"instanceType": "x"}, map[string]any{"instanceType": "m7i.large"}},
		{"AzureMachineTemplate", map[string]any{"vmSize": "x"}, map[string]any{"vmSize": "m7i.large"}},
		{"GCPMachineTemplate", map[string]any{"instanceType": "x"}, map[string]any{"instanceType": "m7i.large"}},
		{"OpenStackMachineTemplate", map[string]any{"flavor": "x"}, map[string]any{"flavor": "m7i.large"}}, // up to v1beta1
		{
			"OpenStackMachineTemplate", map[string]any{"flavor": map[string]any{"filter": map[string]any{"name": "x"}}},
			map[string]any{"flavor": map[string]any{"filter": map[string]any{"name": "m7i.large"}}},
		},
		{ // which takes precedence, and the fleet names it
			"OpenStackMachineTemplate", map[string]any{"flavor": "y", "flavorID": "x"}, map[string]any{"flavor": "y", "flavorID": "m7i.large"},
		},
	} {
		s := newCatalogueScene(t, append(infrastructureOf(tc.kind, tc.is), toCopyOf(tc.kind))...)
		if tc.is["flavorID"] != nil {
			s.spec.Templates[0].InstanceTypeField = "spec.template.spec.flavorID"
		}
		name := s.named("m7i.large")
		s.buy(name, 0, 1)
		made := infrastructureOf(tc.kind, nil)[1].(*unstructured.Unstructured)
		testapi.Get(t, s, client.ObjectKey{Namespace: "machines", Name: name}, made)
		if got, _, _ := unstructured.NestedMap(made.Object, "spec", "template", "spec"); !cmp.Equal(tc.want, got) {
			t.Errorf("%s %v becomes %v, want %v", tc.kind, tc.is, got, tc.want)
		}
	}
}

// TestATemplateIsReadInTheVersionOfTheNewestContractThatItsKindFollows like cluster-api. Most providers follow only the
// contract v1beta1.
func TestATemplateIsReadInTheVersionOfTheNewestContractThatItsKindFollows(t *testing.T) {
	for _, tc := range []struct {
		labels map[string]string
		want   string
	}{
		{map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1"}, "v1beta1"},
		{map[string]string{"cluster.x-k8s.io/v1alpha4": "v1alpha4", "cluster.x-k8s.io/v1beta1": "v1beta1_v1beta2"}, "v1beta2"},
		{map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"}, "v1beta2"},
		{map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta3", "cluster.x-k8s.io/v1beta2": ""}, "v1beta3"},
		{map[string]string{"cluster.x-k8s.io/v1beta2": "v1beta10_v1beta9"}, "v1beta10"},
		{map[string]string{"cluster.x-k8s.io/v1beta2": "v1_v1beta2"}, "v1"},
	} {
		objects := infrastructureOf("AWSMachineTemplate", map[string]any{"instanceType": "x"})
		objects[0].SetLabels(tc.labels)
		objects[1].(*unstructured.Unstructured).SetAPIVersion(testGroup + "/" + tc.want)
		s := newCatalogueScene(t, append(objects, toCopy())...)
		p := s.provider()
		if _, err := p.Observe(t.Context()); err != nil {
			t.Errorf("%v: %v", tc.labels, err)
			continue
		}
		for _, o := range p.offered {
			if got := o.model.template.GetAPIVersion(); got != testGroup+"/"+tc.want {
				t.Errorf("%v: it is read as %s, want %s", tc.labels, got, tc.want)
			}
		}
	}
}

// TestCopiesDoNotBelongToTheTopologyOfACluster: its controller finds a cluster's MachineDeployments, and their
// machines, by these labels, and expects one for each name.
func TestCopiesDoNotBelongToTheTopologyOfACluster(t *testing.T) {
	topology := func(labels map[string]string) map[string]string {
		found := map[string]string{clusterv1.ClusterTopologyOwnedLabel: "", clusterv1.ClusterTopologyMachineDeploymentNameLabel: "md-0"}
		maps.Copy(found, labels)
		return found
	}
	objects, d := infrastructureOf("AWSMachineTemplate", map[string]any{"instanceType": "x"}), toCopy()
	objects[1].SetLabels(topology(map[string]string{"team": "a"}))
	d.Labels, d.Spec.Template.Labels = topology(d.Labels), topology(d.Spec.Template.Labels)
	d.Spec.Selector.MatchLabels = topology(nil)
	s := newCatalogueScene(t, append(objects, d)...)
	name := s.named("m7i.large")
	s.buy(name, 0, 1)
	made, template := &clusterv1.MachineDeployment{}, infrastructureOf("AWSMachineTemplate", nil)[1]
	for _, object := range []client.Object{made, template} {
		testapi.Get(t, s, client.ObjectKey{Namespace: "machines", Name: name}, object)
	}
	for what, labels := range map[string][2]map[string]string{
		"MachineDeployment": {made.Labels, {"team": "a", v1alpha1.LabelFleet: "f", clusterv1.ClusterNameLabel: "c"}},
		"Machines":          {made.Spec.Template.Labels, {clusterv1.MachineDeploymentNameLabel: name, "node.cluster.x-k8s.io/pool": "p"}},
		"template":          {template.GetLabels(), {"team": "a", v1alpha1.LabelFleet: "f", clusterv1.ClusterNameLabel: "c"}},
	} {
		if diff := cmp.Diff(labels[1], labels[0]); diff != "" {
			t.Errorf("labels of the %s (-want +got):\n%s", what, diff)
		}
	}
}

func TestPatternsChooseInstanceTypes(t *testing.T) {
	for _, tc := range []struct {
		name     string
		patterns []string
		arch     string
		want     []string
	}{
		{"none", nil, "", []string{"m7i.large", "m7i.xlarge"}},
		{"none, for another architecture", nil, "arm64", []string{"m7g.large"}},
		{"a name", []string{"m7i.xlarge"}, "", []string{"m7i.xlarge"}},
		{"a burstable one by its name", []string{"t3.large"}, "", []string{"t3.large"}},
		{"a pattern", []string{"*.large"}, "", []string{"m7i.large", "t3.large"}},
		{"all but some", []string{"!*.xlarge"}, "", []string{"m7i.large"}},
		{"some but others", []string{"m7i.*", "t3.*", "!*.xlarge"}, "", []string{"m7i.large", "t3.large"}},
		{"an exclusion counts wherever it stands", []string{"!*.xlarge", "m7i.*"}, "", []string{"m7i.large"}},
	} {
		chosen, err := chosenTypes(&v1alpha1.MachineTemplate{InstanceTypes: tc.patterns, Architecture: tc.arch}, someTypes())
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		var names []string
		for _, f := range chosen {
			names = append(names, f.Name)
		}
		if !slices.Equal(tc.want, names) {
			t.Errorf("%s: %q, want %q", tc.name, names, tc.want)
		}
	}
}

func TestNamesOfMachineDeploymentsAreShortAndUnlike(t *testing.T) {
	plain := regexp.MustCompile(`^workers-standard-d4s-v5-eu-1-[0-9a-f]{10}$`)
	seen := map[string]bool{}
	for _, deployment := range []string{"workers", strings.Repeat("w", 100)} {
		for _, of := range []string{"Standard_D4s_v5", "standard-d4s.v5", strings.Repeat("x", 63)} {
			for _, domain := range []string{"", "eu-1", strings.Repeat("z", 63)} {
				d := &clusterv1.MachineDeployment{}
				d.Name = deployment
				o := &offer{model: &model{deployment: d, digest: deployment}, of: &catalogue.Flavor{Flavor: cluster.Flavor{Name: of}}, domain: domain}
				name := o.nameOf()
				if faults := validation.IsDNS1123Label(name); len(faults) > 0 || len(name) > mostName || seen[name] {
					t.Errorf("%s, %s, %s: the name %q is not valid or not the only one: %v", deployment, of, domain, name, faults)
				}
				if deployment == "workers" && of == "Standard_D4s_v5" && domain == "eu-1" && !plain.MatchString(name) {
					t.Errorf("the name is %q", name)
				}
				seen[name] = true
			}
		}
	}
}
