//go:build nodes

package probe

import (
	"errors"
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/site"
	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

// work is the namespace and the name of the Job that moves.
const work = "work"

// moves runs a Job on the machine type that was learned, and then adds a profile of another type whose
// machines need a fifth of the energy. The running container moves there with its state.
func (b *bench) moves() {
	const steps = 600 // of 0.1 s each: longer than a busy machine takes until the pod moves
	from, to := b.Nodes[0], b.Nodes[1]
	b.cordon(to, true)
	b.chain(steps)
	pod := b.running()
	b.byHand("real", "frugal", 0.2)
	b.byHand("real", "real", 1)
	b.name(to, "frugal")
	if err := b.Redeschedule(b.Context(), "--consolidation=Off", "--probing=Off",
		"--energy-moves=Act", "--energy-moves-interval=2s", "--pod-residence=5s", "--default-energy-weight=1"); err != nil {
		b.Fatal(err)
	}
	b.cordon(to, false)
	m := b.migrated()
	if m.Spec.PodName != pod.Name || m.Spec.TargetNode != to.Name || m.Status.Plan.SourceNode != from.Name {
		b.Errorf("the Migration is of pod %s on %s: %+v", pod.Name, pod.Spec.NodeName, m.Spec)
	}
	b.told(pod, to)
	job := b.complete()
	if job.Status.Failed != 0 || job.Status.Succeeded != 1 {
		b.Errorf("the Job counts %d failed and %d succeeded, want 0 and 1", job.Status.Failed, job.Status.Succeeded)
	}
	moved := b.pod()
	if moved.Spec.NodeName != to.Name {
		b.Errorf("its pod is on %s, want %s", moved.Spec.NodeName, to.Name)
	}
	output, err := b.Client().CoreV1().Pods(work).GetLogs(moved.Name, &corev1.PodLogOptions{}).DoRaw(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	if got, want := workload.LastLine(output), workload.ChainResult(0, steps); got != want {
		b.Errorf("the chain ended with %q, want %q", got, want)
	}
	b.migrated() // and it has not moved back
}

func (b *bench) cordon(n *cluster.Node, closed bool) {
	b.Helper()
	b.patchNode(n, fmt.Sprintf(`{"spec":{"unschedulable":%v}}`, closed))
}

// chain creates a Job that computes a chain of hashes and may be moved with its state.
func (b *bench) chain(steps int) {
	b.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: work}}
	if err := b.Objects.Create(b.Context(), namespace); err != nil {
		b.Fatal(err)
	}
	b.eventually("pods can be made", func() error {
		return b.Objects.Get(b.Context(), types.NamespacedName{Namespace: work, Name: "default"}, &corev1.ServiceAccount{})
	})
	pod := site.NewPod("", cluster.Images["chain"], corev1.EnvVar{Name: "STEPS", Value: strconv.Itoa(steps)}, corev1.EnvVar{Name: "STEP_MS", Value: "100"})
	pod.Annotations = map[string]string{v1alpha1.AnnotationMigration: v1alpha1.MigrationCheckpoint, v1alpha1.AnnotationRuntime: "1h"}
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{ // as much as the probe requested
		corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: work, Name: work},
		Spec: batchv1.JobSpec{
			BackoffLimit: new(int32(0)), PodReplacementPolicy: new(batchv1.Failed),
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: pod.Annotations}, Spec: pod.Spec},
		},
	}
	if err := b.Objects.Create(b.Context(), job); err != nil {
		b.Fatal(err)
	}
}

// pod returns the pod of the Job.
func (b *bench) pod() *corev1.Pod {
	b.Helper()
	var list corev1.PodList
	if err := b.Objects.List(b.Context(), &list, client.InNamespace(work), client.HasLabels{batchv1.JobNameLabel}); err != nil || len(list.Items) != 1 {
		b.Fatalf("the Job has %d pods (%v)", len(list.Items), err)
	}
	return &list.Items[0]
}

// running waits until the Job's pod runs.
func (b *bench) running() (pod *corev1.Pod) {
	b.Helper()
	b.eventually("the pod runs", func() error {
		var list corev1.PodList
		if err := b.Objects.List(b.Context(), &list, client.InNamespace(work)); err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].Status.Phase != corev1.PodRunning {
			return fmt.Errorf("%d pods, and none that runs", len(list.Items))
		}
		pod = &list.Items[0]
		return nil
	})
	return pod
}

// byHand copies the learned profile of a machine type to another type, with its energy multiplied by times. It
// sets the spread to a constant, because the learned spread depends on the other load of this machine.
func (b *bench) byHand(learned, machineType string, times float64) {
	b.Helper()
	var from v1alpha1.MachineProfile
	if err := b.Objects.Get(b.Context(), types.NamespacedName{Name: learned}, &from); err != nil {
		b.Fatal(err)
	}
	m, err := profile.FromObject(&from)
	if err != nil {
		b.Fatal(err)
	}
	e, r := &m.Profile.Energy, &m.Profile.Runtime
	b.Logf("learned with a spread of %.2f in energy and %.2f in runtime", e.Quality.Spread, r.Quality.Spread)
	e.Quality.Spread, r.Quality.Spread = 0.05, 0.05
	for i := range e.Coefficients {
		e.Coefficients[i] *= times
	}
	e.Range.LeastValue, e.Range.MostValue = e.Range.LeastValue*times, e.Range.MostValue*times
	models := m.Profile.Object(m.Learned, from.Status.Models.Fingerprint)
	p := &v1alpha1.MachineProfile{ObjectMeta: metav1.ObjectMeta{Name: machineType}, Spec: v1alpha1.MachineProfileSpec{MachineType: machineType, Models: models}}
	if machineType == learned {
		from.Spec.Models = models
		err = b.Objects.Update(b.Context(), &from)
	} else {
		err = b.Objects.Create(b.Context(), p)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// migrated waits until the only Migration has succeeded.
func (b *bench) migrated() *v1alpha1.Migration {
	b.Helper()
	var list v1alpha1.MigrationList
	b.eventually("the pod moves", func() error {
		if err := b.Objects.List(b.Context(), &list); err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].Status.Phase != v1alpha1.MigrationSucceeded {
			return fmt.Errorf("%d Migrations: %+v", len(list.Items), list.Items)
		}
		return nil
	})
	return &list.Items[0]
}

// told waits until an Event on the pod gives the reason for its move.
func (b *bench) told(pod *corev1.Pod, to *cluster.Node) {
	b.Helper()
	b.eventually("it is said why", func() error {
		var list eventsv1.EventList
		if err := b.Objects.List(b.Context(), &list, client.InNamespace(work)); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == "Moving" && e.Regarding.UID == pod.UID {
				b.Logf("%s: %s", to.Name, e.Note)
				return nil
			}
		}
		return errors.New("nobody has")
	})
}

// complete waits until the Job has ended.
func (b *bench) complete() *batchv1.Job {
	b.Helper()
	job := &batchv1.Job{}
	b.eventually("the Job ends", func() error {
		if err := b.Objects.Get(b.Context(), types.NamespacedName{Namespace: work, Name: work}, job); err != nil {
			return err
		}
		if job.Status.CompletionTime == nil {
			return fmt.Errorf("its status is %+v", job.Status)
		}
		return nil
	})
	return job
}
