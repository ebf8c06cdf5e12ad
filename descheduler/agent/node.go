package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/internal/movable/capability"
)

// capabilityRefresh is how often an agent checks its node's capability again: the container
// runtime may be upgraded or configured without a change of the Node.
const capabilityRefresh = 5 * time.Minute

// nodes holds the Nodes of an agent, and annotates each with its capability.
type nodes struct {
	agent *Agent

	able able // used only by see, which handles one Node after the other

	mu    sync.Mutex
	known map[string]*corev1.Node
}

// able caches a node's capability. Finding it takes a good part of a CPU second, in which CRIU
// checks the kernel, and kubelets update their Node often.
type able struct {
	can capability.Node
	at  time.Time // zero if the cache is empty
	of  corev1.NodeSystemInfo
}

// capability returns a node's capability. It checks at most every capabilityRefresh, unless the
// Node's kernel or runtime changed.
func (n *nodes) capability(ctx context.Context, node *corev1.Node) (capability.Node, error) {
	now := n.agent.Clock.Now()
	// The informer repeats its Node after about that time.
	if a := n.able; !a.at.IsZero() && a.of == node.Status.NodeInfo && now.Sub(a.at) < capabilityRefresh*9/10 {
		return a.can, nil
	}
	n.able = able{}
	can, err := n.agent.Capability(ctx, node)
	if err == nil {
		n.able = able{can: can, at: now, of: node.Status.NodeInfo}
	}
	return can, err
}

// mine reports whether a node is one of the agent's.
func (n *nodes) mine(name string) bool {
	if n.agent.Simulation == nil {
		return name != "" && name == n.agent.Node
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known[name] != nil
}

// address returns the address at which other nodes reach the agent, for its report.
func (n *nodes) address(name string) (string, error) {
	if n.agent.AdvertiseHost != "" {
		return joinHostPort(n.agent.AdvertiseHost, n.agent.port), nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if node := n.known[name]; node != nil {
		for _, address := range node.Status.Addresses {
			if address.Type == corev1.NodeInternalIP {
				return joinHostPort(address.Address, n.agent.port), nil
			}
		}
	}
	return "", fmt.Errorf("node %s has no InternalIP: set --advertise-host to an address at which other nodes reach it", name)
}

// watch watches the Nodes until ctx ends.
func (n *nodes) watch(ctx context.Context) error {
	a := n.agent
	var options []client.ListOption
	if a.Simulation != nil {
		options = append(options, client.MatchingLabelsSelector{Selector: a.Simulation.Selector})
	} else {
		options = append(options, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", a.Node)})
	}
	seen := func(obj any) {
		if node, ok := obj.(*corev1.Node); ok && a.isNode(node) {
			n.see(ctx, node)
		}
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: a.lister(&corev1.NodeList{}, options...), ObjectType: &corev1.Node{}, Transform: withoutManagedFields,
		ResyncPeriod: capabilityRefresh,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: seen, UpdateFunc: func(_, obj any) { seen(obj) },
			DeleteFunc: func(obj any) {
				if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
					n.mu.Lock()
					defer n.mu.Unlock()
					delete(n.known, name.Name)
				}
			},
		},
	})
	a.health.follows(informer.HasSynced)
	informer.RunWithContext(ctx)
	return ctx.Err()
}

// see stores a Node, and annotates it.
func (n *nodes) see(ctx context.Context, node *corev1.Node) {
	n.mu.Lock()
	isNew := n.known[node.Name] == nil
	n.known[node.Name] = node
	n.mu.Unlock()
	log := n.agent.Log.WithValues("node", node.Name)
	if err := n.annotate(ctx, node); err != nil && ctx.Err() == nil {
		log.Error(err, "Failed to annotate the node with its capability; it takes no part in migrations until a retry succeeds")
	}
	if isNew && n.agent.Simulation != nil {
		if err := n.agent.requeueAll(ctx); err != nil && ctx.Err() == nil {
			log.Error(err, "Failed to requeue the Migrations of a new node; they are reconciled later")
		}
	}
}

// annotate writes the node's capability to its annotation, unless it is there already.
func (n *nodes) annotate(ctx context.Context, node *corev1.Node) error {
	can := capability.Node{Backends: []v1alpha1.MigrationBackend{v1alpha1.BackendSimulated}, Arch: node.Status.NodeInfo.Architecture, Restore: true}
	if n.agent.Simulation == nil {
		var err error
		if can, err = n.capability(ctx, node); err != nil {
			return fmt.Errorf("determine the capability of node %s: %w", node.Name, err)
		}
	}
	say := map[string]any{v1alpha1.AnnotationCapability: can.Encode()} // a nil value removes the annotation
	if n.agent.Hardware != nil {
		hardware, err := n.agent.Hardware(node)
		if err != nil { // it can move containers anyway
			n.agent.Log.Error(err, "Failed to read the hardware of the machine; it is not probed", "node", node.Name)
		} else {
			say[v1alpha1.AnnotationHardware] = hardware
		}
	}
	if n.agent.Governor != nil {
		governor, err := n.agent.Governor()
		if err != nil {
			n.agent.Log.Error(err, "Failed to read the CPU governor; the profile of the usual governor applies", "node", node.Name)
		} else if say[v1alpha1.AnnotationGovernor] = nil; profile.IsGovernor(governor) {
			say[v1alpha1.AnnotationGovernor] = governor
		}
	}
	maps.DeleteFunc(say, func(key string, text any) bool {
		is, there := node.Annotations[key]
		return text == nil && !there || there && text == is
	})
	if len(say) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": say}})
	if err != nil {
		return fmt.Errorf("annotate node %s with its capability: %w", node.Name, err)
	}
	if err := n.agent.api.Patch(ctx, &corev1.Node{ObjectMeta: named(node.Name)}, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("annotate node %s with its capability: %w", node.Name, err)
	}
	n.agent.Log.Info("Annotated the node with its capability, hardware and CPU governor", "node", node.Name, "annotations", say)
	return nil
}

func labelSet(set map[string]string) labels.Labels { return labels.Set(set) }

// withoutManagedFields removes the largest fields, which are not needed.
func withoutManagedFields(obj any) (any, error) {
	if node, ok := obj.(*corev1.Node); ok {
		node.ManagedFields, node.Status.Images = nil, nil
	}
	return obj, nil
}
