package agent

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable/capability"
)

func TestAgentSaysOnEachNodeWhatItCanDo(t *testing.T) {
	b := newBench(t)
	b.start()
	for _, name := range []string{b.from, b.to} {
		b.Eventually("the annotation is there", func() string {
			var node corev1.Node
			if err := b.Get(b.Context(), client.ObjectKey{Name: name}, &node); err != nil {
				return err.Error()
			}
			can, err := capability.ParseNode(node.Annotations[v1alpha1.AnnotationCapability])
			if err != nil {
				return err.Error()
			}
			if err := (capability.Requirements{Backend: v1alpha1.BackendSimulated}).Fits(can); err != nil {
				return err.Error()
			}
			return ""
		})
	}
}

func TestMoveGoesAllTheWay(t *testing.T) {
	b := newBench(t)
	b.start()
	pod := b.pod("work")
	m := b.migration(pod)
	prepared := b.sourceSays(m, v1alpha1.SourcePrepared)
	if prepared.MemoryBytes != 50<<20 {
		t.Errorf("the source says %d bytes of memory, want half of the request: %d", prepared.MemoryBytes, 50<<20)
	}
	b.reserve(m, b.to)
	if target := b.targetSays(m, v1alpha1.TargetPrepared); target.Node != b.to || target.Address == "" || target.Certificate == "" {
		t.Errorf("the target says %+v: want its node, address and certificate", target)
	}
	if b.is("frozen", pod) {
		t.Error("the container is frozen before that was ordered")
	}
	b.order(m, v1alpha1.OrderFreeze)
	staged := b.targetSays(m, v1alpha1.TargetStaged)
	shipped := b.sourceSays(m, v1alpha1.SourceShipped)
	if shipped.DumpBytes != 50<<20 || shipped.ShipTries != 1 || shipped.FrozenAt == nil || staged.Digest == "" || staged.StagedBytes != 50<<20 {
		t.Errorf("reports: source %+v, target %+v", shipped, staged)
	}
	if !b.is("frozen", pod) {
		t.Error("the container runs after its state was taken")
	}
	b.order(m, v1alpha1.OrderKill)
	b.sourceSays(m, v1alpha1.SourceKilled)
	if !b.is("killed", pod) {
		t.Error("the container is not dead")
	}
	b.order(m, v1alpha1.OrderClean)
	b.sourceSays(m, v1alpha1.SourceCleaned)
	b.targetSays(m, v1alpha1.TargetCleaned)
	b.nothingLeft()
}

func TestThawUndoesTheMoveAtEveryStep(t *testing.T) {
	for _, at := range []string{"prepared", "reserved", "frozen"} {
		t.Run(at, func(t *testing.T) {
			b := newBench(t)
			b.start()
			pod := b.pod("work")
			m := b.migration(pod)
			b.sourceSays(m, v1alpha1.SourcePrepared)
			if at != "prepared" {
				b.reserve(m, b.to)
				b.targetSays(m, v1alpha1.TargetPrepared)
			}
			if at == "frozen" {
				b.order(m, v1alpha1.OrderFreeze)
				b.sourceSays(m, v1alpha1.SourceShipped)
			}
			b.order(m, v1alpha1.OrderThaw)
			b.sourceSays(m, v1alpha1.SourceThawed)
			if b.is("frozen", pod) || b.is("killed", pod) {
				t.Error("the container does not run")
			}
			if at != "prepared" {
				b.targetSays(m, v1alpha1.TargetCleaned)
			}
			b.order(m, v1alpha1.OrderClean)
			b.sourceSays(m, v1alpha1.SourceCleaned)
			b.nothingLeft()
		})
	}
}
