package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Buying describes how machines are bought in a run.
type Buying struct {
	// Autoscaler is the name of the program that buys machines.
	Autoscaler string
	// StartUp bounds the time from the order of a machine to its Node, while nothing fails.
	StartUp time.Duration
	// Unseen bounds the age of a decision's observations when its order is written.
	Unseen time.Duration
}

// Bought counts purchases.
type Bought struct {
	// Orders counts the writes that raised a number of replicas, Machines the machines that they
	// added. Peak is the largest sum of desired replicas after an order.
	Orders   int `json:"orders"`
	Machines int `json:"machines"`
	Peak     int `json:"peak"`
}

// purchase is an order whose machines have not all joined yet.
type purchase struct {
	flavor, decision string
	at               time.Time
	pods             map[string]bool
	count, joined    int
}

// Purchases returns what was bought, and the purchases without a reason:
//
//   - Purchases that the intent in the status of a NodeFleet does not announce with the same two
//     numbers of replicas, or whose decision is not in that status. The intent is written before the
//     order, and a new leader withdraws it.
//   - Purchases while no pod is pending.
//   - Purchases while every pending pod has a machine in an earlier order. A machine counts from its
//     order until its Node exists, but for at most twice the start-up time plus 10 s, which is how
//     long a NodeFleet waits. The decision names the pods of a machine, but at most ten of a group,
//     so the check misses purchases for more pods.
//
// The last two do not apply to an exchange, which buys machines for running pods. Its decision also
// has releases.
func Purchases(writes []Write, b Buying) (sum Bought, broken []string) {
	s := &shop{Buying: b, replicas: map[string]int32{}, pods: map[string]*waiting{}, fleets: map[string]*v1alpha1.NodeFleet{}}
	for i := range writes {
		w := &writes[i]
		if err := s.see(w); err != nil {
			s.broken = append(s.broken, err.Error())
		}
	}
	return s.sum, s.broken
}

// waiting is the time during which a pod is pending. until is zero while it still is.
type waiting struct{ since, until time.Time }

// shop tracks the machines, the pods and the fleets.
type shop struct {
	Buying
	replicas map[string]int32 // by the name of the MachineDeployment
	pods     map[string]*waiting
	fleets   map[string]*v1alpha1.NodeFleet
	onTheWay []*purchase
	sum      Bought
	broken   []string
}

func (s *shop) see(w *Write) error {
	switch w.Resource + "/" + w.Subresource {
	case "pods/":
		s.pod(w)
	case "pods/binding":
		if p := s.pods[w.Key()]; p != nil && p.until.IsZero() {
			p.until = w.Answered
		}
	case "nodes/":
		return s.node(w)
	case "nodefleets/status":
		fleet := &v1alpha1.NodeFleet{}
		if err := w.decode(fleet); err != nil {
			return err
		}
		s.fleets[w.Name] = fleet
	case "machinedeployments/":
		var d struct {
			Spec struct {
				Replicas *int32 `json:"replicas"`
			} `json:"spec"`
		}
		if w.Verb == "delete" || w.Verb == "deletecollection" {
			return nil
		}
		if err := w.decode(&d); err != nil {
			return err
		}
		if d.Spec.Replicas != nil {
			s.scaled(w, *d.Spec.Replicas)
		}
	case "machinedeployments/scale":
		var scale autoscalingv1.Scale
		if err := w.decode(&scale); err != nil {
			return err
		}
		s.scaled(w, scale.Spec.Replicas)
	}
	return nil
}

func (s *shop) pod(w *Write) {
	switch w.Verb {
	case "create":
		var pod corev1.Pod
		if w.decode(&pod) == nil && pod.Spec.NodeName == "" {
			s.pods[w.Key()] = &waiting{since: w.Asked}
		}
	case "delete":
		if p := s.pods[w.Key()]; p != nil && p.until.IsZero() {
			p.until = w.Answered
		}
	}
}

