package replica

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kindsAge is the time between two searches for resources that the cluster does not serve. A search is one or two
// requests for each of their groups.
const kindsAge = 15 * time.Second

// Kinds are the kinds that may be scaled. A resource that the cluster does not serve is searched for again while a policy
// refers to a kind that is not known, because its CRD may be installed later. Safe for concurrent use.
type Kinds struct {
	find func(schema.GroupVersionResource) (schema.GroupVersionKind, error)
	// watch is called once for each kind that appears after the controller was set up.
	watch func(schema.GroupVersionKind) error

	mu      sync.Mutex
	known   map[schema.GroupKind]schema.GroupVersionKind
	missing []schema.GroupResource
	// searchedAt is the time of the last search after the first.
	searchedAt time.Time
}

// NewKinds returns the kinds of resources, each as resource.group. An error other than that the cluster does not serve a
// resource is returned.
func NewKinds(mapper meta.RESTMapper, resources []string) (*Kinds, error) {
	k := &Kinds{find: mapper.KindFor, known: map[schema.GroupKind]schema.GroupVersionKind{}}
	for _, name := range resources {
		k.missing = append(k.missing, schema.ParseGroupResource(name))
	}
	return k, k.search()
}

// Missing returns the resources that the cluster does not serve, in the order they were given.
func (k *Kinds) Missing() []schema.GroupResource {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.missing)
}

// all returns the known kinds and has watch called for each that appears later.
func (k *Kinds) all(watch func(schema.GroupVersionKind) error) []schema.GroupVersionKind {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.watch = watch
	kinds := make([]schema.GroupVersionKind, 0, len(k.known))
	for _, kind := range k.known {
		kinds = append(kinds, kind)
	}
	return kinds
}

// of returns the version of a kind that may be scaled; ok is false if it may not, or the cluster does not serve it. An
// error says that this could not be found out.
func (k *Kinds) of(kind schema.GroupKind, now time.Time) (found schema.GroupVersionKind, ok bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if found, ok = k.known[kind]; ok || now.Sub(k.searchedAt) < kindsAge || !slices.ContainsFunc(k.missing, func(r schema.GroupResource) bool { return r.Group == kind.Group }) {
		return found, ok, nil
	}
	k.searchedAt = now
	err = k.search()
	found, ok = k.known[kind]
	return found, ok, err
}

// search finds the kinds of the missing resources. Those that it cannot find stay missing.
func (k *Kinds) search() error {
	var first error
	k.missing = slices.DeleteFunc(k.missing, func(r schema.GroupResource) bool {
		kind, err := k.find(r.WithVersion(""))
		if err == nil && k.watch != nil {
			err = k.watch(kind)
		}
		switch {
		case err == nil:
			k.known[kind.GroupKind()] = kind
			return true
		case !meta.IsNoMatchError(err) && first == nil:
			first = fmt.Errorf("--scale-kinds: find the kind of %s: %w", r, err)
		}
		return false
	})
	return first
}
