package migrationdecide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// act lets a random actor do a step.
func (w *world) act() {
	w.now = w.now.Add(time.Duration(w.rnd.IntN(1500)) * time.Millisecond)
	for _, p := range w.processes {
		if p.running {
			p.progress++
		}
	}
	switch n := w.rnd.IntN(100); {
	case n < 25:
		w.controller()
	case n < 28:
		w.holdUp()
	case n < 31:
		w.comeLate()
	case n < 41:
		w.scheduler()
	case n < 55:
		w.sourceAgent()
	case n < 69:
		w.targetAgent([]string{nodeB, nodeC}[w.rnd.IntN(2)])
	case n < 88:
		w.kubelet([]string{nodeA, nodeB, nodeC}[w.rnd.IntN(3)])
	default:
		w.jobController()
		w.setController()
	}
}

// settle lets all actors act until nothing changes any more. Disconnected machines reconnect or
// are scrapped.
func (w *world) settle() error {
	w.comeLate()
	for _, node := range []string{nodeA, nodeB} {
		if w.cut[node] && w.rnd.IntN(2) == 0 {
			w.scrap(node)
		}
	}
	w.reconnect()
	quiet := 0
	for range 5000 {
		before := w.version
		w.act()
		w.now = w.now.Add(time.Second)
		if err := w.check(); err != nil {
			return err
		}
		if quiet++; w.version != before {
			quiet = 0
		}
		if quiet > 100 && (w.m == nil || Ended(w.m)) {
			return nil
		}
	}
	return fmt.Errorf("it has not ended: %+v", w.m.Status)
}

// check returns an error for a violated invariant.
func (w *world) check() error {
	running, alive := []string{}, 0
	for _, pod := range []*corev1.Pod{w.pods[source], w.restored()} {
		if pod == nil {
			continue
		}
		if p := w.processes[pod.UID]; p != nil && p.running {
			running = append(running, pod.Name)
		}
		if p := w.processes[pod.UID]; p != nil && !p.dead() {
			alive++
		}
	}
	if len(running) > 1 && !w.restarted { // the kubelet ends a fresh copy soon, but not at once
		return fmt.Errorf("two copies run: %v", running)
	}
	if !w.owned() || w.died {
		return nil
	}
	if w.job != nil && w.job.Status.Failed > 0 {
		return fmt.Errorf("the Job counts %d failures", w.job.Status.Failed)
	}
	if w.made > 0 && alive > 0 {
		return fmt.Errorf("its owner has made a pod beside the one that moves")
	}
	return nil
}

// checkEnd returns an error for a violated invariant after everything has settled.
func (w *world) checkEnd() error {
	if w.m != nil && len(w.m.Finalizers) > 0 {
		return fmt.Errorf("the finalizer is still there")
	}
	for node, left := range w.left {
		if left {
			return fmt.Errorf("something is left on %s", node)
		}
	}
	restored := w.restored()
	if restored != nil && (restored.Labels[v1alpha1.LabelMigration] != "" || !w.took(restored)) {
		return fmt.Errorf("pod %s is left over", restored.Name)
	}
	for _, p := range w.processes {
		if p.frozen {
			return fmt.Errorf("a process is frozen without end")
		}
	}
	if got := w.copies(); len(got) > 1 {
		return fmt.Errorf("two copies continue: %v", got)
	}
	if w.died {
		return nil
	}
	return w.checkSurvivor(restored)
}

// checkSurvivor returns an error unless there is one copy, with all the work, in the old pod's
// place.
func (w *world) checkSurvivor(restored *corev1.Pod) error {
	survivors := 0
	for _, pod := range []*corev1.Pod{w.pods[source], restored} {
		if pod == nil || w.processes[pod.UID] == nil || !w.processes[pod.UID].running {
			continue
		}
		survivors++
		if w.ran && pod.Name == source && !w.restarted {
			return fmt.Errorf("work is done twice: %s continues although the new pod has run", pod.Name)
		}
		if got := w.processes[pod.UID].progress; got < w.frozenAt && (!w.restarted || pod.Name != source) {
			return fmt.Errorf("work is lost: %s is at %d, and it was frozen at %d", pod.Name, got, w.frozenAt)
		}
		if w.owned() && !w.owns(pod) {
			return fmt.Errorf("%s runs and its owner does not know it", pod.Name)
		}
		if w.job == nil && pod.Labels["app"] != "work" {
			return fmt.Errorf("%s runs without the labels of its place", pod.Name)
		}
	}
	if survivors != 1 {
		return fmt.Errorf("%d copies are left", survivors)
	}
	return nil
}

// took reports whether the new pod has taken over.
func (w *world) took(pod *corev1.Pod) bool {
	if w.owned() {
		return w.owns(pod)
	}
	return pod.Labels["app"] == "work"
}

// walk simulates one life of a migration, and returns its last phase.
func walk(seed uint64) (string, *world, error) {
	w := newWorld(seed, owner(seed%3))
	troubles := int(seed/3) % 4 // some lives have none
	for range 40 + w.rnd.IntN(260) {
		if troubles > 0 && w.rnd.IntN(60) == 0 {
			troubles--
			w.trouble()
		}
		w.act()
		if err := w.check(); err != nil {
			return "", w, err
		}
	}
	if err := w.settle(); err != nil {
		return "", w, err
	}
	if err := w.checkEnd(); err != nil {
		return "", w, err
	}
	if w.m == nil {
		return "Gone", w, nil
	}
	return string(w.m.Status.Phase), w, nil
}

// TestWhateverHappensTheInvariantsHold: whatever the actors do, in whatever order, and wherever
// they die, no two copies run, the Job counts no failure, no owner creates another pod, no work
// is lost, everything ends, and nothing is left.
func TestWhateverHappensTheInvariantsHold(t *testing.T) {
	const lives = 2000
	ends := map[string]int{}
	for seed := range uint64(lives) {
		end, w, err := walk(seed)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(w.trace, "\n"))
		}
		ends[end]++
	}
	for _, end := range []string{"Succeeded", "RolledBack", "Refused", "Gone"} {
		if ends[end] < lives/100 {
			t.Errorf("%d of %d lives end as %s: too few for a test (%v)", ends[end], lives, end, ends)
		}
	}
	t.Logf("ends: %v", ends)
}
