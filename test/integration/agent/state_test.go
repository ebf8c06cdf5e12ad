package agent

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// TestAnotherAgentContinues ends the agent at every step of a migration, and starts another.
func TestAnotherAgentContinues(t *testing.T) {
	b := newBench(t)
	again := func() { b.stop(); b.start() }
	b.start()
	pod := b.pod("work")
	m := b.migration(pod)
	certificate := b.sourceSays(m, v1alpha1.SourcePrepared).Certificate
	again()
	b.reserve(m, b.to)
	b.targetSays(m, v1alpha1.TargetPrepared)
	again()
	b.order(m, v1alpha1.OrderFreeze)
	b.targetSays(m, v1alpha1.TargetStaged)
	if got := b.sourceSays(m, v1alpha1.SourceShipped).Certificate; got != certificate {
		t.Error("the second agent has made another certificate: the target would not know it")
	}
	b.stop()
	if !b.is("frozen", pod) {
		t.Error("an agent that ends lets a container continue whose copy may run")
	}
	b.start()
	b.order(m, v1alpha1.OrderKill)
	b.sourceSays(m, v1alpha1.SourceKilled)
	again()
	b.order(m, v1alpha1.OrderClean)
	b.sourceSays(m, v1alpha1.SourceCleaned)
	b.targetSays(m, v1alpha1.TargetCleaned)
	b.nothingLeft()
}

// TestOrdersThatCameMeanwhileAreCarriedOut gives orders while no agent runs.
func TestOrdersThatCameMeanwhileAreCarriedOut(t *testing.T) {
	b := newBench(t)
	b.start()
	pod := b.pod("work")
	m := b.migration(pod)
	b.sourceSays(m, v1alpha1.SourcePrepared)
	b.reserve(m, b.to)
	b.targetSays(m, v1alpha1.TargetPrepared)
	b.order(m, v1alpha1.OrderFreeze)
	b.sourceSays(m, v1alpha1.SourceShipped)
	b.stop()
	b.order(m, v1alpha1.OrderThaw)
	b.order(m, v1alpha1.OrderClean)
	b.start()
	b.sourceSays(m, v1alpha1.SourceCleaned)
	b.targetSays(m, v1alpha1.TargetCleaned)
	if b.is("frozen", pod) || b.is("killed", pod) {
		t.Error("the container does not continue")
	}
	b.nothingLeft()
}

func TestKillThatWasMissedIsMadeUpForOnClean(t *testing.T) {
	b := newBench(t)
	b.start()
	pod := b.pod("work")
	m := b.shipped(pod)
	b.stop()
	b.write(m, func(s *v1alpha1.MigrationStatus) {
		s.Commit = v1alpha1.CommitHandedOver
		s.Order = v1alpha1.OrderClean
	})
	b.start()
	b.sourceSays(m, v1alpha1.SourceCleaned)
	if !b.is("killed", pod) {
		t.Error("the container was let continue, though the new pod has its place")
	}
}

// shipped brings a migration to the point where the target has all data.
func (b *bench) shipped(pod *corev1.Pod) *v1alpha1.Migration {
	b.Helper()
	m := b.migration(pod)
	b.sourceSays(m, v1alpha1.SourcePrepared)
	b.reserve(m, b.to)
	b.targetSays(m, v1alpha1.TargetPrepared)
	b.order(m, v1alpha1.OrderFreeze)
	b.targetSays(m, v1alpha1.TargetStaged)
	b.sourceSays(m, v1alpha1.SourceShipped)
	return m
}

func TestMigrationThatIsGoneLetsTheContainerContinue(t *testing.T) {
	b := newBench(t)
	b.start()
	pod := b.pod("work")
	m := b.shipped(pod)
	if err := b.Delete(b.Context(), m); err != nil {
		t.Fatal(err)
	}
	b.nothingLeft()
	if b.is("frozen", pod) || b.is("killed", pod) {
		t.Error("the container does not continue")
	}
}

