// Package clusterapi scales MachineDeployments of cluster-api. Each one is a
// flavor: machines of one size at one price.
//
// It reads the annotations for cluster-autoscaler on MachineDeployments, with the same meaning. Of MachineDeployments
// that it has not created, it writes only the number of replicas and, before it lowers that, the annotation by which
// cluster-api chooses the Machines to delete.
//
// A fleet with templates has a flavor for each instance type (catalogue.go), and its MachineDeployments are created and
// removed as needed (make.go).
package clusterapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

// AddToScheme registers the kinds that the client for New must know.
var AddToScheme = clusterv1.AddToScheme

// Kinds returns the objects whose changes concern a fleet.
func Kinds() []client.Object {
	return []client.Object{&clusterv1.MachineDeployment{}, &clusterv1.Machine{}}
}

// Fleet is the fleet that machines are for.
type Fleet struct {
	// Name is the name of the NodeFleet, Spec what its machines are made from.
	Name string
	Spec v1alpha1.ClusterAPIFlavors
	// Types returns the instance types that can be bought, ordered by name. It is only used for fleets with templates.
	Types func(ctx context.Context) ([]catalogue.Flavor, error)
}

// Provider scales the MachineDeployments of one fleet.
type Provider struct {
	live   client.Reader // reads without a cache
	writer client.Client
	fleet  Fleet
	spec   v1alpha1.ClusterAPIFlavors
	// nodes are the nodes of the cluster by name, for the labels and sizes of existing machines.
	nodes     map[string]*corev1.Node
	templates *Templates
	cluster   string // the Cluster of the fleet according to Observe; empty if it is unknown
	// These are only set with templates: offered is what can be bought according to Observe, made are the existing
	// MachineDeployments by name, and unused are those without machines.
	offered map[string]*offer
	made    map[string]bool
	unused  []clusterv1.MachineDeployment
}

// New returns a Provider for the MachineDeployments of a fleet. live must not read from a cache. nodes are those of the
// cluster, by name: a MachineDeployment with nodes is assumed to create similar ones. templates must be those of the
// same cluster.
func New(live client.Reader, writer client.Client, fleet Fleet, nodes map[string]*corev1.Node, templates *Templates) *Provider {
	return &Provider{live: live, writer: writer, fleet: fleet, spec: fleet.Spec, nodes: nodes, templates: templates}
}

var (
	_ provider.Provider = (*Provider)(nil)
	_ provider.Cleaner  = (*Provider)(nil)
)

// makes reports whether the fleet creates its MachineDeployments.
func (p *Provider) makes() bool { return len(p.spec.Templates) > 0 }

// Observe implements provider.Provider.
func (p *Provider) Observe(ctx context.Context) (*provider.Inventory, error) {
	if p.makes() {
		var err error
		if p.offered, err = p.offers(ctx); err != nil {
			return nil, err
		}
	}
	selected, err := p.deployments(ctx)
	if err != nil {
		return nil, err
	}
	if p.cluster, err = p.ownCluster(selected); err != nil {
		return nil, err
	}
	deployments, others := p.split(selected)
	machines, err := p.machines(ctx, deployments)
	if err != nil {
		return nil, err
	}
	held, err := p.pausedCluster(ctx, deployments)
	if err != nil {
		return nil, err
	}
	found := &provider.Inventory{}
	for i := range deployments {
		found.Machines = append(found.Machines, machinesOf(&deployments[i], machines[deployments[i].Name])...)
	}
	slices.SortFunc(found.Machines, func(a, b provider.Machine) int { return cmp.Compare(a.Name, b.Name) })
	if p.makes() {
		if err := p.checkTemplates(p.cluster); err != nil {
			return nil, err
		}
		p.noteUnused(deployments, others, machines)
		found.Flavors, err = p.flavorsOf(ctx, deployments, machines)
	} else {
		found.Flavors, err = p.flavorsNamed(ctx, deployments, others, machines)
	}
	if held != "" {
		hold(found.Flavors, held)
	}
	return found, err
}

