package dashboard

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/dashboard/connection"
	"supercargo.dev/supercargo/cli/status"
)

// source watches the objects of the page, and caches the parts that it needs.
type source struct {
	link                                                       *Link
	nodes, pods, fleets, migrations, policies, pools, profiles *followed
	events                                                     []*followed

	changed chan struct{} // has one element when something has changed
}

// controllers are the reporting controllers of Supercargo's Events.
var controllers = []string{"supercargo-autoscaler", "supercargo-descheduler"}

func newSource(l *Link) *source {
	s := &source{link: l, changed: make(chan struct{}, 1)}
	follow := func(resource, name, gives string, object client.Object, list func() client.ObjectList, selector string) *followed {
		return newFollowed(l, connection.Kind{Resource: resource, Name: name, Gives: gives}, object, list, selector, s.touch)
	}
	group := "." + v1alpha1.GroupVersion.Group
	s.nodes = follow("nodes", "nodes", "", &corev1.Node{}, func() client.ObjectList { return &corev1.NodeList{} }, "")
	s.pods = follow("pods", "pods", "", &corev1.Pod{}, func() client.ObjectList { return &corev1.PodList{} }, "")
	s.nodes.about.Required, s.pods.about.Required = true, true
	s.fleets = follow("nodefleets"+group, "NodeFleets", "NodeFleets and their decisions", &v1alpha1.NodeFleet{}, func() client.ObjectList { return &v1alpha1.NodeFleetList{} }, "")
	s.migrations = follow("migrations"+group, "Migrations", "Migrations", &v1alpha1.Migration{}, func() client.ObjectList { return &v1alpha1.MigrationList{} }, "")
	s.policies = follow("replicapolicies"+group, "ReplicaPolicies", "ReplicaPolicies and their decisions", &v1alpha1.ReplicaPolicy{}, func() client.ObjectList { return &v1alpha1.ReplicaPolicyList{} }, "")
	s.pools = follow("workerpools"+group, "WorkerPools", "WorkerPools and their decisions", &v1alpha1.WorkerPool{}, func() client.ObjectList { return &v1alpha1.WorkerPoolList{} }, "")
	s.profiles = follow("machineprofiles"+group, "MachineProfiles", "the power that MachineProfiles state", &v1alpha1.MachineProfile{}, func() client.ObjectList { return &v1alpha1.MachineProfileList{} }, "")
	for _, controller := range controllers {
		s.events = append(s.events, follow("events.events.k8s.io", "Events", "Events of the autoscaler and the descheduler", &eventsv1.Event{}, func() client.ObjectList { return &eventsv1.EventList{} }, "reportingController="+controller))
	}
	return s
}

// touch signals a change.
func (s *source) touch() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *source) all() []*followed {
	return append([]*followed{s.nodes, s.pods, s.fleets, s.migrations, s.policies, s.pools, s.profiles}, s.events...)
}

// start starts to watch, until ctx ends.
func (s *source) start(ctx context.Context) {
	for _, f := range s.all() {
		go f.informer.RunWithContext(ctx)
	}
}

// status returns what to say about the connection.
func (s *source) status(now time.Time) connection.Status {
	o := s.link.observe(now)
	for _, f := range s.all() {
		o.Kinds = append(o.Kinds, f.observe())
	}
	return connection.Of(o)
}

// read reports whether nodes and pods have been read.
func (s *source) read() bool { return s.nodes.informer.HasSynced() && s.pods.informer.HasSynced() }

// refused returns an error if nodes or pods may not be read.
func (s *source) refused() error { return errors.Join(s.nodes.refused(), s.pods.refused()) }

// snapshot returns the current objects. They are shared and must not be modified.
func (s *source) snapshot() *status.Snapshot {
	snapshot := &status.Snapshot{
		Nodes: objectsOf[*corev1.Node](s.nodes), Pods: objectsOf[*corev1.Pod](s.pods), Fleets: objectsOf[*v1alpha1.NodeFleet](s.fleets),
		Migrations: objectsOf[*v1alpha1.Migration](s.migrations), Policies: objectsOf[*v1alpha1.ReplicaPolicy](s.policies),
		Pools: objectsOf[*v1alpha1.WorkerPool](s.pools), Profiles: objectsOf[*v1alpha1.MachineProfile](s.profiles),
	}
	for _, f := range s.events {
		snapshot.Events = append(snapshot.Events, objectsOf[*eventsv1.Event](f)...)
	}
	return snapshot
}

func objectsOf[T any](f *followed) []T {
	stored := f.informer.GetStore().List()
	all := make([]T, 0, len(stored))
	for _, object := range stored {
		if o, is := object.(T); is {
			all = append(all, o)
		}
	}
	return all
}
