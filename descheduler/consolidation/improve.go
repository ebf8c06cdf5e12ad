package consolidation

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/score"
	"supercargo.dev/supercargo/energy/tariff"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/text/clip"
	"supercargo.dev/supercargo/internal/world"
	"supercargo.dev/supercargo/moves"
)

// improve moves pods to machines that suit them better, if the next decision is due.
func (r *round) improve(ctx context.Context) error {
	e := &r.Config.Energy
	if e.Mode == Off || !r.Profiles {
		return nil
	}
	if wait := r.memory.improves.Sub(r.now); wait > 0 {
		r.again = min(r.again, wait)
		return nil
	}
	r.memory.improves = r.now.Add(e.Interval)
	r.again = min(r.again, e.Interval)
	profiles, err := r.profiles(ctx)
	if err != nil || len(profiles) == 0 {
		return err
	}
	machines := r.machines(profiles)
	r.price(ctx, &machines)
	transfers := moves.Better(moves.TransferConfig{
		Gain: int64(e.Gain), PodResidence: r.Config.Residence, Budget: moves.Budget{Pods: r.Config.MaxPods}, IdleCounts: e.IdleCounts,
	}, machines, r.improvable())
	if len(transfers) == 0 {
		return nil
	}
	r.decideTransfers(transfers)
	if err := r.carryOver(ctx, transfers); err != nil {
		return err
	}
	return r.report(ctx)
}

// profiles returns the profiles of machine types. The scheduler reports invalid ones.
func (r *round) profiles(ctx context.Context) (profile.Set, error) {
	var list v1alpha1.MachineProfileList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list MachineProfiles: %w", err)
	}
	var book profile.Book
	for i := range list.Items {
		if err := book.Put(&list.Items[i]); err != nil {
			log.FromContext(ctx).V(1).Info("Ignored a MachineProfile", "machineProfile", list.Items[i].Name, "reason", err.Error())
		}
	}
	return book.Set(), nil
}

// machines returns the machine types of the round's nodes and the energy weights of its pods.
func (r *round) machines(profiles profile.Set) moves.Machines {
	pods := r.podsByName()
	return moves.Machines{
		Profiles: profiles, Now: r.now,
		Type:     func(n *cluster.Node) string { return score.MachineType(r.world.Nodes[n.Name].Labels) },
		Governor: func(n *cluster.Node) string { return score.Governor(r.world.Nodes[n.Name].Annotations) },
		Weight: func(p *cluster.Pod) float64 {
			pod := pods[p.Name]
			if pod == nil {
				return r.Config.Energy.Weight
			}
			w, _ := score.WeightOf(pod.Annotations, r.world.NamespaceAnnotations[pod.Namespace], r.Config.Energy.Weight) // the scheduler reports an invalid one
			return w.H
		},
	}
}

func (r *round) podsByName() map[string]*corev1.Pod {
	pods := make(map[string]*corev1.Pod, len(r.world.Pods))
	for _, pod := range r.world.Pods {
		pods[world.PodName(pod)] = pod
	}
	return pods
}

// improvable returns the state in which all pods are fixed that must not be moved one by one:
// those on nodes that are not selected, and those that neither a Migration moves nor ask to be started again.
func (r *round) improvable() *cluster.State {
	s, pods := *r.plannable(), r.podsByName()
	for i := range s.Nodes {
		n := &s.Nodes[i]
		labelled := r.world.Nodes[n.Name].Labels
		_, controlPlane := labelled[labelControlPlane]
		chosen := !controlPlane && r.selector.Matches(labels.Set(labelled))
		n.Pods = slices.Clone(n.Pods)
		for j := range n.Pods {
			p := &n.Pods[j]
			if p.Fixed || !chosen || !r.improves(pods[p.Name]) {
				p.Fixed = true
			}
		}
	}
	return &s
}

// stepOf returns how a pod would leave now.
func (r *round) stepOf(pod *corev1.Pod) drain.Step {
	if pod == nil {
		return drain.Step{Do: drain.GiveUp}
	}
	return drain.Mark{}.Next(r.emptying.Leaver(pod), r.now)
}