// split separates the MachineDeployments of the fleet's Cluster from those of others, whose machines are not the
// fleet's.
func (p *Provider) split(selected []clusterv1.MachineDeployment) (own, others []clusterv1.MachineDeployment) {
	for i := range selected {
		if ofOtherCluster(&selected[i], p.cluster) {
			others = append(others, selected[i])
		} else {
			own = append(own, selected[i])
		}
	}
	return own, others
}

// flavorsNamed returns the flavors of MachineDeployments that the spec selects, and of names that cannot be used.
func (p *Provider) flavorsNamed(ctx context.Context, deployments, others []clusterv1.MachineDeployment, machines map[string][]clusterv1.Machine) ([]provider.Flavor, error) {
	var all []provider.Flavor
	region := regionOf(p.nodes)
	for i := range deployments {
		d := &deployments[i]
		t, err := p.templates.of(ctx, p.live, d)
		if err != nil {
			return nil, err
		}
		all = append(all, p.withMachines(d, t.in(region), machines[d.Name]))
	}
	for _, name := range p.spec.Names {
		of := slices.IndexFunc(others, func(d clusterv1.MachineDeployment) bool { return d.Name == name })
		switch {
		case of >= 0:
			all = append(all, provider.Flavor{Name: name, Named: true, Problem: fmt.Sprintf(
				"MachineDeployment %s/%s belongs to Cluster %s, and this cluster is %s", p.spec.Namespace, name, others[of].Spec.ClusterName, p.cluster)})
		case !slices.ContainsFunc(all, func(f provider.Flavor) bool { return f.Name == name }):
			all = append(all, provider.Flavor{Name: name, Named: true, Problem: fmt.Sprintf("MachineDeployment %s/%s does not exist", p.spec.Namespace, name)})
		}
	}
	slices.SortFunc(all, func(a, b provider.Flavor) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// withMachines returns the flavor of a MachineDeployment that has these Machines.
func (p *Provider) withMachines(d *clusterv1.MachineDeployment, t *template, machines []clusterv1.Machine) provider.Flavor {
	node, typical := p.example(machines)
	f := flavorLike(d, t, node, typical)
	f.Kept = cmp.Or(f.Kept, rollout(machines))
	f.Blocked = blocked(f.Want, machines)
	return f
}

// deployments returns those that the spec selects or that were created for the fleet, ordered by name.
func (p *Provider) deployments(ctx context.Context) ([]clusterv1.MachineDeployment, error) {
	selector := labels.Everything()
	if p.makes() {
		selector = labels.SelectorFromSet(labels.Set{v1alpha1.LabelFleet: p.fleet.Name})
	}
	if p.spec.Selector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(p.spec.Selector); err != nil {
			return nil, fmt.Errorf("read spec.clusterAPI.selector: %w", err)
		}
	}
	var list clusterv1.MachineDeploymentList
	if err := p.live.List(ctx, &list, client.InNamespace(p.spec.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("list MachineDeployments in namespace %s: %w", p.spec.Namespace, err)
	}
	if !p.makes() { // otherwise all were created for this fleet
		list.Items = slices.DeleteFunc(list.Items, func(d clusterv1.MachineDeployment) bool { return hasKey(d.Labels, v1alpha1.LabelFleet) })
	}
	if len(p.spec.Names) > 0 {
		list.Items = slices.DeleteFunc(list.Items, func(d clusterv1.MachineDeployment) bool { return !slices.Contains(p.spec.Names, d.Name) })
	}
	slices.SortFunc(list.Items, func(a, b clusterv1.MachineDeployment) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// machines returns the Machines of each deployment.
func (p *Provider) machines(ctx context.Context, deployments []clusterv1.MachineDeployment) (map[string][]clusterv1.Machine, error) {
	var list clusterv1.MachineList
	if err := p.live.List(ctx, &list, client.InNamespace(p.spec.Namespace), client.HasLabels{clusterv1.MachineDeploymentNameLabel}); err != nil {
		return nil, fmt.Errorf("list Machines in namespace %s: %w", p.spec.Namespace, err)
	}
	p.matchNodes(list.Items)
	chosen := map[string]bool{}
	for i := range deployments {
		chosen[deployments[i].Name] = true
	}
	found := map[string][]clusterv1.Machine{}
	for i := range list.Items {
		if name := list.Items[i].Labels[clusterv1.MachineDeploymentNameLabel]; chosen[name] {
			found[name] = append(found[name], list.Items[i])
		}
	}
	return found, nil
}

// matchNodes sets the nodes of Machines without one by provider ID. A node may join, and pods may be bound to it,
// before cluster-api records its Machine. Without the match, the room of such a machine would count twice: on its node,
// and as still on order. It iterates over the nodes once, and only if a Machine lacks its node.
func (p *Provider) matchNodes(machines []clusterv1.Machine) {
	waits := func(m clusterv1.Machine) bool { return m.Status.NodeRef.Name == "" && m.Spec.ProviderID != "" }
	if !slices.ContainsFunc(machines, waits) {
		return
	}
	nodes := map[string][]string{} // by provider ID
	for name, n := range p.nodes {
		nodes[n.Spec.ProviderID] = append(nodes[n.Spec.ProviderID], name)
	}
	for i := range machines {
		if m := &machines[i]; waits(*m) && len(nodes[m.Spec.ProviderID]) == 1 {
			m.Status.NodeRef.Name = nodes[m.Spec.ProviderID][0]
		}
	}
}

// example returns a node of one of the machines, or nil: the newest of those that are typical of new ones, else the newest
// of all. A node is typical if it is ready, has started, and is not of an older template: a node that is starting lacks
// labels and resources, and new machines may be larger than those of an older template.
func (p *Provider) example(machines []clusterv1.Machine) (best *corev1.Node, typical bool) {
	for i := range machines {
		n := p.nodes[machines[i].Status.NodeRef.Name]
		if n == nil || n.Status.Allocatable.Cpu().IsZero() {
			continue
		}
		is := started(n) && !outdated(&machines[i])
		if best == nil || is && !typical || is == typical && newer(n, best) {
			best, typical = n, is
		}
	}
	return best, typical
}

// newer reports whether a was created after b; of the same age, the first by name.
func newer(a, b *corev1.Node) bool {
	return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

// started reports whether a node is ready and has no taint of a controller that must still finish it.
func started(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if passing(t) && t.Key != corev1.TaintNodeUnschedulable {
			return false
		}
	}
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// machinesOf returns the machines of a deployment. Of those in excess of the replicas, the marked ones are leaving:
// cluster-api chooses them.
func machinesOf(d *clusterv1.MachineDeployment, own []clusterv1.Machine) []provider.Machine {
	slices.SortFunc(own, func(a, b clusterv1.Machine) int { return cmp.Compare(a.Name, b.Name) })
	surplus := 0
	if d.Spec.Replicas != nil {
		surplus = -int(*d.Spec.Replicas)
		for i := range own {
			if own[i].DeletionTimestamp == nil {
				surplus++
			}
		}
	}
	all := make([]provider.Machine, len(own))
	for i := range own {
		m := &own[i]
		all[i] = machine(d.Name, m)
		if surplus > 0 && !all[i].Leaving && hasKey(m.Annotations, clusterv1.DeleteMachineAnnotation) {
			all[i].Leaving = true
			surplus--
		}
	}
	return all
}

func machine(flavor string, m *clusterv1.Machine) provider.Machine {
	found := provider.Machine{
		Name: m.Name, Flavor: flavor, Node: m.Status.NodeRef.Name, Ordered: m.CreationTimestamp.Time, Leaving: m.DeletionTimestamp != nil,
		Outdated: outdated(m), RolledOut: true, // by the strategy of the MachineDeployment
	}
	for _, kind := range []string{clusterv1.MachineBootstrapConfigReadyCondition, clusterv1.MachineInfrastructureReadyCondition} {
		if c := meta.FindStatusCondition(m.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionFalse {
			found.Waits = cmp.Or(c.Message, c.Reason)
		}
	}
	if found.Node == "" && cannotBeHad(found.Waits) {
		found.Failed = found.Waits
	}
	return found
}

func hasKey(m map[string]string, key string) bool {
	_, ok := m[key]
	return ok
}

// Buy implements provider.Provider. The API server refuses the write if the number of replicas is not from, and accepts
// it regardless of other changes of the MachineDeployment.
func (p *Provider) Buy(ctx context.Context, _, flavor string, from, to int) error {
	if to < from {
		if due, err := p.isDue(ctx, flavor, from, to); !due || err != nil {
			return err
		}
		if err := p.lacks(ctx, flavor, to); err != nil {
			return err
		}
	}
	if o := p.offered[flavor]; o != nil && from == 0 {
		return p.create(ctx, o, to)
	}
	return p.scale(ctx, flavor, from, to)
}

// lacks returns ErrChanged if a MachineDeployment has more machines than most: the unwanted ones have been created
// meanwhile, and it would choose by itself which of all to delete.
func (p *Provider) lacks(ctx context.Context, flavor string, most int) error {
	var list clusterv1.MachineList
	err := p.live.List(ctx, &list, client.InNamespace(p.spec.Namespace), client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: flavor})
	if err != nil {
		return fmt.Errorf("list Machines of MachineDeployment %s/%s: %w", p.spec.Namespace, flavor, err)
	}
	there := 0
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			there++
		}
	}
	if there > most {
		return fmt.Errorf("scale MachineDeployment %s/%s down to %d replicas: it has %d machines by now: %w",
			p.spec.Namespace, flavor, most, there, provider.ErrChanged)
	}
	return nil
}

// isDue reports whether a MachineDeployment still has the number of replicas from. It returns false if it already has
// to, and ErrChanged if it has another number.
func (p *Provider) isDue(ctx context.Context, flavor string, from, to int) (bool, error) {
	scale := &autoscalingv1.Scale{}
	if err := p.writer.SubResource("scale").Get(ctx, p.deployment(flavor), scale); err != nil {
		return false, fmt.Errorf("read the scale of MachineDeployment %s/%s: %w", p.spec.Namespace, flavor, err)
	}
	switch int(scale.Spec.Replicas) {
	case to:
		return false, nil
	case from:
		return true, nil
	}
	return false, fmt.Errorf("scale MachineDeployment %s/%s from %d to %d replicas: it has %d: %w",
		p.spec.Namespace, flavor, from, to, scale.Spec.Replicas, provider.ErrChanged)
}

func (p *Provider) deployment(name string) *clusterv1.MachineDeployment {
	return &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: p.spec.Namespace, Name: name}}
}

// scale changes the number of replicas. The write tests only that number: the controllers of cluster-api may write the
// status of a MachineDeployment at any time, and a write that tested the resourceVersion would fail because of that.
// The API server retries a conflicting patch itself.
func (p *Provider) scale(ctx context.Context, flavor string, from, to int) error {
	patch := client.RawPatch(types.JSONPatchType, scalePatch(from, to))
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		return p.writer.SubResource("scale").Patch(ctx, p.deployment(flavor), patch, client.WithSubResourceBody(&autoscalingv1.Scale{}))
	})
	if apierrors.IsInvalid(err) { // the test has failed, or something else is invalid
		if due, changed := p.isDue(ctx, flavor, from, to); !due || changed != nil {
			return changed
		}
	}
	if apierrors.IsConflict(err) {
		err = fmt.Errorf("%w: %w", provider.ErrConflict, err)
	}
	if err != nil {
		return fmt.Errorf("scale MachineDeployment %s/%s from %d to %d replicas: %w", p.spec.Namespace, flavor, from, to, err)
	}
	return nil
}

