package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
)

// TestANodeThatChangesWhileItIsCordonedIsExchangedOnce: the machines that replace it are ordered before. The API server
// rejects the first attempts to cordon each node, because a node changes at any time.
func TestANodeThatChangesWhileItIsCordonedIsExchangedOnce(t *testing.T) {
	exchanged := func(conflicts int) string {
		m := newModel(t, alone(nil), []provider.Flavor{modelFlavor("small", 4, 16, 100_000), modelFlavor("large", 16, 64, 350_000)})
		m.before = func(what string) error {
			if name, is := strings.CutPrefix(what, "patch node-"); is && conflicts > 0 {
				conflicts--
				return apierrors.NewConflict(corev1.Resource("nodes"), "node-"+name, fmt.Errorf("the object has been modified"))
			}
			return nil
		}
		for i := range 4 { // three of which end earlier than expected
			pod := testPod(fmt.Sprintf("job-%d", i), 3500, 1024, 10*time.Hour)
			pod.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationRestart
			if i > 0 {
				pod.Annotations["ends-after"] = "3m"
			}
			m.add(pod)
		}
		m.run(30*minute, "f")
		if conflicts > 0 {
			t.Errorf("nothing was cordoned:\n%s", strings.Join(m.log, "\n"))
		}
		return m.outcome()
	}
	undisturbed := exchanged(0)
	if !strings.Contains(undisturbed, "small 1 of 1") || !strings.Contains(undisturbed, "2 were made") {
		t.Fatalf("no machine is exchanged: %s", undisturbed)
	}
	for conflicts := 1; conflicts < cordonTries; conflicts++ {
		if got := exchanged(conflicts); got != undisturbed {
			t.Errorf("after %d conflicts: %s\nwant %s", conflicts, got, undisturbed)
		}
	}
}
