// Package explain prints the status of objects of a cluster as text: the last decision and its
// reasons, its expected outcome and its measured one.
//
// It decides nothing. What [Read] reads of a cluster explains its pods and nodes.
package explain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetobserve"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/autoscaler/provider/clusterapi"
	"supercargo.dev/supercargo/autoscaler/provider/karpenter"
	"supercargo.dev/supercargo/cli/objects"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/score"
	"supercargo.dev/supercargo/energy/tariff"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/text/plural"
	"supercargo.dev/supercargo/internal/world"
)

// Cluster is what is known of a cluster at a time. It explains pods and nodes.
type Cluster struct {
	client client.Client
	world  *world.World
	in     WhyInput // without a pod
}

// Read reads a cluster once. Its scheme includes cluster-api. It leaves out kinds that are not installed or that the
// user may not list, except for nodes and pods.
func Read(ctx context.Context, c client.Client, now time.Time) (*Cluster, error) {
	r := &Cluster{client: c}
	var migrations v1alpha1.MigrationList
	reader := tolerantReader{c, map[string]string{}}
	installed := c.List(ctx, &migrations, client.Limit(1))
	switch {
	case apierrors.IsForbidden(installed):
		reader.unread[kindsOf(&migrations)] = mayNotList
	case installed != nil && !objects.Absent(installed):
		return nil, fmt.Errorf("list Migrations: %w", installed)
	}
	var err error
	if r.world, err = world.Read(ctx, reader, installed == nil); err != nil {
		return nil, err
	}
	r.world.Unread(slices.Collect(maps.Keys(reader.unread))...)
	r.in = WhyInput{Now: now, View: world.NewView(r.world, now, runtimes.NewLearner()), Unread: reader.unread}
	var fleets v1alpha1.NodeFleetList
	if err := reader.List(ctx, &fleets); err != nil {
		return nil, fmt.Errorf("list NodeFleets: %w", err)
	}
	for i := range fleets.Items {
		f := FleetInput{Fleet: &fleets.Items[i]}
		if err := r.readMachines(ctx, &f); err != nil {
			f.Unread = "Its flavors were read from its status, which has no labels, taints and zones of machines: " + err.Error() + "."
		}
		f.Events, _ = r.events(ctx, "NodeFleet", "default", f.Fleet)
		r.in.Fleets = append(r.in.Fleets, f)
	}
	return r, nil
}

// tolerantReader returns empty lists for kinds that are not installed, or that the user may not list. Nodes and pods
// are required. It records the kinds that the user may not list.
type tolerantReader struct {
	client.Client
	unread map[string]string // by kind in the plural
}

// List implements client.Reader.
func (r tolerantReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := r.Client.List(ctx, list, options...)
	switch list.(type) {
	case *corev1.NodeList, *corev1.PodList:
		return err
	}
	if apierrors.IsForbidden(err) {
		r.unread[kindsOf(list)] = mayNotList
	}
	if err != nil && objects.Absent(err) {
		return nil
	}
	return err
}

// mayNotList is why objects of a kind were not read.
const mayNotList = "the user may not list them"

// kindsOf returns the kind of the objects of a list, in the plural.
func kindsOf(list client.ObjectList) string {
	return plural.Noun(2, strings.TrimSuffix(reflect.TypeOf(list).Elem().Name(), "List"))
}

// readMachines reads what a fleet can buy and has, as the autoscaler does.
func (r *Cluster) readMachines(ctx context.Context, f *FleetInput) error {
	var prices *fleetobserve.Prices
	p, err := r.provider(f.Fleet, func(context.Context) ([]catalogue.Flavor, error) { return prices.Types(), nil })
	if err != nil {
		return err
	}
	if prices, err = fleetobserve.ReadPrices(ctx, r.client, &f.Fleet.Spec.Pricing); err != nil {
		return err
	}
	inventory, err := p.Observe(ctx)
	if err != nil {
		return asUser(err)
	}
	f.Offers, f.Left = fleetobserve.Offers(r.world, f.Fleet, inventory, prices, r.in.Now)
	f.Machines = inventory.Machines
	return nil
}

// errNotRead is why a fleet's machines are read only from its status.
var errNotRead = errors.New("its provider is OpenStack, and only the autoscaler has the credentials")