// improves reports whether a pod may be moved by itself: by a Migration, or by an eviction if it asks to be started
// again. Others are evicted only when their node is drained.
func (r *round) improves(pod *corev1.Pod) bool {
	switch r.stepOf(pod).Do {
	case drain.Migrate:
		return true
	case drain.Evict:
		return pod.Annotations[v1alpha1.AnnotationMigration] == v1alpha1.MigrationRestart
	}
	return false
}

// decideTransfers records the decision.
func (r *round) decideTransfers(transfers []moves.Transfer) {
	d := r.memory.decision
	if d == nil {
		d = &v1alpha1.ConsolidationStatus{Time: new(metav1.NewTime(r.now)), Mode: string(r.Config.Mode), Policy: string(r.Config.Policy), Nodes: int32(len(r.state.Nodes))}
		r.memory.decision = d
	}
	d.Energy = nil
	for i := range transfers {
		t := &transfers[i]
		decided := v1alpha1.EnergyMove{
			Time: metav1.NewTime(r.now), Pod: t.Pod, From: t.From, Target: t.To, Method: t.Method.String(),
			Joules: int64(math.Round(t.Joules)), SoonerSeconds: int64(t.Sooner.Round(time.Second) / time.Second), Reason: clip.Bytes(t.Reason, mostText),
		}
		switch {
		case t.Priced && r.tariff.Unit() == tariff.Grams:
			decided.CO2Grams = saved(t.Saves)
		case t.Priced:
			decided.Dollars = saved(t.Saves)
		}
		d.Energy = append(d.Energy, decided)
	}
}

// saved formats an expected saving, in dollars or grams, with six decimals.
func saved(amount float64) string { return strconv.FormatFloat(amount, 'f', 6, 64) }

// carryOver requests the moves, or only reports them. The scheduler places a pod that was evicted, by the same score.
func (r *round) carryOver(ctx context.Context, transfers []moves.Transfer) error {
	acts, pods := r.mayAct(r.Config.Energy.Mode), r.podsByName()
	room := r.Config.MaxPods - r.onTheirWay()
	for i := range transfers {
		t := &transfers[i]
		pod := pods[t.Pod]
		if !acts {
			log.FromContext(ctx).Info("Would move a pod to a machine that suits it better", "pod", t.Pod, "from", t.From, "to", t.To, "reason", t.Reason)
			r.recordPodEvent(pod, v1alpha1.ConsolidationReasonWouldMove, "to node %s: %s", t.To, t.Reason)
			continue
		}
		if room--; room < 0 {
			return nil
		}
		step := r.stepOf(pod)
		step.Target = t.To
		asked, err := r.emptying.Do(ctx, pod, step, drain.Descheduler)
		if err != nil {
			return err
		}
		switch asked {
		case drain.Migration:
			metricMoves.WithLabelValues("migration").Inc()
			r.recordPodEvent(pod, v1alpha1.ConsolidationReasonMoving, "to node %s: %s", t.To, t.Reason)
		case drain.Eviction:
			metricMoves.WithLabelValues("eviction").Inc()
			r.recordPodEvent(pod, v1alpha1.ConsolidationReasonMoving, "evicted, because node %s suits it better: %s", t.To, t.Reason)
		case drain.Nothing:
			continue
		}
		metricExpectedJoules.Add(max(0, t.Joules))
		if t.Priced {
			metricExpectedEnergy.WithLabelValues(string(r.tariff.Unit())).Add(max(0, t.Saves))
		}
	}
	return nil
}

// recordPodEvent creates an Event on a pod, unless one with that reason was created recently.
func (r *round) recordPodEvent(pod *corev1.Pod, reason, format string, args ...any) {
	key := reported{world.PodName(pod), reason}
	if r.DryRun || r.now.Sub(r.memory.reported[key]) < repeated {
		return
	}
	maps.DeleteFunc(r.memory.reported, func(_ reported, at time.Time) bool { return r.now.Sub(at) >= repeated })
	r.memory.reported[key] = r.now
	r.Events.Eventf(pod, nil, corev1.EventTypeNormal, reason, v1alpha1.ActionMove, format, args...)
}
