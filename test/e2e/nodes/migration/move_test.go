//go:build nodes

package migration

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

// movable makes a pod movable with its state.
func movable(pod *corev1.Pod) *corev1.Pod {
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AnnotationMigration, v1alpha1.MigrationCheckpoint)
	return pod
}

func TestACounterMovesThreeTimesAndLosesNothing(t *testing.T) {
	for _, megabytes := range []int{0, 64, 256, 1024} {
		t.Run(strconv.Itoa(megabytes)+"MiB", func(t *testing.T) {
			w := newTown(t)
			w.Create(movable(w.Pod("counter", cluster.Images["counter"], corev1.EnvVar{Name: "MB", Value: strconv.Itoa(megabytes)})))
			w.Running("counter")
			name := "counter"
			w.counts(name, 5)
			for range 3 {
				before := w.Get(name).Spec.NodeName
				m := w.succeeded(w.move(name))
				name = m.Status.Plan.RestoredPod
				if after := w.Get(name).Spec.NodeName; after == before {
					t.Errorf("pod %s is on %s, where it was", name, after)
				}
				w.counts(name, len(w.Ticks(name))+5)
				w.tellMeasured(m)
			}
			// The earlier output has moved with the container.
			if err := workload.CheckTicks(w.Ticks(name), 1); err != nil {
				t.Error(err)
			}
		})
	}
}

// counts waits until a counter has printed a number of values.
func (w *town) counts(pod string, values int) {
	w.Helper()
	w.Eventually(fmt.Sprintf("counter %s counts", pod), func(context.Context) error {
		if n := len(w.Ticks(pod)); n < values {
			return fmt.Errorf("it has printed %d values, want %d", n, values)
		}
		return nil
	})
}

// chains creates an indexed Job in which every index computes a chain of hashes, and waits until all its pods
// run.
func (w *town) chains(name string, indexes, steps int) {
	w.Helper()
	pod := movable(w.Pod("", cluster.Images["chain"],
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
	if _, err := w.Client().BatchV1().Jobs(w.Namespace).Create(w.Context(), job, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	w.Eventually("all pods of Job "+name+" run", func(ctx context.Context) error {
		if running := len(w.runningPods(ctx, name)); running != indexes {
			return fmt.Errorf("%d of %d run", running, indexes)
		}
		return nil
	})
}

// runningPods returns the running pods of a Job that are not being deleted, by index.
func (w *town) runningPods(ctx context.Context, job string) map[string]*corev1.Pod {
	w.Helper()
	found := map[string]*corev1.Pod{}
	for _, pod := range w.podsOf(ctx, job) {
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			found[pod.Annotations[batchv1.JobCompletionIndexAnnotation]] = &pod
		}
	}
	return found
}

func (w *town) podsOf(ctx context.Context, job string) []corev1.Pod {
	w.Helper()
	pods, err := w.Client().CoreV1().Pods(w.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: labels.Set{batchv1.JobNameLabel: job}.String()})
	if err != nil {
		w.Fatal(err)
	}
	return pods.Items
}

func TestAJobOfTwentyChainsIsMovedTwiceAndEveryChainIsWhole(t *testing.T) {
	const indexes, steps, moves = 20, 1200, 2
	w := newTown(t)
	w.chains("chains", indexes, steps)
	for range moves {
		var all []*v1alpha1.Migration
		for _, pod := range w.runningPods(w.Context(), "chains") {
			all = append(all, w.move(pod.Name))
		}
		if len(all) != indexes {
			t.Fatalf("%d pods run and are moved, want %d: make STEPS larger on a machine as slow as this", len(all), indexes)
		}
		for _, m := range all {
			w.succeeded(m)
		}
	}
	job := w.complete("chains")
	if job.Status.Failed != 0 || job.Status.Succeeded != indexes {
		t.Errorf("the Job counts %d failed and %d succeeded, want 0 and %d", job.Status.Failed, job.Status.Succeeded, indexes)
	}
	pods := w.podsOf(w.Context(), "chains")
	if len(pods) != indexes {
		t.Errorf("the Job has %d pods, want %d", len(pods), indexes)
	}
	for _, pod := range pods {
		w.wholeChain(&pod, steps)
	}
}

// wholeChain checks the last line of a pod's chain.
func (w *town) wholeChain(pod *corev1.Pod, steps int64) {
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

// complete waits until a Job has ended.
func (w *town) complete(name string) *batchv1.Job {
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

// tellMeasured logs the duration of a migration.
func (w *town) tellMeasured(m *v1alpha1.Migration) {
	w.Helper()
	if measured := m.Status.Measured; measured != nil {
		w.Logf("%s: frozen %s s (dump %s s, ship %s s, restore %s s), %d bytes, %d on the wire, %s s in all", m.Spec.PodName,
			measured.FrozenSeconds, measured.DumpSeconds, measured.ShipSeconds, measured.RestoreSeconds,
			measured.CheckpointBytes, measured.ShippedBytes, measured.TotalSeconds)
	}
}