// node counts a new Node for the oldest incomplete purchase of its flavor.
func (s *shop) node(w *Write) error {
	if w.Verb != "create" {
		return nil
	}
	var node corev1.Node
	if err := w.decode(&node); err != nil {
		return err
	}
	for _, p := range s.onTheWay { // the oldest order first
		if p.flavor == node.Labels[corev1.LabelInstanceTypeStable] && p.joined < p.count {
			p.joined++
			return nil
		}
	}
	return nil
}

// scaled records the desired replicas of a MachineDeployment, and checks an increase by the autoscaler.
func (s *shop) scaled(w *Write, to int32) {
	from, known := s.replicas[w.Name]
	s.replicas[w.Name] = to
	if w.Actor.Program() != s.Autoscaler || !known || to <= from {
		return
	}
	s.sum.Orders++
	s.sum.Machines += int(to - from)
	total := 0
	for _, n := range s.replicas {
		total += int(n)
	}
	s.sum.Peak = max(s.sum.Peak, total)
	what := fmt.Sprintf("%s ordered %d to %d machines of %s at %s", w.Actor, from, to, w.Name, clock(w.Asked))
	fleet := s.announced(v1alpha1.FleetOrder{Flavor: w.Name, From: from, To: to})
	if fleet == nil {
		s.broken = append(s.broken, "bought without a reason: "+what+", which no NodeFleet had announced")
		return
	}
	s.ordered(w, fleet, int(to-from), what)
}

// announced returns the fleet whose intent contains the order, or nil.
func (s *shop) announced(o v1alpha1.FleetOrder) *v1alpha1.NodeFleet {
	for _, fleet := range s.fleets {
		if intent := fleet.Status.Intent; intent != nil && slices.Contains(intent.Orders, o) {
			return fleet
		}
	}
	return nil
}

// ordered checks an announced order against the pending pods and the incomplete purchases.
func (s *shop) ordered(w *Write, fleet *v1alpha1.NodeFleet, count int, what string) {
	d := fleet.Status.LastDecision
	if d == nil || d.ID != fleet.Status.Intent.ID {
		s.broken = append(s.broken, "bought without a reason: "+what+" with no decision in the status of NodeFleet "+fleet.Name)
		return
	}
	pods := podsOf(d, w.Name)
	provided := s.provided(w, d)
	pending := s.pending(w.Asked)
	if len(d.Releases) == 0 && len(pending) > 0 && !slices.ContainsFunc(pending, func(pod string) bool { return !provided[pod] }) {
		s.broken = append(s.broken, fmt.Sprintf("bought twice: %s, though machines were on their way for all %d pending pods: %s", what, len(pending), strings.Join(pending, ", ")))
	}
	if len(d.Releases) == 0 && len(pending) == 0 {
		s.broken = append(s.broken, "bought without a reason: "+what+", though no pod was pending")
	}
	s.onTheWay = append(s.onTheWay, &purchase{flavor: w.Name, decision: d.ID, at: w.Asked, pods: pods, count: count})
}

// podsOf returns the pods for which a decision buys machines of a flavor, as far as it names them.
func podsOf(d *v1alpha1.FleetDecision, flavor string) map[string]bool {
	pods := map[string]bool{}
	for _, b := range d.Buys {
		if b.Flavor != flavor {
			continue
		}
		for _, m := range b.Machines {
			for _, name := range m.PodNames {
				pods[name] = true
			}
		}
	}
	return pods
}

// provided returns the pods of incomplete purchases. Other orders of the same decision do not count,
// because they are not a second purchase. It removes purchases that are complete or too old.
func (s *shop) provided(w *Write, d *v1alpha1.FleetDecision) map[string]bool {
	pods := map[string]bool{}
	s.onTheWay = slices.DeleteFunc(s.onTheWay, func(p *purchase) bool {
		return p.joined >= p.count || w.Asked.Sub(p.at) > 2*s.StartUp+10*time.Second
	})
	for _, p := range s.onTheWay {
		if p.decision != d.ID {
			maps.Copy(pods, p.pods)
		}
	}
	return pods
}

// pending returns the sorted names of the pods that were pending at a time or within Unseen before it.
func (s *shop) pending(at time.Time) (names []string) {
	for name, p := range s.pods {
		if p.since.Before(at) && (p.until.IsZero() || at.Sub(p.until) < s.Unseen) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
