package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// templateTTL is the maximum time for which the content of an infrastructure template, and the served version of
	// its kind, are cached. The spec of a template never changes; its status is usually written once.
	templateTTL = 10 * time.Minute
	// silentTTL is templateTTL for an empty one: its status may not have been written yet.
	silentTTL = 10 * time.Second
)

// Templates caches the contents of infrastructure templates: usually each MachineDeployment has its own template, and
// reading all of them would dominate the time of a round. It is safe for concurrent use.
type Templates struct {
	clock clock.PassiveClock

	mu        sync.Mutex
	templates map[string]known[*template]
	versions  map[string]known[string]

	locks sync.Map // of *sync.RWMutex, by types.NamespacedName: see buying
}

// known is a value that is cached until a time.
type known[T any] struct {
	is    T
	until time.Time
}

// NewTemplates returns an empty cache of templates.
func NewTemplates(c clock.PassiveClock) *Templates {
	return &Templates{clock: c, templates: map[string]known[*template]{}, versions: map[string]known[string]{}}
}

// buying returns the lock of a MachineDeployment: buyers of its machines hold it for reading, and whatever removes it
// or its infrastructure template holds it for writing.
func (t *Templates) buying(deployment types.NamespacedName) *sync.RWMutex {
	lock, _ := t.locks.LoadOrStore(deployment, &sync.RWMutex{})
	return lock.(*sync.RWMutex)
}

// unlessBought calls remove for a MachineDeployment, unless machines of it are being bought. No purchase starts
// meanwhile.
func (t *Templates) unlessBought(deployment types.NamespacedName, remove func() error) error {
	lock := t.buying(deployment)
	if !lock.TryLock() {
		return nil
	}
	defer lock.Unlock()
	return remove()
}

// template is the content of an infrastructure template.
type template struct {
	capacity corev1.ResourceList
	arch, os string
	// instanceType is that of the machines, of the kinds in instanceTypeFields; otherwise empty.
	instanceType string
	// region is that of the cluster; empty if it is unknown. It is not part of the infrastructure template.
	region string
}

// of returns the template of a MachineDeployment, read from live unless it is cached.
func (t *Templates) of(ctx context.Context, live client.Reader, d *clusterv1.MachineDeployment) (*template, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ref := d.Spec.Template.Spec.InfrastructureRef
	key, now := strings.Join([]string{ref.APIGroup, ref.Kind, d.Namespace, ref.Name}, "/"), t.clock.Now()
	if k, ok := t.templates[key]; ok && now.Before(k.until) {
		return k.is, nil
	}
	found := &template{capacity: corev1.ResourceList{}}
	if err := t.read(ctx, live, d.Namespace, ref, found); err != nil {
		return nil, err
	}
	// This also drops those of MachineDeployments that no longer exist.
	maps.DeleteFunc(t.templates, func(_ string, k known[*template]) bool { return !now.Before(k.until) })
	t.templates[key] = known[*template]{found, now.Add(ttl(key, len(found.capacity) == 0))}
	return found, nil
}

// ttl returns how long a template is cached. It differs between templates, so that they are not all read again at once.
func ttl(key string, silent bool) time.Duration {
	if silent {
		return silentTTL
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // never fails
	return templateTTL - time.Duration(h.Sum64()%uint64(templateTTL/2))
}

// read reads status.capacity and status.nodeInfo of an infrastructure template, as in cluster-api's contract for
// scaling from zero. An unreadable template counts as empty: the annotations may suffice.
func (t *Templates) read(ctx context.Context, live client.Reader, namespace string, ref clusterv1.ContractVersionedObjectReference, into *template) error {
	object, err := t.get(ctx, live, namespace, ref)
	if unreadable(err) {
		return nil
	} else if err != nil {
		return err
	}
	into.read(object)
	return nil
}

// get reads an infrastructure template.
func (t *Templates) get(ctx context.Context, live client.Reader, namespace string, ref clusterv1.ContractVersionedObjectReference) (*unstructured.Unstructured, error) {
	newest, err := t.version(ctx, live, ref)
	if err != nil {
		return nil, fmt.Errorf("read the CRD of %s: %w", ref.Kind, err)
	}
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(ref.APIGroup + "/" + newest)
	object.SetKind(ref.Kind)
	if err := live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ref.Name}, object); err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", ref.Kind, namespace, ref.Name, err)
	}
	return object, nil
}

// object is get for callers that do not hold the lock.
func (t *Templates) object(ctx context.Context, live client.Reader, namespace string, ref clusterv1.ContractVersionedObjectReference) (*unstructured.Unstructured, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.get(ctx, live, namespace, ref)
}

// contracts are the contracts of cluster-api that are supported, as labels of kinds, newest first. The value of a label
// is the versions of the kind that follow the contract.
var contracts = []string{"cluster.x-k8s.io/v1beta2", "cluster.x-k8s.io/v1beta1"}

// errNoContract reports that a kind does not belong to a provider of cluster-api.
var errNoContract = fmt.Errorf("its CRD has neither of the labels %s, which state the version that cluster-api reads", strings.Join(contracts, " and "))

// version returns the version in which cluster-api reads a kind: the newest that follows the newest contract.
func (t *Templates) version(ctx context.Context, live client.Reader, ref clusterv1.ContractVersionedObjectReference) (string, error) {
	name, now := strings.ToLower(ref.Kind)+"s."+ref.APIGroup, t.clock.Now()
	k, ok := t.versions[name]
	if !ok || !now.Before(k.until) {
		crd := &metav1.PartialObjectMetadata{}
		crd.SetGroupVersionKind(crdKind)
		if err := live.Get(ctx, types.NamespacedName{Name: name}, crd); err != nil {
			return "", err
		}
		newest := newestVersion(crd.Labels)
		k = known[string]{newest, now.Add(ttl(name, newest == ""))}
		t.versions[name] = k
	}
	if k.is == "" {
		return "", errNoContract
	}
	return k.is, nil
}

// newestVersion returns the version given by the labels of a kind, or "".
func newestVersion(labels map[string]string) string {
	for _, contract := range contracts {
		if labels[contract] != "" {
			return slices.MaxFunc(strings.Split(labels[contract], "_"), version.CompareKubeAwareVersionStrings)
		}
	}
	return ""
}

// unreadable reports whether an object does not exist or may not be read.
func unreadable(err error) bool {
	return err != nil && (apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || errors.Is(err, errNoContract))
}