// scalePatch returns the JSON patch that changes the replicas of a Scale. It tests the whole spec, which contains only
// that number, because a number of 0 is omitted.
func scalePatch(from, to int) []byte {
	spec := func(replicas int) string {
		text, _ := json.Marshal(autoscalingv1.ScaleSpec{Replicas: int32(replicas)}) // it cannot fail for a number
		return string(text)
	}
	return fmt.Appendf(nil, `[{"op":"test","path":"/spec","value":%s},{"op":"replace","path":"/spec","value":%s}]`, spec(from), spec(to))
}

// markPrefix begins the value of our marks, so that we remove no marks of others.
const markPrefix = v1alpha1.GroupName + "/"

// marksAtOnce is the maximum number of concurrent marks of Machines of a flavor: all must be marked before the first
// can be deleted.
const marksAtOnce = 8

// Release implements provider.Provider: it marks the Machines, so that cluster-api chooses them, and then lowers the
// number of replicas.
//
// It first removes our marks of a failed release, because cluster-api would choose those Machines too, whatever runs
// there by now. Marks of others stay, because those Machines are meant to go first.
func (p *Provider) Release(ctx context.Context, intent, flavor string, from int, machines []string) error {
	to := from - len(machines)
	if due, err := p.isDue(ctx, flavor, from, to); !due || err != nil {
		return err
	}
	if err := p.clearMarks(ctx, flavor, from, machines); err != nil {
		return err
	}
	var marking errgroup.Group
	marking.SetLimit(marksAtOnce)
	for _, name := range machines {
		marking.Go(func() error { return p.mark(ctx, name, markPrefix+intent) })
	}
	if err := marking.Wait(); err != nil {
		return err
	}
	return p.scale(ctx, flavor, from, to)
}

