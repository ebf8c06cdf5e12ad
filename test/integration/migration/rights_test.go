package migration

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/test/kit"
)

func TestTheRightsInTheManifestsAreEnough(t *testing.T) {
	t.Parallel()
	const home, account = "supercargo-system", "supercargo-descheduler"
	b := newBench(t, "rights", 2)
	b.Site.Install(t, "../../../manifests/namespace/namespace.yaml", "../../../manifests/descheduler/rbac.yaml")
	requests := &kit.Ledger{}
	b.deschedule(func(o *app.Options) {
		o.LeaderElection, o.LeaderElectionNamespace = true, home
		o.Migrations.KeepFinished = 0
		o.Config.Impersonate = kit.ServiceAccount(home, account)
		o.Config.Wrap(requests.Wrap)
	})
	b.job(1, batchv1.NonIndexedCompletion)
	old := b.Pods()[0]
	b.move(old.Name)
	b.Eventually("the migration has ended and is not kept", func() string {
		if b.Find("move-"+old.Name, &v1alpha1.Migration{}) {
			return "there"
		}
		return ""
	})
	if pods := b.healthy("work", 1); pods[0].Name == old.Name {
		t.Error("the pod was not moved")
	}

	// Also the permissions that a roll-back needs.
	b.agents.script(failsAt(v1alpha1.SourceDumped, "DumpFailed"), nil)
	again := b.Pods()[0]
	b.move(again.Name)
	b.Eventually("the migration has gone back", func() string {
		if b.Find("move-"+again.Name, &v1alpha1.Migration{}) {
			return "there"
		}
		return ""
	})
	if pods := b.healthy("work", 1); pods[0].Name != again.Name {
		t.Error("the pod was moved")
	}
	written, forbade := requests.Read()
	if len(forbade) > 0 {
		t.Errorf("forbidden: %v", forbade)
	}
	if len(written) < 20 {
		t.Errorf("only %d writes: too few for a test", len(written))
	}
}

func TestWhatHasEndedDoesNotPileUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, "pile", 2)
	b.deschedule(func(o *app.Options) { o.Migrations.MaxFinished, o.Migrations.KeepFinished = 3, time.Hour })
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		b.move(name) // no such pods exist
		b.Eventually("it is refused", func() string {
			m := &v1alpha1.Migration{}
			if b.Find("move-"+name, m) && m.Status.Phase != v1alpha1.MigrationRefused {
				return "in phase " + string(m.Status.Phase)
			}
			return ""
		})
	}
	b.Eventually("three are left", func() string {
		if n := len(b.Migrations()); n != 3 {
			return fmt.Sprint(n)
		}
		return ""
	})
}
