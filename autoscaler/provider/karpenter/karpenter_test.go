package karpenter

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

var (
	start     = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	classKind = schema.GroupVersionKind{Group: "karpenter.kwok.sh", Version: "v1alpha1", Kind: "KWOKNodeClass"}
)

const prices = `name,cpu,memory_gib,price_per_hour,arch,max_pods,kind
arm.large,8,16,0.20,arm64,,
large,8,16,0.30,,58,
large@b,8,16,0.29,,,
large@b/spot,8,16,0.09,,,
large/spot,8,16,0.10,,,
small,2,4,0.10,,,
tiny,1,1,0.01,,,Burstable
`

// site is a fleet in a cluster with Karpenter, whose part the test plays.
type site struct {
	testing.TB
	client.WithWatch
	clock  *clocktesting.FakeClock
	claims *Claims
	mapper *meta.DefaultRESTMapper
	fleet  *v1alpha1.NodeFleet
	nodes  map[string]*corev1.Node
	// deleted are the UIDs that deletions require, by name.
	deleted map[string]types.UID
	// refuses returns an error for a request, as VERB NAME.
	refuses func(what string) error
	// pools are the NodePools, and refusesPools is the error of a list of them.
	pools        []unstructured.Unstructured
	refusesPools error
}

func newSite(t testing.TB) *site {
	s := &site{TB: t, clock: clocktesting.NewFakeClock(start), nodes: map[string]*corev1.Node{}, deleted: map[string]types.UID{}, refuses: func(string) error { return nil }}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s.mapper = meta.NewDefaultRESTMapper([]schema.GroupVersion{claimKind.GroupVersion(), classKind.GroupVersion()})
	for _, kind := range []schema.GroupVersionKind{claimKind, classKind} {
		scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
		scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind(kind.Kind+"List"), &unstructured.UnstructuredList{})
		s.mapper.Add(kind, meta.RESTScopeRoot)
	}
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(classKind)
	class.SetName("all")
	of := func(field func(*corev1.Event) string) client.IndexerFunc {
		return func(o client.Object) []string { return []string{field(o.(*corev1.Event))} }
	}
	s.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjects(class).
		WithIndex(&corev1.Event{}, "involvedObject.kind", of(func(e *corev1.Event) string { return e.InvolvedObject.Kind })).
		WithIndex(&corev1.Event{}, "reason", of(func(e *corev1.Event) string { return e.Reason })).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if err := s.refuses("create " + o.GetName()); err != nil {
					return err
				}
				o.SetCreationTimestamp(metav1.NewTime(s.clock.Now()))
				o.SetUID(types.UID("uid of " + o.GetName()))
				return c.Create(ctx, o, opts...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if err := s.refuses("delete " + o.GetName()); err != nil {
					return err
				}
				var options client.DeleteOptions
				if options.ApplyOptions(opts); options.Preconditions != nil && options.Preconditions.UID != nil {
					s.deleted[o.GetName()] = *options.Preconditions.UID
				}
				return c.Delete(ctx, o, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
				if err := s.refuses(fmt.Sprintf("list %T", l)); err != nil {
					return err
				}
				if all, is := l.(*unstructured.UnstructuredList); is && all.GetKind() == "NodePoolList" {
					all.Items = s.pools
					return s.refusesPools
				}
				return c.List(ctx, l, opts...)
			},
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if err := s.refuses("get " + key.Name); err != nil {
					return err
				}
				return c.Get(ctx, key, o, opts...)
			},
		}).Build()
	s.claims = &Claims{Live: s, Writer: s, Mapper: s.mapper, Clock: s.clock}
	s.fleet = &v1alpha1.NodeFleet{ObjectMeta: metav1.ObjectMeta{Name: "general", UID: "fleet"}, Spec: v1alpha1.NodeFleetSpec{
		Class: v1alpha1.FleetBatch, Karpenter: &v1alpha1.KarpenterNodes{
			NodeClassRef: v1alpha1.KarpenterNodeClass{Group: classKind.Group, Kind: classKind.Kind, Name: "all"}, ExpireAfter: "Never",
		},
	}}
	return s
}

// requires adds a requirement to the fleet.
func (s *site) requires(key string, operator corev1.NodeSelectorOperator, values ...string) {
	s.fleet.Spec.Karpenter.Requirements = append(s.fleet.Spec.Karpenter.Requirements, v1alpha1.KarpenterRequirement{Key: key, Operator: operator, Values: values})
}

// provider returns the provider for a round.
func (s *site) provider() *Provider {
	return s.claims.For(s.fleet, s.nodes, func(context.Context) ([]catalogue.Flavor, error) {
		return catalogue.ReadFlavors("prices.csv", strings.NewReader(prices))
	})
}