func TestMigrationThatIsGoneWithItsPodKills(t *testing.T) {
	b := newBench(t)
	b.start()
	pod := b.pod("work")
	pod.Finalizers = []string{"test.supercargo.dev/hold"}
	if err := b.Update(b.Context(), pod); err != nil {
		t.Fatal(err)
	}
	m := b.shipped(pod)
	b.stop()
	for _, object := range []client.Object{pod, m} {
		if err := b.Delete(b.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	b.start()
	b.nothingLeft()
	if !b.is("killed", pod) {
		t.Error("the container of a pod that is being deleted continues")
	}
	if err := b.Get(b.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatal(err)
	}
	pod.Finalizers = nil
	if err := b.Update(b.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// TestAnAPIServerThatCannotBeReachedChangesNothing checks that the agent keeps its state, because it cannot
// know whether its Migration has been deleted.
func TestAnAPIServerThatCannotBeReachedChangesNothing(t *testing.T) {
	b := newBench(t)
	b.start()
	pod := b.pod("work")
	b.shipped(pod)
	b.stop()
	away := b.config
	config := *b.config.Client
	config.Host = "https://127.0.0.1:1"
	away.Client, away.Resync = &config, 20*time.Millisecond
	here := b.config
	b.config = away
	b.start()
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); {
		if !b.is("frozen", pod) {
			t.Fatal("the container was thawed by an agent that does not know whether it may")
		}
		<-time.After(poll)
	}
	b.stop()
	b.config = here
}

func TestRoomThatIsGivenAwayIsCleared(t *testing.T) {
	b := newBench(t)
	b.start()
	m := b.migration(b.pod("work"))
	b.sourceSays(m, v1alpha1.SourcePrepared)
	b.reserve(m, b.to)
	b.targetSays(m, v1alpha1.TargetPrepared)
	other := b.Space + "-c"
	b.addNode(other)
	b.reserve(m, other)
	b.Eventually("the other node is prepared", func() string {
		b.read(m)
		if r := m.Status.Target; r == nil || r.Node != other || r.Step != v1alpha1.TargetPrepared {
			return fmt.Sprintf("the target says %+v", r)
		}
		return ""
	})
	b.order(m, v1alpha1.OrderFreeze)
	if r := b.targetSays(m, v1alpha1.TargetStaged); r.Node != other {
		t.Errorf("staged on %s, want %s", r.Node, other)
	}
}

func TestContainerThatOthersLetContinueIsNotRestored(t *testing.T) {
	b := newBench(t)
	b.start()
	pod := b.pod("work")
	m := b.migration(pod)
	b.sourceSays(m, v1alpha1.SourcePrepared)
	b.reserve(m, b.to)
	b.targetSays(m, v1alpha1.TargetPrepared)
	b.config.Simulation.Model.ShipRate = 10 << 20 // it takes some seconds
	b.stop()
	b.start()
	b.order(m, v1alpha1.OrderFreeze)
	b.sourceSays(m, v1alpha1.SourceDumped)
	b.unmark("frozen", pod)
	if r := b.sourceSays(m, v1alpha1.SourceFailed); r.Reason != v1alpha1.MigrationReasonThawed {
		t.Errorf("the source says %s: %s, want reason Thawed", r.Reason, r.Message)
	}
	if m.Status.Target.Step == v1alpha1.TargetStaged {
		t.Error("what is no longer the container's state was staged")
	}
}

func TestFailuresAreReportedAndMadeEvents(t *testing.T) {
	b := newBench(t)
	b.config.Limits.ImageBytes = 10 << 20
	b.start()
	m := b.migration(b.pod("work"))
	r := b.sourceSays(m, v1alpha1.SourceFailed)
	if r.Reason != v1alpha1.MigrationReasonTooLarge || r.Message == "" {
		t.Errorf("the source says %+v, want reason TooLarge", r)
	}
	b.Eventually("there is an Event", func() string {
		var events eventsv1.EventList
		if err := b.List(b.Context(), &events, client.InNamespace(b.Space)); err != nil {
			return err.Error()
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.Regarding.UID == m.UID && e.Reason == v1alpha1.MigrationReasonTooLarge && e.Note == r.Message && e.Type == corev1.EventTypeWarning {
				return ""
			}
		}
		return fmt.Sprintf("there are %d others", len(events.Items))
	})
	b.order(m, v1alpha1.OrderThaw)
	b.sourceSays(m, v1alpha1.SourceThawed)
}

// TestOnlySoManyAreFrozenAtOnce checks the limit of a node, with five migrations and the times at which each
// is frozen.
func TestOnlySoManyAreFrozenAtOnce(t *testing.T) {
	b := newBench(t)
	b.config.Limits.Moves, b.config.Simulation.Model.ShipRate = 2, 1 // no frozen migration progresses
	b.start()
	var moves []*v1alpha1.Migration
	var pods []*corev1.Pod
	for i := range 5 {
		pod := b.pod(fmt.Sprintf("work-%d", i))
		m := b.migration(pod)
		pods, moves = append(pods, pod), append(moves, m)
		b.sourceSays(m, v1alpha1.SourcePrepared)
		b.reserve(m, b.to)
		b.targetSays(m, v1alpha1.TargetPrepared)
	}
	for _, m := range moves {
		b.order(m, v1alpha1.OrderFreeze)
	}
	// Each migration that is thawed makes room for the next.
	for range moves {
		b.Eventually("two at most are frozen, and one is dumped", func() string {
			frozen := 0
			for _, pod := range pods {
				if b.is("frozen", pod) {
					frozen++
				}
			}
			if frozen > 2 {
				t.Fatalf("%d containers are frozen at once, want 2 at most", frozen)
			}
			for _, m := range moves {
				b.read(m)
				if m.Status.Source.Step == v1alpha1.SourceDumped && m.Status.Order == v1alpha1.OrderFreeze {
					b.order(m, v1alpha1.OrderThaw)
					b.sourceSays(m, v1alpha1.SourceThawed)
					return ""
				}
			}
			return "none is dumped"
		})
	}
}

func TestNodeHasRoomForSoManyImages(t *testing.T) {
	b := newBench(t)
	b.config.Limits.Images = 1
	b.start()
	first := b.shipped(b.pod("first"))
	second := b.migration(b.pod("second"))
	b.sourceSays(second, v1alpha1.SourcePrepared)
	b.reserve(second, b.to)
	if r := b.targetSays(second, v1alpha1.TargetFailed); r.Reason != v1alpha1.MigrationReasonNoRoom {
		t.Errorf("the target says %s: %s, want reason NoRoom", r.Reason, r.Message)
	}
	// The controller, which waits for the failed target, receives the report that nothing is left, even after
	// its reservation was removed.
	b.write(second, func(s *v1alpha1.MigrationStatus) { s.Reservation, s.Order = nil, v1alpha1.OrderThaw })
	b.targetSays(second, v1alpha1.TargetCleaned)
	b.order(first, v1alpha1.OrderThaw)
	b.targetSays(first, v1alpha1.TargetCleaned)
	third := b.shipped(b.pod("third"))
	if third.Status.Target.Step != v1alpha1.TargetStaged {
		t.Error("room that is free again is not used")
	}
}
