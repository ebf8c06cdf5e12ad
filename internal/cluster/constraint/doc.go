// Package constraint answers where a pod may run, as kube-scheduler's filters
// would, without a scheduler: a pod is compiled once and asked about many hosts,
// those that are there and those that might be bought.
//
// Covered are the hard demands of NodeUnschedulable, NodeName, TaintToleration,
// NodeAffinity (the node selector included), NodePorts, PodTopologySpread and
// InterPodAffinity, with the default feature gates and default plugin arguments of
// the Kubernetes version this module is built with. [Pod.Admits] answers for what
// depends on the host alone, [Tracker.Check] for what depends on who else is where;
// a pod may run where both answer "".
//
// Not covered, on purpose:
//
//   - Preferences (preferredDuringScheduling…, ScheduleAnyway, PreferNoSchedule)
//     never stand in the way of a pod and are ignored.
//   - Whether there is room: [Requests] says what a pod asks for, packing decides.
//   - Volumes, resource claims, gates and gangs: [Unsupported] names what a pod has
//     of these, so that the caller can hold instead of promising a place.
//   - Terminating pods. PodTopologySpread does not count them and the other plugins
//     do; callers who want that exactly leave them out, or keep them in, themselves.
//   - A profile's own arguments: added affinity and default spread constraints.
//
// Everything here is deterministic. Nothing is safe for concurrent use, except that
// compiled pods may be read and trackers that were cloned from each other may each
// be used by one goroutine as long as nobody compiles.
package constraint
