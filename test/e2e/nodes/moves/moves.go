//go:build linux

// Package moves helps tests of Migrations on any kind of node: it creates them, waits until they end, and checks the
// moved pods.
package moves

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/site"
	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

// Town is a cluster as used by one test that moves pods.
type Town struct {
	*site.Site
	// Objects reads and writes all kinds.
	Objects client.Client
}

// Movable makes a pod movable with its state.
func Movable(pod *corev1.Pod) *corev1.Pod {
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AnnotationMigration, v1alpha1.MigrationCheckpoint)
	return pod
}

// Counter starts a movable counter, and waits until it counts.
func (w *Town) Counter(name, image string) *corev1.Pod {
	w.Helper()
	w.Create(Movable(w.Pod(name, image)))
	w.Running(name)
	w.Counts(name, 5)
	return w.Get(name)
}

// Counts waits until a counter has printed a number of values.
func (w *Town) Counts(pod string, values int) {
	w.Helper()
	w.Eventually(fmt.Sprintf("counter %s counts", pod), func(ctx context.Context) error {
		output, err := w.Output(ctx, pod)
		if err != nil {
			return err
		}
		ticks, err := workload.ParseTicks(output)
		if err == nil && len(ticks) < values {
			err = fmt.Errorf("it has printed %d values, want %d", len(ticks), values)
		}
		return err
	})
}

// Continued checks that a counter that was not moved continues and has lost no value.
func (w *Town) Continued(name string) {
	w.Helper()
	w.Counts(name, len(w.Ticks(name))+10)
	if err := workload.CheckTicks(w.Ticks(name), 1); err != nil {
		w.Error(err)
	}
}

// Move creates a Migration of a pod.
func (w *Town) Move(pod string, change ...func(*v1alpha1.MigrationSpec)) *v1alpha1.Migration {
	w.Helper()
	m := &v1alpha1.Migration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "move-", Namespace: w.Namespace},
		Spec:       v1alpha1.MigrationSpec{PodName: pod},
	}
	for _, f := range change {
		f(&m.Spec)
	}
	if err := w.Objects.Create(w.Context(), m); err != nil {
		w.Fatal(err)
	}
	return m
}

// Until waits until check of the migration returns nil.
func (w *Town) Until(m *v1alpha1.Migration, what string, check func(*v1alpha1.Migration) error) *v1alpha1.Migration {
	w.Helper()
	now := &v1alpha1.Migration{}
	w.Eventually(fmt.Sprintf("migration %s of pod %s %s", m.Name, m.Spec.PodName, what), func(ctx context.Context) error {
		if err := w.Objects.Get(ctx, client.ObjectKeyFromObject(m), now); err != nil {
			return err
		}
		if err := check(now); err != nil {
			return fmt.Errorf("%w; its status is %+v", err, now.Status)
		}
		return nil
	})
	return now
}

// End waits until a migration has ended.
func (w *Town) End(m *v1alpha1.Migration) *v1alpha1.Migration {
	w.Helper()
	return w.Until(m, "ends", func(m *v1alpha1.Migration) error {
		if !Ended(m) {
			return fmt.Errorf("it is %s", m.Status.Phase)
		}
		return nil
	})
}

// Succeeded waits until a migration has ended, and fails the test if it did not succeed.
func (w *Town) Succeeded(m *v1alpha1.Migration) *v1alpha1.Migration {
	w.Helper()
	m = w.End(m)
	if m.Status.Phase != v1alpha1.MigrationSucceeded {
		w.Fatalf("migration %s of pod %s ended as %s: %s", m.Name, m.Spec.PodName, m.Status.Phase, EndMessage(m))
	}
	return m
}

// RolledBack waits until a migration has ended, and checks that it was rolled back for a reason that contains
// the words.
func (w *Town) RolledBack(m *v1alpha1.Migration, words ...string) *v1alpha1.Migration {
	w.Helper()
	m = w.End(m)
	if m.Status.Phase != v1alpha1.MigrationRolledBack {
		w.Errorf("migration %s ended as %s: %s, want it rolled back", m.Name, m.Status.Phase, EndMessage(m))
	}
	for _, word := range words {
		if !strings.Contains(EndMessage(m), word) {
			w.Errorf("migration %s ended with %q, which does not say %q", m.Name, EndMessage(m), word)
		}
	}
	if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.MigrationCleanedUp); c == nil || c.Status != metav1.ConditionTrue {
		w.Errorf("migration %s has ended and is not cleaned up: %+v", m.Name, c)
	}
	if pod := m.Status.Plan.RestoredPod; pod != "" {
		w.Gone(pod)
	}
	return m
}

