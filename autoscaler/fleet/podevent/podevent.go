// Package podevent decides which Events NodeFleets record about pods that the scheduler cannot place: that a machine was
// ordered for a pod, or that no fleet buys one. The reasons of the Events are those of cluster-autoscaler.
//
// It is pure: [Book.Add] is given what a round has decided, and returns the Events to record.
package podevent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
)

const (
	// Most is the maximum number of Events of one round. Those about orders come first; the rest follow in later rounds,
	// about the pods that still wait then.
	Most = 100
	// changed is how long after an Event that no machine is bought another one may give a different reason: by then, the API
	// server no longer counts it as a repetition. repeated is after how long it may give the same reason, so that a pod that
	// waits for long always has one, because Events expire after an hour by default.
	changed, repeated = 10 * time.Minute, 30 * time.Minute
	// mostFleets is the maximum number of fleets whose reasons an Event gives.
	mostFleets = 5
	// seconds is the start-up time below which times are given with seconds.
	seconds = 2 * time.Minute
)

// Wait is a pod for which a machine has been ordered.
type Wait struct {
	// Pod is the name of the pod, as in decisions.
	Pod string
	// Flavor is that of the machine, Ordered is when it was ordered, and Expected is when it is expected to accept pods.
	Flavor            string
	Ordered, Expected time.Time
}

// Round is what one round of a fleet that buys machines has decided about pods.
type Round struct {
	// Fleet is the name of the fleet, and Beside are the names of the other fleets that buy machines.
	Fleet  string
	Beside []string
	// Pods are the UIDs of all unschedulable pods, by name. Other pods get no Event.
	Pods map[string]types.UID
	// Waits are the pods for which the round has ordered a machine.
	Waits []Wait
	// Refused are the reasons why the fleet buys no machine for a pod, by pod name.
	Refused map[string]string
}

// Event is an Event about a pod.
type Event struct {
	Pod, Reason, Action, Message string
}

// Book records which Events were returned, of all fleets. The zero value is ready for use. All of it may be lost: then the
// Events that no machine is bought are recorded once more. It is not safe for concurrent use.
type Book struct {
	// fleets has what was last decided, by fleet.
	fleets map[string]*fleet
	// last is the last Event about a pod.
	last map[types.UID]note
}

// fleet is what a fleet has decided last.
type fleet struct {
	// suspended means that it buys nothing now, and refuses no pod in particular.
	suspended bool
	refused   map[string]string
	// left are the pods for which machines were ordered and that have no Event yet.
	left []Wait
}

// note is an Event in short.
type note struct {
	at   time.Time
	text string
	// order means that it is about an order.
	order bool
}

// Suspend records that a fleet buys no machines for now, so that it does not count among those that could.
func (b *Book) Suspend(name string) { b.of(name).suspended = true }

// Forget drops a fleet that no longer exists.
func (b *Book) Forget(name string) { delete(b.fleets, name) }

func (b *Book) of(name string) *fleet {
	if b.fleets == nil {
		b.fleets, b.last = map[string]*fleet{}, map[types.UID]note{}
	}
	if b.fleets[name] == nil {
		b.fleets[name] = &fleet{}
	}
	return b.fleets[name]
}

// Idle reports whether a round without orders and refusals would return no Events: nothing is left of earlier rounds. It
// saves such a round from listing the pods.
func (b *Book) Idle(name string) bool {
	f := b.fleets[name]
	return f != nil && !f.suspended && len(f.left)+len(f.refused) == 0
}

// Add records a round, and returns the Events to record, at most [Most]: one for each order for a pod, and one for each pod
// that all fleets refuse. It is not repeated in each round. Orders that are left from earlier rounds come first; pods that
// are refused are ordered by name.
//
// Cost: O(pods of the round + pods of earlier Events).
func (b *Book) Add(r *Round, now time.Time) []Event {
	f := b.of(r.Fleet)
	f.suspended, f.refused = false, r.Refused
	b.prune(r.Pods)
	var all []Event
	waits := append(replaced(f.left, r.Waits), r.Waits...)
	f.left = nil
	for _, w := range waits {
		uid, is := r.Pods[w.Pod]
		switch {
		case !is: // it is expected, or has a node by now
		case len(all) == Most:
			f.left = append(f.left, w)
		default:
			e := Event{w.Pod, v1alpha1.PodReasonTriggeredScaleUp, v1alpha1.ActionBuy, w.text(r.Fleet)}
			b.last[uid] = note{now, e.Message, true}
			all = append(all, e)
		}
	}
	for _, pod := range slices.Sorted(maps.Keys(r.Refused)) {
		if len(all) == Most {
			break
		}
		uid, is := r.Pods[pod]
		text := b.refusal(pod, r)
		if last, has := b.last[uid]; !is || text == "" || has && !last.again(text, now) {
			continue
		}
		b.last[uid] = note{now, text, false}
		all = append(all, Event{pod, v1alpha1.PodReasonNotTriggerScaleUp, v1alpha1.ActionPlan, text})
	}
	return all
}

// replaced returns the waits without those of pods that later ones are about.
func replaced(waits, later []Wait) []Wait {
	again := make(map[string]bool, len(later))
	for _, w := range later {
		again[w.Pod] = true
	}
	return slices.DeleteFunc(slices.Clone(waits), func(w Wait) bool { return again[w.Pod] })
}

// prune drops the Events about pods that no longer wait.
func (b *Book) prune(pods map[string]types.UID) {
	if len(b.last) == 0 {
		return
	}
	waiting := make(map[types.UID]bool, len(pods))
	for _, uid := range pods {
		waiting[uid] = true
	}
	maps.DeleteFunc(b.last, func(uid types.UID, _ note) bool { return !waiting[uid] })
}

// refusal returns why no fleet buys a machine for a pod, or "" if one buys, or may do so when it decides next.
func (b *Book) refusal(pod string, r *Round) string {
	var reasons []string
	for _, name := range slices.Sorted(slices.Values(append(slices.Clone(r.Beside), r.Fleet))) {
		f := b.fleets[name]
		if f != nil && f.suspended {
			continue
		}
		if f == nil || f.refused[pod] == "" {
			return ""
		}
		reasons = append(reasons, fmt.Sprintf("NodeFleet %s: %s", name, f.refused[pod]))
	}
	if more := len(reasons) - mostFleets; more > 0 {
		reasons = append(reasons[:mostFleets], fmt.Sprintf("and %d more", more))
	}
	return "no machine is bought for the pod. " + strings.Join(reasons, "; ")
}

// again reports whether an Event that no machine is bought may follow another Event about the pod.
func (n note) again(text string, now time.Time) bool {
	switch since := now.Sub(n.at); {
	case n.order:
		return true
	case n.text != text:
		return since >= changed
	default:
		return since >= repeated
	}
}

// text describes an order for people.
func (w *Wait) text(fleet string) string {
	layout := "15:04"
	if w.Expected.Sub(w.Ordered) < seconds {
		layout = "15:04:05"
	}
	return fmt.Sprintf("waits for %s, ordered %s, expected %s UTC (NodeFleet %s)", w.Flavor, w.Ordered.UTC().Format(layout), w.Expected.UTC().Format(layout), fleet)
}