// observed returns a provider that has observed, and what it observed.
func (s *site) observed() (*Provider, *provider.Inventory) {
	s.Helper()
	p := s.provider()
	found, err := p.Observe(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return p, found
}

// buys makes an order in a new round.
func (s *site) buys(intent, flavor string, from, to int) {
	s.Helper()
	p, _ := s.observed()
	if err := p.Buy(s.Context(), intent, flavor, from, to); err != nil {
		s.Fatal(err)
	}
}

// names returns the names of the NodeClaims, in their order.
func (s *site) names() (names []string) {
	s.Helper()
	list := NewList()
	if err := s.List(s.Context(), list); err != nil {
		s.Fatal(err)
	}
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	return names
}

// set changes the fields of a NodeClaim, as Karpenter does.
func (s *site) set(name string, value any, fields ...string) {
	s.Helper()
	object := s.get(name)
	if err := unstructured.SetNestedField(object.Object, value, fields...); err != nil {
		s.Fatal(err)
	}
	if err := s.Update(s.Context(), object); err != nil {
		s.Fatal(err)
	}
}

func (s *site) get(name string) *unstructured.Unstructured {
	s.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(claimKind)
	if err := s.Get(s.Context(), types.NamespacedName{Name: name}, object); err != nil {
		s.Fatal(err)
	}
	return object
}

// condition sets the only conditions of a NodeClaim: true for these, and then one that is Unknown.
func (s *site) conditions(name string, isTrue []string, unknown, reason, message string) {
	s.Helper()
	var all []any
	at := start.Format(time.RFC3339)
	for _, kind := range isTrue {
		all = append(all, map[string]any{"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": at})
	}
	if unknown != "" {
		all = append(all, map[string]any{"type": unknown, "status": "Unknown", "reason": reason, "message": message, "lastTransitionTime": at})
	}
	s.set(name, all, "status", "conditions")
}

// vanishes removes a NodeClaim without its fleet.
func (s *site) vanishes(name string) {
	s.Helper()
	object := s.get(name)
	object.SetFinalizers(nil)
	if err := s.Update(s.Context(), object); err != nil {
		s.Fatal(err)
	}
	if err := s.Delete(s.Context(), object); client.IgnoreNotFound(err) != nil {
		s.Fatal(err)
	}
}

// leaves makes a NodeClaim one that is being deleted.
func (s *site) leaves(name string) {
	s.Helper()
	object := s.get(name)
	object.SetFinalizers([]string{"karpenter.sh/termination"})
	if err := s.Update(s.Context(), object); err != nil {
		s.Fatal(err)
	}
	if err := s.Delete(s.Context(), object); err != nil {
		s.Fatal(err)
	}
}

func flavorOf(t testing.TB, found *provider.Inventory, name string) provider.Flavor {
	t.Helper()
	for i := range found.Flavors {
		if found.Flavors[i].Name == name {
			return found.Flavors[i]
		}
	}
	t.Fatalf("no flavor %s among %d", name, len(found.Flavors))
	return provider.Flavor{}
}

func TestFlavorsAreInstanceTypesInZonesWithCapacityTypes(t *testing.T) {
	tests := []struct {
		name   string
		change func(*site)
		want   map[string]string // flavors with the rows that have their prices
	}{
		{"by default on demand, in any zone, for amd64, not burstable", func(*site) {}, map[string]string{"large": "large", "small": "small"}},
		{"each combination, priced by the most specific row", func(s *site) {
			s.fleet.Spec.Karpenter.InstanceTypes = []string{"large"}
			s.requires("topology.kubernetes.io/zone", "In", "a", "b")
			s.requires("karpenter.sh/capacity-type", "In", "on-demand", "spot")
		}, map[string]string{"large@a": "large", "large@b": "large@b", "large@a/spot": "large/spot", "large@b/spot": "large@b/spot"}},
		{"a spot machine without a price of its own has none", func(s *site) {
			s.fleet.Spec.Karpenter.InstanceTypes = []string{"small", "tiny"}
			s.requires("karpenter.sh/capacity-type", "In", "spot")
		}, map[string]string{"small/spot": "small/spot", "tiny/spot": "tiny/spot"}},
		{"of other architectures", func(s *site) { s.requires("kubernetes.io/arch", "In", "arm64") }, map[string]string{"arm.large": "arm.large"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t)
			tc.change(s)
			_, found := s.observed()
			got := map[string]string{}
			for i := range found.Flavors {
				got[found.Flavors[i].Name] = found.Flavors[i].PricedAs
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("flavors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInstanceTypesThatThePricingLacksAreRefused(t *testing.T) {
	for says, change := range map[string]func(*site){
		"no instance type that matches huge*":        func(s *site) { s.fleet.Spec.Karpenter.InstanceTypes = []string{"huge*"} },
		"no instance type of architecture riscv64":   func(s *site) { s.requires("kubernetes.io/arch", "In", "riscv64") },
		"no instance type of architecture amd64":     func(s *site) { s.fleet.Spec.Karpenter.InstanceTypes = []string{"arm.*"} },
		"no instance type of architecture s390x or ": func(s *site) { s.requires("kubernetes.io/arch", "In", "s390x", "ppc64le") },
	} {
		s := newSite(t)
		change(s)
		_, err := s.provider().Observe(t.Context())
		if refused := (*provider.Refused)(nil); !errors.As(err, &refused) || refused.Reason != "InstanceTypesUnknown" || !strings.Contains(refused.Message, says) {
			t.Errorf("%v; want it to be refused with %q", err, says)
		}
	}
}

func TestANodeClaimHasWhatTheFleetSpecifies(t *testing.T) {
	s := newSite(t)
	taint := corev1.Taint{Key: "batch", Value: "yes", Effect: corev1.TaintEffectNoSchedule}
	k := s.fleet.Spec.Karpenter
	k.Labels, k.Taints = map[string]string{"team": "physics"}, []corev1.Taint{taint}
	k.StartupTaints = []corev1.Taint{{Key: "cni", Effect: corev1.TaintEffectNoExecute}}
	k.ExpireAfter, k.TerminationGracePeriod = "24h", &metav1.Duration{Duration: time.Hour}
	s.requires("topology.kubernetes.io/zone", "In", "a", "b")
	s.requires("karpenter.sh/capacity-type", "In", "on-demand", "spot")
	s.requires("example.com/generation", "Gt", "4")
	s.buys("order", "large@b/spot", 0, 1)

	names := s.names()
	if len(names) != 1 {
		t.Fatalf("NodeClaims %q, want one", names)
	}
	got := s.get(names[0])
	in := func(key, value string) any {
		return map[string]any{"key": key, "operator": "In", "values": []any{value}}
	}
	want := map[string]any{
		"nodeClassRef": map[string]any{"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "all"},
		"requirements": []any{
			in("node.kubernetes.io/instance-type", "large"), in("topology.kubernetes.io/zone", "b"), in("karpenter.sh/capacity-type", "spot"),
			in("kubernetes.io/arch", "amd64"), in("kubernetes.io/os", "linux"),
			map[string]any{"key": "example.com/generation", "operator": "Gt", "values": []any{"4"}},
		},
		"taints":        []any{map[string]any{"key": "batch", "value": "yes", "effect": "NoSchedule"}},
		"startupTaints": []any{map[string]any{"key": "cni", "effect": "NoExecute"}},
		"expireAfter":   "24h", "terminationGracePeriod": "1h0m0s",
	}
	if diff := cmp.Diff(want, got.Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"supercargo.dev/fleet": "general", "supercargo.dev/class": "batch", "team": "physics"}, got.GetLabels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	_, found := s.observed()
	if f := flavorOf(t, found, "large@b/spot"); f.Want != 1 || found.Machines[0].Flavor != f.Name || found.Machines[0].Outdated {
		t.Errorf("flavor wants %d, machine %+v; want one current machine of it", f.Want, found.Machines[0])
	}
}

func TestAnOrderIsContinuedAfterACrash(t *testing.T) {
	s := newSite(t)
	created := 0
	s.refuses = func(what string) error {
		if strings.HasPrefix(what, "create ") {
			if created++; created > 2 {
				return errors.New("the process dies")
			}
		}
		return nil
	}
	p, _ := s.observed()
	if err := p.Buy(t.Context(), "order", "small", 0, 5); err == nil {
		t.Fatal("the order succeeded")
	}
	s.refuses = func(string) error { return nil }
	s.claims.fleets = nil // the next process knows nothing
	p, _ = s.observed()
	for range 2 {
		if err := p.Buy(t.Context(), "order", "small", 0, 5); err != nil {
			t.Fatal(err)
		}
	}
	if names := s.names(); len(names) != 5 {
		t.Errorf("NodeClaims %q, want 5", names)
	}
}

func TestOrdersOfAnotherNumberAreRefused(t *testing.T) {
	s := newSite(t)
	s.buys("first", "small", 0, 2)
	p, _ := s.observed()
	for what, err := range map[string]error{
		"buy from 1":                p.Buy(t.Context(), "second", "small", 1, 3),
		"buy from 3":                p.Buy(t.Context(), "second", "small", 3, 4),
		"release of 1 of 3":         p.Release(t.Context(), "second", "small", 3, s.names()[:1]),
		"release of an unknown one": p.Release(t.Context(), "second", "small", 2, []string{"other"}),
		"buy what is not offered":   p.Buy(t.Context(), "second", "huge", 0, 1),
	} {
		if !errors.Is(err, provider.ErrChanged) {
			t.Errorf("%s: %v; want ErrChanged", what, err)
		}
	}
	if names := s.names(); len(names) != 2 {
		t.Errorf("NodeClaims %q, want 2", names)
	}
}

func TestANodeClaimThatKarpenterGivesUpIsAFailedMachine(t *testing.T) {
	const message = "no capacity of small in a"
	about := func(name string) *corev1.Event {
		return &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: "event"},
			InvolvedObject: corev1.ObjectReference{Kind: "NodeClaim", Name: name}, Reason: "InsufficientCapacityError", Message: "NodeClaim " + name + " event: " + message,
		}
	}
	tests := []struct {
		name string
		away func(s *site, name string)
		says string
	}{
		{"at once, with an Event", func(s *site, name string) {
			if err := s.Create(s.Context(), about(name)); err != nil {
				s.Fatal(err)
			}
			s.vanishes(name)
		}, "InsufficientCapacityError: " + message},
		{"at once, with an Event about another one", func(s *site, name string) {
			if err := s.Create(s.Context(), about("other")); err != nil {
				s.Fatal(err)
			}
			s.vanishes(name)
		}, "was deleted before its node registered: Karpenter does this"},
		{"at once, without an Event", func(s *site, name string) { s.vanishes(name) }, "was deleted before its node registered: Karpenter does this"},
		{"at once, because the NodeClass is not ready", func(s *site, name string) {
			s.setClass("False", "no subnet matches")
			s.vanishes(name)
		}, "was deleted before its node registered: KWOKNodeClass all is not ready: no subnet matches"},
		{"at once, with an Event although the NodeClass is not ready", func(s *site, name string) {
			if err := s.Create(s.Context(), about(name)); err != nil {
				s.Fatal(err)
			}
			s.setClass("False", "no subnet matches")
			s.vanishes(name)
		}, "InsufficientCapacityError: " + message},
		{"at once, and Events may not be read", func(s *site, name string) {
			s.refuses = func(what string) error {
				if strings.Contains(what, "EventList") {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", nil)
				}
				return nil
			}
			s.vanishes(name)
		}, "was deleted before its node registered"},
		{"while its finalizer runs", func(s *site, name string) {
			s.observed()
			s.leaves(name)
		}, "was deleted before its node registered"},
		{"after it failed to launch for long", func(s *site, name string) {
			s.conditions(name, nil, "Launched", "LaunchFailed", "unknown subnet")
			s.observed()
			s.vanishes(name)
		}, "is not Launched: unknown subnet"},
		{"after its node did not register", func(s *site, name string) {
			s.conditions(name, []string{"Launched"}, "Registered", "NodeNotFound", "Node not registered with cluster")
			s.observed()
			s.vanishes(name)
		}, "is not Registered: Node not registered with cluster"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t)
			s.buys("order", "small", 0, 1)
			name := s.names()[0]
			tc.away(s, name)
			p, found := s.observed()
			if len(found.Machines) != 1 || found.Machines[0].Leaving || !strings.Contains(found.Machines[0].Failed, tc.says) {
				t.Fatalf("machines %+v; want one that failed with %q", found.Machines, tc.says)
			}
			if f := flavorOf(t, found, "small"); f.Want != 1 {
				t.Errorf("the flavor wants %d, with the failed machine 1", f.Want)
			}
			if err := p.Buy(t.Context(), "order", "small", 0, 1); err != nil {
				t.Errorf("the same order again: %v", err)
			}
			if err := p.Release(t.Context(), "give up", "small", 1, []string{name}); err != nil {
				t.Fatal(err)
			}
			_, found = s.observed()
			if f := flavorOf(t, found, "small"); f.Want != 0 {
				t.Errorf("the flavor wants %d after the release, want 0", f.Want)
			}
			s.buys("next", "small", 0, 1)
			_, found = s.observed()
			if f := flavorOf(t, found, "small"); f.Want != 1 {
				t.Errorf("the flavor wants %d after the next order, want 1", f.Want)
			}
		})
	}
}

func TestANodeClaimThatTheFleetReleasesIsNoFailure(t *testing.T) {
	s := newSite(t)
	s.buys("order", "small", 0, 1)
	name := s.names()[0]
	object := s.get(name)
	object.SetFinalizers([]string{"karpenter.sh/termination"})
	if err := s.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	p, _ := s.observed()
	if err := p.Release(t.Context(), "give up", "small", 1, []string{name}); err != nil {
		t.Fatal(err)
	}
	_, found := s.observed()
	if len(found.Machines) != 1 || !found.Machines[0].Leaving || found.Machines[0].Failed != "" || flavorOf(t, found, "small").Want != 0 {
		t.Errorf("machines %+v, flavor wants %d; want one machine that is leaving and does not count", found.Machines, flavorOf(t, found, "small").Want)
	}
	s.vanishes(name)
	if _, found = s.observed(); len(found.Machines) != 0 {
		t.Errorf("machines %+v; want none", found.Machines)
	}
}

func TestANewProcessDoesNotCountWhatIsLeaving(t *testing.T) {
	s := newSite(t)
	s.buys("order", "small", 0, 1)
	s.leaves(s.names()[0])
	s.claims.fleets = nil
	if _, found := s.observed(); len(found.Machines) != 1 || !found.Machines[0].Leaving {
		t.Errorf("machines %+v; want one that is leaving", found.Machines)
	}
}

func TestADeletionThatFailsIsRepeated(t *testing.T) {
	s := newSite(t)
	s.buys("order", "small", 0, 1)
	name := s.names()[0]
	s.refuses = func(what string) error {
		if what == "delete "+name {
			return apierrors.NewInternalError(errors.New("no leader"))
		}
		return nil
	}
	p, _ := s.observed()
	if err := p.Release(t.Context(), "give up", "small", 1, []string{name}); err == nil {
		t.Fatal("the release succeeded")
	}
	s.refuses = func(string) error { return nil }
	p, found := s.observed()
	if flavorOf(t, found, "small").Want != 1 {
		t.Fatalf("machines %+v; want one that stays", found.Machines)
	}
	if err := p.Release(t.Context(), "give up", "small", 1, []string{name}); err != nil {
		t.Fatal(err)
	}
	if names := s.names(); len(names) != 0 {
		t.Errorf("NodeClaims %q, want none", names)
	}
	if uid := s.deleted[name]; uid != types.UID("uid of "+name) {
		t.Errorf("the deletion is of any NodeClaim with UID %q", uid)
	}
}

func TestANodeClaimWhoseDeletionFailsMayStillBeLost(t *testing.T) {
	s := newSite(t)
	s.buys("order", "small", 0, 1)
	name := s.names()[0]
	s.refuses = func(what string) error {
		if what == "delete "+name {
			return apierrors.NewInternalError(errors.New("no leader"))
		}
		return nil
	}
	p, _ := s.observed()
	if err := p.Release(t.Context(), "give up", "small", 1, []string{name}); err == nil {
		t.Fatal("the release succeeded")
	}
	s.refuses = func(string) error { return nil }
	s.observed()
	s.vanishes(name)
	if _, found := s.observed(); len(found.Machines) != 1 || found.Machines[0].Failed == "" {
		t.Errorf("machines %+v; want one that failed", found.Machines)
	}
}

// TestAReleaseOutlivesAnOlderList lists the NodeClaims while one of them is being deleted.
func TestAReleaseOutlivesAnOlderList(t *testing.T) {
	m := newMemory()
	c := claim{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	m.observe([]claim{c}, m.begin(), start)
	began := m.begin()
	if m.release("one") {
		t.Error("it was lost before the release")
	}
	m.observe([]claim{c}, began, start)
	c.DeletionTimestamp = new(metav1.NewTime(start))
	m.observe([]claim{c}, m.begin(), start)
	m.observe(nil, m.begin(), start)
	if lost := m.losses(); len(lost) > 0 {
		t.Errorf("lost %v, want none", lost)
	}
}

func TestAnOrderCountsWhatKarpenterDeletesMeanwhile(t *testing.T) {
	for name, away := range map[string]func(s *site, name string){"vanished": (*site).vanishes, "leaving": (*site).leaves} {
		s := newSite(t)
		s.buys("first", "small", 0, 2)
		s.buys("other", "large", 0, 1)
		p, _ := s.observed()
		for _, claim := range s.names() {
			away(s, claim)
		}
		if err := p.Buy(t.Context(), "second", "small", 2, 3); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, found := s.observed(); flavorOf(t, found, "small").Want != 3 || flavorOf(t, found, "large").Want != 1 {
			t.Errorf("%s: the flavors want %d and %d machines, want 3 and 1", name, flavorOf(t, found, "small").Want, flavorOf(t, found, "large").Want)
		}
	}
}

func TestANodeClaimThatExistsIsNotCreatedAgain(t *testing.T) {
	s := newSite(t)
	p, _ := s.observed()
	s.refuses = func(what string) error {
		if strings.HasPrefix(what, "create ") {
			return apierrors.NewAlreadyExists(schema.GroupResource{}, "x")
		}
		return nil
	}
	if err := p.Buy(t.Context(), "order", "small", 0, 1); err != nil {
		t.Error(err)
	}
}

func TestARegisteredNodeClaimThatDisappearsIsNoFailure(t *testing.T) {
	s := newSite(t)
	s.buys("order", "small", 0, 2)
	names := s.names()
	for _, name := range names {
		s.conditions(name, []string{"Launched", "Registered", "Initialized"}, "", "", "")
	}
	s.observed()
	s.vanishes(names[0])
	s.leaves(names[1])
	_, found := s.observed()
	if len(found.Machines) != 1 || !found.Machines[0].Leaving || flavorOf(t, found, "small").Want != 0 {
		t.Errorf("machines %+v; want only one that is leaving", found.Machines)
	}
}

func TestAFailedMachineIsForgottenIfTheFleetMayNotReleaseIt(t *testing.T) {
	s := newSite(t)
	s.buys("order", "small", 0, 1)
	s.vanishes(s.names()[0])
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {9 * time.Minute, 1}, {time.Minute, 0}} {
		s.clock.Step(step.after)
		if _, found := s.observed(); flavorOf(t, found, "small").Want != step.want {
			t.Errorf("after %v more, the flavor wants %d machines; want %d", step.after, flavorOf(t, found, "small").Want, step.want)
		}
	}
}

// TestAnOlderListProvesNoAbsence orders a machine while the NodeClaims are being listed.
func TestAnOlderListProvesNoAbsence(t *testing.T) {
	m := newMemory()
	began := m.begin()
	m.expect("new", "small", start)
	if m.observe(nil, began, start); len(m.losses()) != 0 {
		t.Errorf("lost %v by a list from before the order", m.losses())
	}
	if m.observe(nil, m.begin(), start); len(m.losses()) != 1 {
		t.Errorf("lost %v by a list from after the order, want one", m.losses())
	}
}

// Karpenter is down, or does not know the kind of the NodeClass: to buy other flavors would not help, and the machine's
// time to start has not begun.
func TestAFleetWaitsUntilKarpenterProcessesItsNodeClaims(t *testing.T) {
	s := newSite(t)
	s.buys("order", "small", 0, 1)
	name := s.names()[0]
	s.clock.Step(uptakePatience - time.Second)
	s.observed()
	s.clock.Step(time.Second)
	_, err := s.provider().Observe(t.Context())
	refused := (*provider.Refused)(nil)
	if !errors.As(err, &refused) || refused.Reason != "ProviderUnreachable" || !strings.Contains(refused.Message, "check that it runs") {
		t.Fatalf("%v; want it to wait for Karpenter", err)
	}
	s.clock.Step(time.Hour)
	s.set(name, []any{map[string]any{"type": "Launched", "status": "Unknown", "reason": "AwaitingReconciliation", "message": "", "lastTransitionTime": start.Format(time.RFC3339)}}, "status", "conditions")
	s.observed()
	s.clock.Step(time.Minute)
	if _, found := s.observed(); !found.Machines[0].Ordered.Equal(s.clock.Now().Add(-time.Minute)) {
		t.Errorf("ordered %v; want a minute before %v, when Karpenter began with it", found.Machines[0].Ordered, s.clock.Now())
	}
	s.fleet.Spec.Karpenter.NodeClassRef.Name = "corrected"
	s.set(name, []any{}, "status", "conditions")
	s.observed() // a NodeClaim of the former NodeClass holds up nothing
}

func TestAMachineThatCannotLaunchFailsAfterAMinute(t *testing.T) {
	s := newSite(t)
	s.buys("order", "small", 0, 1)
	name := s.names()[0]
	failed := func() string {
		_, found := s.observed()
		return found.Machines[0].Failed
	}
	s.conditions(name, nil, "Launched", "AwaitingReconciliation", "object is awaiting reconciliation")
	s.clock.Step(2 * time.Minute)
	if why := failed(); why != "" {
		t.Errorf("it failed before Karpenter has tried: %s", why)
	}
	s.conditions(name, nil, "Launched", "LaunchFailed", "instance type not found")
	if why := failed(); !strings.Contains(why, "instance type not found") {
		t.Errorf("it failed with %q", why)
	}
	s.clock.SetTime(start.Add(30 * time.Second))
	if why := failed(); why != "" {
		t.Errorf("it failed after 30 s: %s", why)
	}
	s.clock.SetTime(start.Add(2 * time.Minute))
	s.conditions(name, []string{"Launched"}, "Registered", "NodeNotFound", "Node not registered with cluster")
	if why := failed(); why != "" {
		t.Errorf("a launched machine failed: %s", why)
	}
}

func TestMachinesAreAsLargeAsKarpenterAndThenTheNodeSay(t *testing.T) {
	s := newSite(t)
	s.fleet.Spec.Karpenter.StartupTaints = []corev1.Taint{{Key: "cni", Effect: corev1.TaintEffectNoExecute}}
	_, found := s.observed()
	if f := flavorOf(t, found, "large"); f.Size.MilliCPU != 8000 || f.MaxPods != 58 || f.Seen {
		t.Errorf("without machines: %+v; want the size in the pricing", f)
	}
	s.buys("order", "large", 0, 1)
	name := s.names()[0]
	s.set(name, map[string]any{"cpu": "7900m", "memory": "15Gi", "pods": "50"}, "status", "allocatable")
	s.set(name, map[string]any{"supercargo.dev/fleet": "general", "supercargo.dev/class": "batch", "cloud.example.com/generation": "7"}, "metadata", "labels")
	s.set(name, "cloud://1", "status", "providerID")
	_, found = s.observed()
	f := flavorOf(t, found, "large")
	if f.Size.MilliCPU != 7900 || f.MaxPods != 50 || f.Seen || f.Labels["cloud.example.com/generation"] != "7" {
		t.Errorf("with a launched machine: %+v; want the size and labels of the NodeClaim", f)
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{"kubernetes.io/hostname": "node", "disk": "ssd"}},
		Spec:       corev1.NodeSpec{ProviderID: "cloud://1", Taints: []corev1.Taint{{Key: "cni", Effect: corev1.TaintEffectNoExecute}}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("7800m"), "memory": resource.MustParse("14Gi"), "pods": resource.MustParse("40")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	s.nodes["node"] = node
	_, found = s.observed()
	if f = flavorOf(t, found, "large"); f.Seen || f.Size.MilliCPU != 7900 || found.Machines[0].Node != "node" {
		t.Errorf("with a node that is starting: %+v, machine %+v; want the size of the NodeClaim", f, found.Machines[0])
	}
	node.Spec.Taints = nil
	_, found = s.observed()
	if f = flavorOf(t, found, "large"); !f.Seen || f.Size.MilliCPU != 7800 || f.MaxPods != 40 || f.Labels["disk"] != "ssd" || f.Labels["kubernetes.io/hostname"] != "" {
		t.Errorf("with a node: %+v; want its size and labels, without the hostname", f)
	}
}

func TestMachinesOfAnOlderSpecAreOutdated(t *testing.T) {
	s := newSite(t)
	s.buys("order", "large", 0, 1)
	s.set(s.names()[0], map[string]any{"cpu": "7", "memory": "15Gi"}, "status", "allocatable")
	_, before := s.observed()
	s.fleet.Spec.Karpenter.Taints = []corev1.Taint{{Key: "new", Effect: corev1.TaintEffectNoSchedule}}
	_, after := s.observed()
	if before.Machines[0].Outdated || !after.Machines[0].Outdated {
		t.Errorf("outdated before %v, after %v; want false and true", before.Machines[0].Outdated, after.Machines[0].Outdated)
	}
	b, a := flavorOf(t, before, "large"), flavorOf(t, after, "large")
	if a.Template == b.Template || a.Size.MilliCPU != 8000 || a.Want != 1 {
		t.Errorf("flavor %+v; want another template, and the size in the pricing", a)
	}
	s.fleet.Spec.Karpenter.Taints, s.fleet.Spec.Karpenter.Labels = nil, map[string]string{"team": "physics"}
	if _, after = s.observed(); !after.Machines[0].Outdated {
		t.Error("a machine without a new label is not outdated")
	}
	s.fleet.Spec.Karpenter.InstanceTypes = []string{"small"}
	_, after = s.observed()
	if f := flavorOf(t, after, "large"); f.Problem == "" || f.Want != 1 || f.Max != 1 {
		t.Errorf("flavor %+v; want its machine to stay, and none to be bought", f)
	}
}

func TestTheNodeClassMustBeReady(t *testing.T) {
	tests := []struct {
		name   string
		change func(*site)
		says   string
	}{
		{"it says nothing", func(*site) {}, ""},
		{"it is missing", func(s *site) { s.fleet.Spec.Karpenter.NodeClassRef.Name = "none" }, "KWOKNodeClass none does not exist"},
		{"its kind is missing", func(s *site) { s.fleet.Spec.Karpenter.NodeClassRef.Kind = "EC2NodeClass" }, "the cluster has no kind EC2NodeClass of group karpenter.kwok.sh"},
		{"it may not be read", func(s *site) {
			s.refuses = func(what string) error {
				if what == "get all" {
					return apierrors.NewForbidden(schema.GroupResource{}, "all", nil)
				}
				return nil
			}
		}, ""},
		{"it is not ready", func(s *site) { s.setClass("False", "no subnet matches") }, "KWOKNodeClass all is not ready: no subnet matches"},
		{"it is not known to be ready", func(s *site) { s.setClass("Unknown", "object is awaiting reconciliation") }, ""},
		{"it is ready", func(s *site) { s.setClass("True", "") }, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t)
			tc.change(s)
			_, found := s.observed()
			f := flavorOf(t, found, "small")
			if (f.Problem == "") != (tc.says == "") || !strings.Contains(f.Problem, tc.says) || f.Named != (tc.says != "") {
				t.Errorf("problem %q, named %v; want %q", f.Problem, f.Named, tc.says)
			}
		})
	}
}

// The kind of the NodeClass and NodeClaims are served in other versions than when the autoscaler started.
func TestWhatIsServedIsDiscoveredAgainAfterAnUpgrade(t *testing.T) {
	s := newSite(t)
	later := classKind.GroupKind().WithVersion("v1")
	s.Scheme().AddKnownTypeWithName(later, &unstructured.Unstructured{})
	class := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "Ready", "status": "False", "reason": "Subnets", "message": "no subnet matches", "lastTransitionTime": start.Format(time.RFC3339)},
	}}}}
	class.SetGroupVersionKind(later)
	class.SetName("upgraded")
	if err := s.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	s.fleet.Spec.Karpenter.NodeClassRef.Name = "upgraded"
	discoveries := 0
	serves := []schema.GroupVersionKind{later, claimKind.GroupKind().WithVersion("v2")}
	s.claims.Rediscover = func() (meta.RESTMapper, error) {
		discoveries++
		found := meta.NewDefaultRESTMapper([]schema.GroupVersion{serves[0].GroupVersion(), serves[1].GroupVersion()})
		for _, kind := range serves {
			found.Add(kind, meta.RESTScopeRoot)
		}
		return found, nil
	}
	for range 2 { // the second round knows
		if _, found := s.observed(); !strings.Contains(found.Flavors[0].Problem, "is not ready: no subnet matches") {
			t.Errorf("the flavor is %+v, want the NodeClass to be read in its new version", found.Flavors[0])
		}
	}
	if discoveries != 1 {
		t.Errorf("%d discoveries, want one", discoveries)
	}
	s.refuses = func(what string) error {
		if strings.Contains(what, "UnstructuredList") {
			return apierrors.NewNotFound(schema.GroupResource{}, "")
		}
		return nil
	}
	const says = "serves NodeClaims as karpenter.sh/v2, but not as karpenter.sh/v1"
	if _, err := s.provider().Observe(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("NodeClaims are served in a later version: %v; want %q", err, says)
	}
	serves[1] = claimKind // what was discovered is older than the answer to the list
	if _, err := s.provider().Observe(t.Context()); err == nil || !strings.Contains(err.Error(), "does not serve NodeClaims of karpenter.sh/v1: install") {
		t.Errorf("NodeClaims are not served: %v", err)
	}
	s.claims.Rediscover = func() (meta.RESTMapper, error) { return nil, errors.New("no answer") }
	if _, err := s.provider().Observe(t.Context()); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("a discovery that fails: %v", err)
	}
}

