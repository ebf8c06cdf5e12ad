package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/autoscaler/provider/clusterapi"
	"supercargo.dev/supercargo/cli/explain"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
)

// whyReader reads the data for explanations of pods and nodes.
type whyReader struct {
	client.Client
	now    time.Time
	world  *world.World
	view   *world.View
	fleets []explain.FleetInput
}

// newWhyReader reads the cluster once.
func newWhyReader(ctx context.Context, c client.Client, now time.Time) (*whyReader, error) {
	r := &whyReader{Client: c, now: now}
	var migrations v1alpha1.MigrationList
	installed := c.List(ctx, &migrations, client.Limit(1)) == nil
	var err error
	if r.world, err = world.Read(ctx, r.tolerant(), installed); err != nil {
		return nil, err
	}
	r.view = world.NewView(r.world, now, runtimes.NewLearner())
	var fleets v1alpha1.NodeFleetList
	if err := c.List(ctx, &fleets); err != nil && !command.Absent(err) {
		return nil, fmt.Errorf("list NodeFleets: %w", err)
	}
	for i := range fleets.Items {
		f := explain.FleetInput{Fleet: &fleets.Items[i]}
		if f.Offers, f.Machines, err = r.offers(ctx, f.Fleet); err != nil {
			f.Unread = "Its flavors were read from its status, which has no labels, taints and zones of machines: " + err.Error() + "."
		}
		f.Events = r.events(ctx, "NodeFleet", "default", f.Fleet.Name)
		r.fleets = append(r.fleets, f)
	}
	return r, nil
}

// tolerant returns a reader that returns empty lists for kinds that are not installed, or that the user
// may not list. Nodes and pods are required.
func (r *whyReader) tolerant() client.Reader { return tolerantReader{r.Client} }

type tolerantReader struct{ client.Client }

// List implements client.Reader.
func (r tolerantReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := r.Client.List(ctx, list, options...)
	switch list.(type) {
	case *corev1.NodeList, *corev1.PodList:
		return err
	}
	if err != nil && command.Absent(err) {
		return nil
	}
	return err
}

// errNotRead is why a fleet's machines are read only from its status.
var errNotRead = errors.New("its provider is OpenStack, and only the autoscaler has the credentials")

// offers reads what a fleet can buy and has, as the autoscaler does.
func (r *whyReader) offers(ctx context.Context, f *v1alpha1.NodeFleet) ([]fleet.Offer, []provider.Machine, error) {
	if f.Spec.Provider == v1alpha1.FleetOpenStack || f.Spec.ClusterAPI == nil {
		return nil, nil, errNotRead
	}
	prices, err := fleet.ReadPrices(ctx, r.Client, &f.Spec.Pricing)
	if err != nil {
		return nil, nil, err
	}
	of := clusterapi.Fleet{Name: f.Name, Spec: *f.Spec.ClusterAPI, Types: func(context.Context) ([]catalogue.Flavor, error) { return prices.Types(), nil }}
	inventory, err := clusterapi.New(r.Client, r.Client, of, r.world.Nodes, clusterapi.NewTemplates(clock.RealClock{})).Observe(ctx)
	if err != nil {
		return nil, nil, err
	}
	return fleet.Offers(r.world, f, inventory, prices, r.now), inventory.Machines, nil
}

// events returns the Events of an object, the oldest first; none if they cannot be read, because they
// are optional.
func (r *whyReader) events(ctx context.Context, kind, namespace, name string) []corev1.Event {
	var list corev1.EventList
	about := fields.Set{"involvedObject.kind": kind, "involvedObject.name": name}.AsSelector()
	if err := r.List(ctx, &list, client.InNamespace(namespace), client.MatchingFieldsSelector{Selector: about}); err != nil {
		return nil
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return explain.EventTime(&a).Compare(explain.EventTime(&b)) })
	return list.Items
}

// why explains a pod.
func (r *whyReader) why(ctx context.Context, pod *corev1.Pod) explain.Why {
	return explain.NewWhy(&explain.WhyInput{
		Now: r.now, Pod: pod, View: r.view, Fleets: r.fleets, Events: r.events(ctx, "Pod", pod.Namespace, pod.Name),
	})
}

// explainPod prints why a pod is pending, or why it is on its node, and what would move it.
func explainPod(ctx context.Context, w io.Writer, name string, flags explainFlags) error {
	if err := flags.checkEnergy(); err != nil {
		return err
	}
	namespace, err := flags.cluster.SelectedNamespace()
	if err != nil {
		return err
	}
	c, err := flags.cluster.Client(clusterapi.AddToScheme)
	if err != nil {
		return err
	}
	var pod corev1.Pod
	if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &pod); err != nil {
		return fmt.Errorf("read Pod %s in namespace %s: %w", name, namespace, err)
	}
	now := time.Now()
	r, err := newWhyReader(ctx, c, now)
	if err != nil {
		return err
	}
	why := r.why(ctx, &pod)
	if why.Pod, err = flags.energyOf(ctx, c, &pod, now); err != nil {
		return err
	}
	return command.PrintAs(w, flags.output, why)
}

// explainPods prints the pending pods, one per line.
func explainPods(ctx context.Context, w io.Writer, flags explainFlags) error {
	namespace, err := flags.cluster.SelectedNamespace()
	if err != nil {
		return err
	}
	c, err := flags.cluster.Client(clusterapi.AddToScheme)
	if err != nil {
		return err
	}
	r, err := newWhyReader(ctx, c, time.Now())
	if err != nil {
		return err
	}
	all := explain.PendingPods{Pods: []explain.Why{}}
	for i := range r.world.Pods {
		if p := &r.world.Pods[i]; p.Spec.NodeName == "" && (namespace == "" || p.Namespace == namespace) {
			all.Pods = append(all.Pods, explain.NewWhy(&explain.WhyInput{Now: r.now, Pod: p, View: r.view, Fleets: r.fleets}))
		}
	}
	return command.PrintAs(w, flags.output, all)
}

// explainNode prints whether a node is to be emptied, and how each of its pods may leave.
func explainNode(ctx context.Context, w io.Writer, name string, flags explainFlags) error {
	c, err := flags.cluster.Client(clusterapi.AddToScheme)
	if err != nil {
		return err
	}
	r, err := newWhyReader(ctx, c, time.Now())
	if err != nil {
		return err
	}
	if r.world.Nodes[name] == nil {
		return fmt.Errorf("read Node %s: not found", name)
	}
	return command.PrintAs(w, flags.output, explain.NewNodeWhy(&explain.WhyInput{Now: r.now, View: r.view, Fleets: r.fleets}, name))
}