// clearMarks removes our marks from the Machines that are neither to be released nor already leaving: if there are more
// Machines than replicas, cluster-api has yet to delete the marked ones.
func (p *Provider) clearMarks(ctx context.Context, flavor string, replicas int, but []string) error {
	d := p.deployment(flavor)
	d.Spec.Replicas = new(int32(replicas))
	found, err := p.machines(ctx, []clusterv1.MachineDeployment{*d})
	if err != nil {
		return err
	}
	own := found[flavor]
	all := machinesOf(d, own) // which sorts own
	for i := range own {
		m := &own[i]
		if all[i].Leaving || !strings.HasPrefix(m.Annotations[clusterv1.DeleteMachineAnnotation], markPrefix) || slices.Contains(but, m.Name) {
			continue
		}
		if err := p.setMark(ctx, m.Name, "null"); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove the deletion mark from Machine %s/%s: %w", p.spec.Namespace, m.Name, err)
		}
	}
	return nil
}

// mark makes cluster-api choose a Machine. A Machine that is gone has a successor, and lowering the number of replicas
// would delete that or another: this is ErrChanged.
func (p *Provider) mark(ctx context.Context, name, value string) error {
	err := p.setMark(ctx, name, strconv.Quote(value))
	if apierrors.IsNotFound(err) {
		err = fmt.Errorf("%w: %w", provider.ErrChanged, err)
	}
	if err != nil {
		return fmt.Errorf("mark Machine %s/%s for deletion: %w", p.spec.Namespace, name, err)
	}
	return nil
}

func (p *Provider) setMark(ctx context.Context, name, value string) error {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: p.spec.Namespace, Name: name}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, clusterv1.DeleteMachineAnnotation, value)
	return p.writer.Patch(ctx, m, client.RawPatch(types.MergePatchType, patch))
}