// setClass sets the condition Ready of the NodeClass.
func (s *site) setClass(status, message string) {
	s.Helper()
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(classKind)
	if err := s.Get(s.Context(), types.NamespacedName{Name: "all"}, class); err != nil {
		s.Fatal(err)
	}
	ready := map[string]any{"type": "Ready", "status": status, "reason": "Ready", "message": message, "lastTransitionTime": start.Format(time.RFC3339)}
	if err := unstructured.SetNestedSlice(class.Object, []any{ready}, "status", "conditions"); err != nil {
		s.Fatal(err)
	}
	if err := s.Update(s.Context(), class); err != nil {
		s.Fatal(err)
	}
}

func TestKarpenterMustServeNodeClaims(t *testing.T) {
	noMatch := &meta.NoKindMatchError{GroupKind: claimKind.GroupKind(), SearchedVersions: []string{"v1"}}
	tests := []struct {
		name         string
		err          error
		serves       string
		reason, says string
	}{
		{"not installed", noMatch, "", "NodeClaimsNotServed", "does not serve NodeClaims of karpenter.sh/v1: install Karpenter 1.0 or later"},
		{"an older version", noMatch, "v1beta1", "NodeClaimsNotServed", "serves NodeClaims as karpenter.sh/v1beta1, but not as karpenter.sh/v1"},
		{"uninstalled meanwhile", apierrors.NewNotFound(schema.GroupResource{}, ""), "", "NodeClaimsNotServed", "install Karpenter"},
		{"no permission", apierrors.NewForbidden(schema.GroupResource{}, "", nil), "", "Forbidden", "autoscaler.karpenter.enabled"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t)
			s.refuses = func(what string) error {
				if strings.Contains(what, "UnstructuredList") {
					return tc.err
				}
				return nil
			}
			mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: claimKind.Group, Version: "v1beta1"}})
			if tc.serves != "" {
				mapper.Add(schema.GroupVersionKind{Group: claimKind.Group, Version: tc.serves, Kind: claimKind.Kind}, meta.RESTScopeRoot)
			}
			s.claims.Mapper = mapper
			_, err := s.provider().Observe(t.Context())
			if refused := (*provider.Refused)(nil); !errors.As(err, &refused) || refused.Reason != tc.reason || !strings.Contains(refused.Message, tc.says) {
				t.Errorf("%v; want it to be refused for %s with %q", err, tc.reason, tc.says)
			}
		})
	}
}