// MigrationGone waits until the Migration no longer exists.
func (w *Town) MigrationGone(m *v1alpha1.Migration) {
	w.Helper()
	w.Eventually("migration "+m.Name+" is gone", func(ctx context.Context) error {
		err := w.Objects.Get(ctx, client.ObjectKeyFromObject(m), &v1alpha1.Migration{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
}

// Ended reports whether a migration has ended.
func Ended(m *v1alpha1.Migration) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.MigrationFinished)
}

// EndMessage returns the reason and the message with which a migration ended, or its phase if it has neither.
func EndMessage(m *v1alpha1.Migration) string {
	for _, kind := range []string{v1alpha1.MigrationFinished, v1alpha1.MigrationEligible} {
		if c := meta.FindStatusCondition(m.Status.Conditions, kind); c != nil {
			return fmt.Sprintf("%s: %s", c.Reason, c.Message)
		}
	}
	return cmp.Or(string(m.Status.Phase), "nothing is known")
}

// LogDuration logs the duration of a migration.
func (w *Town) LogDuration(m *v1alpha1.Migration) {
	w.Helper()
	if measured := m.Status.Measured; measured != nil {
		w.Logf("%s: frozen %s s (dump %s s, ship %s s, restore %s s), %d bytes, %d on the wire, %s s in all", m.Spec.PodName,
			measured.FrozenSeconds, measured.DumpSeconds, measured.ShipSeconds, measured.RestoreSeconds,
			measured.CheckpointBytes, measured.ShippedBytes, measured.TotalSeconds)
	}
}

// Chains creates an indexed Job in which every index computes a chain of hashes, and waits until all its pods
// run.
func (w *Town) Chains(name string, indexes, steps int, change ...func(*batchv1.JobSpec)) {
	w.Helper()
	pod := Movable(w.Pod("", cluster.Images["chain"],
		corev1.EnvVar{Name: "STEPS", Value: strconv.Itoa(steps)}, corev1.EnvVar{Name: "STEP_MS", Value: "100"}))
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			Completions: ptr.To(int32(indexes)), Parallelism: ptr.To(int32(indexes)),
			CompletionMode: ptr.To(batchv1.IndexedCompletion), BackoffLimit: ptr.To[int32](6),
			PodReplacementPolicy: ptr.To(batchv1.Failed),
			Template:             corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec},
		},
	}
	job.Spec.Template.Name, job.Spec.Template.Namespace = "", ""
	for _, f := range change {
		f(&job.Spec)
	}
	if _, err := w.Client().BatchV1().Jobs(w.Namespace).Create(w.Context(), job, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	w.Eventually("all pods of Job "+name+" run", func(ctx context.Context) error {
		if running := len(w.RunningPods(ctx, name)); running != indexes {
			return fmt.Errorf("%d of %d run", running, indexes)
		}
		return nil
	})
}

// RunningPods returns the running pods of a Job that are not being deleted, by index.
func (w *Town) RunningPods(ctx context.Context, job string) map[string]*corev1.Pod {
	w.Helper()
	found := map[string]*corev1.Pod{}
	for _, pod := range w.PodsOf(ctx, job) {
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			found[pod.Annotations[batchv1.JobCompletionIndexAnnotation]] = &pod
		}
	}
	return found
}

// PodsOf returns the pods of a Job.
func (w *Town) PodsOf(ctx context.Context, job string) []corev1.Pod {
	w.Helper()
	pods, err := w.Client().CoreV1().Pods(w.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: labels.Set{batchv1.JobNameLabel: job}.String()})
	if err != nil {
		w.Fatal(err)
	}
	return pods.Items
}

// WholeChain checks the last line of a pod's chain.
func (w *Town) WholeChain(pod *corev1.Pod, steps int64) {
	w.Helper()
	index, err := strconv.ParseInt(pod.Annotations[batchv1.JobCompletionIndexAnnotation], 10, 64)
	if err != nil {
		w.Fatal(err)
	}
	output, err := w.Output(w.Context(), pod.Name)
	if err != nil {
		w.Fatal(err)
	}
	if got, want := workload.LastLine(output), workload.ChainResult(index, steps); got != want {
		w.Errorf("chain %d ended with %q, want %q", index, got, want)
	}
}

// Complete waits until a Job has completed.
func (w *Town) Complete(name string) *batchv1.Job {
	w.Helper()
	var job *batchv1.Job
	w.Eventually("Job "+name+" ends", func(ctx context.Context) (err error) {
		job, err = w.Client().BatchV1().Jobs(w.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && job.Status.CompletionTime == nil {
			return fmt.Errorf("its status is %+v", job.Status)
		}
		return err
	})
	return job
}

// Cordon cordons or uncordons a node.
func (w *Town) Cordon(node string, closed bool) {
	w.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, closed)
	if _, err := w.Client().CoreV1().Nodes().Patch(w.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		w.Fatal(err)
	}
}

// WriteJSON writes a report, if file is not empty.
func WriteJSON(tb testing.TB, file string, report any) {
	tb.Helper()
	if file == "" {
		return
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err == nil {
		err = os.WriteFile(file, append(text, '\n'), 0o644)
	}
	if err != nil {
		tb.Fatal(err)
	}
}
