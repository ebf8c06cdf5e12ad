package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
)

// Pod is one pod of the workload. Its name is unique. Arrival is relative to the start of the run.
// Runtime is at speed 1, and 0 for services.
type Pod struct {
	cluster.Pod
	// Lifetime is how long a service runs from its start; 0 means until the end of the run. It is 0
	// for batch pods.
	Lifetime time.Duration
	// Category groups pods that do the same kind of work; empty means unknown.
	Category string
	// Migration is how the pod may be moved.
	Migration Migratable
}

// Migratable is a pod's own declaration of how it may be moved.
type Migratable string

const (
	// MoveAsLiked means that the pod declares nothing and the policy decides.
	MoveAsLiked Migratable = ""
	// MoveWithState allows migration to a node of the same architecture.
	MoveWithState Migratable = "checkpoint"
	// MoveByRestart allows a restart on another node of any architecture.
	MoveByRestart Migratable = "restart"
	// MoveNever forbids moving the pod.
	MoveNever Migratable = "never"
)

// Arrivals returns the pods of all workload entries in order of arrival. Ties are ordered by entry:
// listed pods, then traces, then patterns, each in file order, and within an entry by index. None
// arrives after the horizon.
//
// The seed and the name of a pattern determine its random numbers, so adding an entry does not
// change the pods of others. Times, kinds and runtimes are drawn independently, so changing a mix
// does not change the times. The pods of a pattern are named PATTERN-KIND-N, with N from 0 within
// the pattern, and '-' for each '_' of the kind.
//
// It returns an error if two pods have the same name. Cost: O(n log n).
func (s *Scenario) Arrivals(seed uint64) ([]Pod, error) {
	var pods []Pod
	for _, task := range s.Workload.Pods {
		pods = task.appendPods(pods)
	}
	for _, recorded := range s.Workload.Traces {
		pods = append(pods, recorded.Pods...)
	}
	for _, p := range s.Workload.Patterns {
		drawn, err := s.draw(p, seed)
		if err != nil {
			return nil, fmt.Errorf("draw pattern %s: %w", p.Name, err)
		}
		pods = append(pods, drawn...)
	}
	seen := make(map[string]bool, len(pods))
	for _, pod := range pods {
		if seen[pod.Name] {
			return nil, fmt.Errorf("scenario %s: two pods have the name %q: the names of the entries must make pod names unique", s.Name, pod.Name)
		}
		seen[pod.Name] = true
	}
	slices.SortStableFunc(pods, func(a, b Pod) int { return cmp.Compare(a.Arrival, b.Arrival) })
	return pods, nil
}

// appendPods appends the pods of a task.
func (t Task) appendPods(pods []Pod) []Pod {
	if t.Count == 1 {
		return append(pods, t.Pod)
	}
	for i := range t.Count {
		pod := t.Pod
		pod.Name += "-" + strconv.FormatInt(i, 10)
		pods = append(pods, pod)
	}
	return pods
}

// draw returns the pods of a pattern in order of arrival.
func (s *Scenario) draw(p Pattern, seed uint64) ([]Pod, error) {
	kinds := make([]TaskKind, len(p.Mix))
	var sum int64
	for i, share := range p.Mix {
		at, found := slices.BinarySearchFunc(s.TaskKinds, share.Kind, func(k TaskKind, name string) int { return cmp.Compare(k.Name, name) })
		if !found {
			return nil, fmt.Errorf("task kind %q does not exist", share.Kind)
		}
		kinds[i] = s.TaskKinds[at]
		sum += share.Weight
	}
	chosen, lengths, weights := newStream(seed, p.Name+"/kinds"), newStream(seed, p.Name+"/runtimes"), newStream(seed, p.Name+"/weights")
	times := p.times(seed, s.Horizon)
	pods := make([]Pod, len(times))
	for i, at := range times {
		kind := kinds[pick(p.Mix, chosen.below(sum))]
		pods[i] = kind.pod(at, lengths)
		if share := float64(weights.below(1001)) / 1000; kind.Weights != nil {
			h := kind.Weights.Least + float64(share*(kind.Weights.Most-kind.Weights.Least))
			pods[i].EnergyWeight = &h
		}
		pods[i].Name = p.Name + "-" + strings.ReplaceAll(kind.Name, "_", "-") + "-" + strconv.Itoa(i)
	}
	return pods, nil
}

// pick returns the index of the share that contains the given point of the sum of weights.
func pick(shares []Share, point int64) int {
	for i, share := range shares {
		if point < share.Weight {
			return i
		}
		point -= share.Weight
	}
	return len(shares) - 1
}

// pod returns a pod of the kind, without a name. It always draws one random number, so that the
// kinds of earlier pods do not influence the runtimes of later ones beyond their range.
func (k TaskKind) pod(at time.Duration, lengths stream) Pod {
	pod := Pod{
		Pod: cluster.Pod{Class: k.Class, Item: packing.Item{Size: k.Size, Arrival: at}, Arch: k.Arch, Namespace: k.Namespace, EnergyWeight: k.EnergyWeight}, Category: k.Category,
		Migration: k.Migration,
	}
	steps := int64((k.MaxRuntime-k.MinRuntime)/time.Millisecond) + 1
	length := k.MinRuntime + time.Duration(lengths.below(steps))*time.Millisecond
	if k.Class == class.Batch {
		pod.Runtime = length
	} else {
		pod.Lifetime = length
	}
	return pod
}

// Draw returns the lag of the n-th machine that is bought, in whole milliseconds. It approximates a
// normal distribution by the sum of twelve uniform numbers, so it is at most six standard
// deviations off, and never below zero.
func (l Lag) Draw(seed uint64, n int) time.Duration {
	if l.SD == 0 {
		return l.Mean
	}
	s := newStream(seed, "lag/"+strconv.Itoa(n))
	sum := int64(0)
	for range 12 {
		sum += s.below(1 << 32)
	}
	off := float64(sum-6<<32) / (1 << 32) // mean 0, variance 1
	return max(0, l.Mean+time.Duration(float64(l.SD)*off)).Truncate(time.Millisecond)
}