// provider returns the provider of a fleet, which must only observe.
func (r *Cluster) provider(f *v1alpha1.NodeFleet, types func(context.Context) ([]catalogue.Flavor, error)) (provider.Provider, error) {
	switch {
	case f.Spec.Provider.IsClusterAPI() && f.Spec.ClusterAPI != nil:
		of := clusterapi.Fleet{Name: f.Name, Spec: *f.Spec.ClusterAPI, Types: types}
		return clusterapi.New(r.client, r.client, of, r.world.Nodes, clusterapi.NewTemplates(clock.RealClock{})), nil
	case f.Spec.Provider == v1alpha1.FleetKarpenter && f.Spec.Karpenter != nil:
		claims := &karpenter.Claims{Live: r.client, Writer: r.client, Mapper: r.client.RESTMapper(), Clock: clock.RealClock{}}
		return claims.For(f, r.world.Nodes, types), nil
	}
	return nil, errNotRead
}

// asUser returns an error of a provider, which is about the permissions of the autoscaler, as one about those of the user.
func asUser(err error) error {
	if refused := (*provider.Refused)(nil); errors.As(err, &refused) && refused.Reason == v1alpha1.FleetReasonForbidden {
		return errors.New("the user may not list NodeClaims and NodePools")
	}
	return err
}

// events returns the Events of an object, the oldest first, and whether they could be read: they are optional. It leaves out
// those of an earlier object of the same name.
func (r *Cluster) events(ctx context.Context, kind, namespace string, of client.Object) ([]corev1.Event, bool) {
	all, read := eventsWith(ctx, r.client, namespace, fields.Set{"involvedObject.kind": kind, "involvedObject.name": of.GetName()})
	return slices.DeleteFunc(all, func(e corev1.Event) bool {
		return e.InvolvedObject.UID != "" && of.GetUID() != "" && e.InvolvedObject.UID != of.GetUID()
	}), read
}

func eventsWith(ctx context.Context, c client.Client, namespace string, of fields.Set) ([]corev1.Event, bool) {
	var list corev1.EventList
	if err := c.List(ctx, &list, client.InNamespace(namespace), client.MatchingFieldsSelector{Selector: of.AsSelector()}); err != nil {
		return nil, false
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return EventTime(&a).Compare(EventTime(&b)) })
	return list.Items, true
}

// devices reads what the resource claims of a pod name; nil if it has none.
func (r *Cluster) devices(ctx context.Context, pod *corev1.Pod) *Devices {
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	d := &Devices{Claims: map[string]*resourcev1.ResourceClaim{}, Templates: map[string]bool{}, Classes: map[string]bool{}}
	exists := func(namespace, name string, object client.Object) bool {
		err := r.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, object)
		if err != nil && !apierrors.IsNotFound(err) {
			d.Unread = err.Error()
		}
		return err == nil
	}
	for i := range pod.Spec.ResourceClaims {
		use := &pod.Spec.ResourceClaims[i]
		if name := use.ResourceClaimTemplateName; name != nil {
			d.Templates[*name] = exists(pod.Namespace, *name, &resourcev1.ResourceClaimTemplate{})
		}
		name, _, err := resourceclaim.Name(pod, use)
		claim := &resourcev1.ResourceClaim{}
		if err != nil || name == nil || !exists(pod.Namespace, *name, claim) {
			continue
		}
		d.Claims[*name] = claim
		for _, class := range deviceClasses(claim) {
			d.Classes[class] = exists("", class, &resourcev1.DeviceClass{})
		}
	}
	return d
}

// Pod explains a pod, with its Events.
func (r *Cluster) Pod(ctx context.Context, pod *corev1.Pod) Why {
	in := r.in
	events, read := r.events(ctx, "Pod", pod.Namespace, pod)
	in.Pod, in.Events, in.NoEvents, in.Devices = pod, events, !read, r.devices(ctx, pod)
	return NewWhy(&in)
}

