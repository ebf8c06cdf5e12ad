package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/ledger"
	"supercargo.dev/supercargo/descheduler/checkpoint/restoreapi"
)

// ask asks the target's agent as the runtime does that creates a container of the new pod.
func (m *moving) ask(container, id string) (restoreapi.Answer, error) {
	m.t.Helper()
	return m.to.give(m.t.Context(), restoreapi.Request{Pod: "new-" + m.key.Name, Container: container, ID: id})
}

func (m *moving) wantRefused(container, id, says string) {
	m.t.Helper()
	if a, err := m.ask(container, id); err != nil || !strings.Contains(a.Refused, says) || a.Images != "" {
		m.t.Errorf("container %s, %s: the answer is %+v (%v), want a refusal that says %q", container, id, a, err, says)
	}
}

func (m *moving) wantGiven(id string) {
	m.t.Helper()
	if a, err := m.ask("main", id); err != nil || a.Images != "/staged/"+m.uid {
		m.t.Errorf("container %s: the answer is %+v (%v), want the checkpoint", id, a, err)
	}
}

func TestACheckpointIsGivenToOneContainer(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	m.carryOut(v1alpha1.OrderPrepare)
	m.carryOut(v1alpha1.OrderFreeze)
	m.wantRefused("other", "c1", "moves another container")
	m.wantGiven("c1")
	m.wantGiven("c1") // the runtime asks again if it does not get the answer
	m.wantRefused("main", "c2", "c1 already continues")
	c.start(t, c.to) // as after a crash
	m.wantRefused("main", "c2", "c1 already continues")
	m.wantGiven("c1")
	m.carryOut(v1alpha1.OrderThaw)
	m.wantRefused("main", "c1", "has ended")
}

func TestAPodThatNobodyMovesGetsNoCheckpoint(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	m.carryOut(v1alpha1.OrderPrepare)
	m.carryOut(v1alpha1.OrderFreeze)
	for _, pod := range []string{"", "pod-" + m.key.Name, m.uid} {
		if a, err := m.to.give(t.Context(), restoreapi.Request{Pod: pod, Container: "main", ID: "c1"}); err != nil || a.Refused == "" {
			t.Errorf("pod %q: the answer is %+v, %v", pod, a, err)
		}
	}
	if a, err := m.from.give(t.Context(), restoreapi.Request{Pod: "new-" + m.key.Name, Container: "main", ID: "c1"}); err != nil || a.Refused == "" {
		t.Errorf("on the source: the answer is %+v, %v", a, err)
	}
}

func TestAFailureOfTheBackendIsARefusalAndAnErrorIsNot(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	m.carryOut(v1alpha1.OrderPrepare)
	m.carryOut(v1alpha1.OrderFreeze)
	m.to.backend.first["Give"] = func(context.Context) error {
		return checkpoint.Fail(v1alpha1.MigrationReasonForeignContainer, "it is not of the pod")
	}
	m.wantRefused("main", "c1", "not of the pod")
	m.to.backend.first["Give"] = func(context.Context) error { return errors.New("containerd is starting") }
	if a, err := m.ask("main", "c1"); err == nil {
		t.Errorf("the answer is %+v, want an error", a)
	}
	delete(m.to.backend.first, "Give")
	m.wantGiven("c2") // no container has it yet
}

// TestARuntimeWaitsForItsCheckpoint: the clock of the rig does not wait, so the agent asks itself until ctx ends.
func TestARuntimeWaitsForItsCheckpoint(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	m.carryOut(v1alpha1.OrderPrepare)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a, err := m.to.give(ctx, restoreapi.Request{Pod: "new-" + m.key.Name, Container: "main", ID: "c1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("the answer is %+v (%v), want none", a, err)
	}
	if entry, _ := m.to.ledger.Get(ledger.ID{Migration: m.uid, Node: "to", Role: ledger.TargetRole}); entry.GivenTo != "" {
		t.Errorf("the ledger says that container %s has it", entry.GivenTo)
	}
}

func TestPodsThatNoMigrationExpectsAreReleased(t *testing.T) {
	dir := t.TempDir()
	c := newCluster(t, func(config *Config) {
		if config.Node == "to" {
			config.RestoreFolder = restoreapi.Folder(filepath.Join(dir, "restore"))
		}
	})
	m := c.move(t, nil)
	m.carryOut(v1alpha1.OrderPrepare)
	folder := m.to.RestoreFolder
	if err := folder.Make(); err != nil {
		t.Fatal(err)
	}
	for _, pod := range []string{"new-" + m.key.Name, "forgotten"} {
		if err := folder.Expect(pod); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(m.to.WorkDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := m.to.sweepOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !folder.Has("new-"+m.key.Name) || folder.Has("forgotten") {
		pods, err := folder.Listed()
		t.Errorf("the list has %v (%v), want only the pod that is moved", pods, err)
	}
}