func TestOtherNodeClaimsAreNotTheFleets(t *testing.T) {
	s := newSite(t)
	for name, labels := range map[string]map[string]string{
		"pool":  {"supercargo.dev/fleet": "general"},
		"other": {"supercargo.dev/fleet": "other"},
		"none":  nil,
	} {
		object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
		object.SetGroupVersionKind(claimKind)
		object.SetName(name)
		object.SetLabels(labels)
		if name == "pool" {
			object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodePool", Name: "default", UID: "p"}})
		}
		if err := s.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	if _, found := s.observed(); len(found.Machines) != 0 {
		t.Errorf("machines %+v; want none", found.Machines)
	}
}

// The providers of AWS and Google Cloud tag machines with the name of the NodePool, which is empty without one, and copy
// their tags to the labels of the NodeClaim. That of Azure copies any tag with this name.
func TestANodeClaimThatItsProviderLabelsWithANodePoolStaysTheFleets(t *testing.T) {
	for _, pool := range []string{"", "tagged"} {
		s := newSite(t)
		s.buys("order", "small", 0, 1)
		s.set(s.names()[0], pool, "metadata", "labels", "karpenter.sh/nodepool")
		if _, found := s.observed(); len(found.Machines) != 1 || found.Machines[0].Outdated {
			t.Errorf("label %q: machines %+v; want one of the template", pool, found.Machines)
		}
	}
}

func TestANodeClaimWithSeveralNodesIsNotIdentified(t *testing.T) {
	s := newSite(t)
	s.buys("order", "small", 0, 1)
	name := s.names()[0]
	s.set(name, []any{map[string]any{
		"type": "Registered", "status": "False", "reason": "MultipleNodesFound", "message": "matched multiple nodes", "lastTransitionTime": start.Format(time.RFC3339),
	}}, "status", "conditions")
	_, found := s.observed()
	if m := found.Machines[0]; !strings.Contains(m.Unidentified, "matched multiple nodes") || m.Node != "" || m.Failed != "" {
		t.Errorf("machine %+v; want it not to be identified", m)
	}
}

func TestARejectedNodeClaimIsForAUserToMend(t *testing.T) {
	for reason, err := range map[string]error{
		"ProviderRefused": apierrors.NewInvalid(claimKind.GroupKind(), "x", nil),
		"Forbidden":       apierrors.NewForbidden(schema.GroupResource{}, "x", nil),
	} {
		s := newSite(t)
		p, _ := s.observed()
		s.refuses = func(what string) error {
			if strings.HasPrefix(what, "create ") {
				return err
			}
			return nil
		}
		bought := p.Buy(t.Context(), "order", "small", 0, 1)
		if refused := (*provider.Refused)(nil); !errors.As(bought, &refused) || refused.Reason != reason {
			t.Errorf("%v; want it to be refused for %s", bought, reason)
		}
	}
}

func TestNamesOfNodeClaimsAreLabels(t *testing.T) {
	for _, fleet := range []string{"a", "my.fleet", strings.Repeat("long.", 50) + "x"} {
		name := claimName(fleet, "intent", "m7i.large@us-east-1a/spot", 9999)
		if len("karpenter-"+name) > 63 || // as the provider of Google Cloud calls its machines
			strings.ContainsAny(name, "./@") || name == claimName(fleet, "intent", "m7i.large", 9999) {
			t.Errorf("name %q", name)
		}
	}
}
