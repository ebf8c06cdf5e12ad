package migration

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/app"
)

func TestWhileTheClusterIsPausedMigrationsWaitAndThoseThatHaveBegunContinue(t *testing.T) {
	t.Parallel()
	b := newBench(t, "switch", 3)
	b.deschedule(func(o *app.Options) { o.PauseNamespace = b.Space })
	b.job(2, batchv1.IndexedCompletion)
	pods := b.Pods()
	b.agents.script(nil, nil)
	b.move(pods[0].Name)
	b.is("move-"+pods[0].Name, "has begun", func(s *v1alpha1.MigrationStatus) bool { return s.Plan != nil })
	resume := b.Site.Pause(t, b.Space, "an incident")
	b.ends("move-"+pods[0].Name, v1alpha1.MigrationSucceeded)

	m := b.move(pods[1].Name)
	b.Eventually("it waits, and says why", func() string {
		b.Find(m.Name, m)
		c := condition(m, v1alpha1.MigrationEligible)
		if m.Status.Phase != v1alpha1.MigrationPending || c.Reason != v1alpha1.ConditionPaused || !strings.Contains(c.Message, "an incident") {
			return string(m.Status.Phase) + " " + c.Message
		}
		return ""
	})
	resume()
	b.ends(m.Name, v1alpha1.MigrationSucceeded)
	b.healthy("work", 2)
}