// Pending explains the pods without a node of a namespace, or of all if it is empty. It also returns those on nodes that do not
// exist.
func (r *Cluster) Pending(ctx context.Context, namespace string) PendingPods {
	all := PendingPods{Namespace: namespace, Pods: []Why{}, Refused: ReadRefused(ctx, r.client, namespace), Unread: unread(r.in.Unread)}
	missing := r.missingNodes(ctx)
	for _, p := range r.world.Pods {
		switch {
		case p.Spec.NodeName != "":
			if missing[p.Spec.NodeName] && (namespace == "" || p.Namespace == namespace) {
				all.Lost = append(all.Lost, lostOn(p))
			}
		case namespace != "" && p.Namespace != namespace:
			all.Elsewhere++
		default:
			in := r.in
			in.Pod, in.Devices = p, r.devices(ctx, p)
			why := NewWhy(&in)
			why.Unread = nil // it is said once for all
			all.Pods = append(all.Pods, why)
		}
	}
	return all
}

// missingNodes returns the nodes of pods that do not exist. A node that is not in the list may have joined since, so each is read
// again.
func (r *Cluster) missingNodes(ctx context.Context) map[string]bool {
	missing := map[string]bool{}
	for i := range r.world.Pods {
		name := r.world.Pods[i].Spec.NodeName
		if _, known := missing[name]; known || name == "" || r.world.Nodes[name] != nil {
			continue
		}
		missing[name] = apierrors.IsNotFound(r.client.Get(ctx, types.NamespacedName{Name: name}, &corev1.Node{}))
	}
	return missing
}

// ReadRefused returns the controllers of a namespace, or of all if it is empty, that could not create pods, the latest
// first; none if Events cannot be read.
func ReadRefused(ctx context.Context, c client.Client, namespace string) []Refused {
	events, _ := eventsWith(ctx, c, namespace, fields.Set{"reason": failedCreate})
	return refusedPods(events)
}

// Node explains a node.
func (r *Cluster) Node(name string) (NodeWhy, error) {
	if r.world.Nodes[name] == nil {
		return NodeWhy{}, fmt.Errorf("read Node %s: not found", name)
	}
	return NewNodeWhy(&r.in, name), nil
}

// EnergyOptions are what the energy of a pod counts by.
type EnergyOptions struct {
	// Weight is the weight of energy where neither the pod nor its namespace states one.
	Weight float64
	// Tariff returns the prices by which joules count, and their unit; empty for joules.
	Tariff func() (tariff.Tariff, tariff.Unit, error)
	// Always means that nodes are scored even if there are no MachineProfiles.
	Always bool
}

// Energy scores all nodes for a pod as EnergyPerformance would now, including idle power. It does not
// check whether the pod fits. It returns nil if there are no MachineProfiles, unless Always is set.
func (r *Cluster) Energy(ctx context.Context, pod *corev1.Pod, o EnergyOptions) (*Pod, error) {
	var profiles v1alpha1.MachineProfileList
	if err := r.client.List(ctx, &profiles); err != nil && !objects.Absent(err) {
		return nil, fmt.Errorf("read machine profiles: %w", err)
	}
	if len(profiles.Items) == 0 && !o.Always {
		return nil, nil
	}
	prices, unit, err := o.Tariff()
	if err != nil {
		return nil, err
	}
	var ns corev1.Namespace
	if err := r.client.Get(ctx, types.NamespacedName{Name: pod.Namespace}, &ns); err != nil {
		return nil, fmt.Errorf("read Namespace %s: %w", pod.Namespace, err)
	}
	weight, wrong := score.WeightOf(pod.Annotations, ns.Annotations, o.Weight)
	var book profile.Book
	for i := range profiles.Items {
		// Errors in a profile are reported when the profile is explained.
		_ = book.Put(&profiles.Items[i])
	}
	nodes := make([]corev1.Node, 0, len(r.world.Nodes))
	for _, name := range slices.Sorted(maps.Keys(r.world.Nodes)) {
		nodes = append(nodes, *r.world.Nodes[name])
	}
	compared := score.NodesFor(pod, nodes, r.world.Pods, func(zone string) tariff.Price { return prices.At(zone, r.in.Now, tariff.DefaultMaxAge) })
	e := NewPod(pod.Namespace+"/"+pod.Name, weight, unit, score.Compare(weight.H, score.SizeOf(pod), compared, book.Set(), r.in.Now))
	if weight.Origin == score.FromProfile {
		e.WeightFrom = "--energy-weight"
	}
	if wrong != nil {
		e.Note = wrong.Error()
	}
	return &e, nil
}
