//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// The pace of the work: the means of the drawn intervals and lifetimes.
const (
	jobEvery, serviceEvery, migrationEvery = 9 * time.Second, 30 * time.Second, 12 * time.Second
	serviceLives                           = 100 * time.Second
	migrationDeadline                      = time.Minute
)

// work creates and deletes Jobs, services and Migrations until end is called.
type work struct {
	*world
	// Each kind of work has its own random source, so that it does not depend on the others.
	jobs, serves, moves *rand.Rand
	services            []service
	// forgetsAfter is the TTL of finished Jobs in seconds; nil keeps them.
	forgetsAfter *int32
	asked        int // Migrations
	stop         context.CancelFunc
	done         sync.WaitGroup
	sums         struct {
		Jobs, Services, Migrations int
	}
}

// service is the name of a Deployment and the time at which it is deleted.
type service struct {
	name string
	ends time.Time
}

// begin starts the work. Jobs and services depend only on the seed. The pods to move also depend on
// which pods are running.
func (w *world) begin(forgetsAfter *int32) *work {
	ctx, cancel := context.WithCancel(w.Context())
	source := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(*seedFlag, 10+n)) }
	k := &work{world: w, jobs: source(0), serves: source(1), moves: source(2), forgetsAfter: forgetsAfter, stop: cancel}
	k.done.Go(func() { k.run(ctx) })
	w.Cleanup(k.end)
	return k
}

// end stops creating and deleting work. Existing objects stay.
func (k *work) end() {
	k.stop()
	k.done.Wait()
}

func (k *work) run(ctx context.Context) {
	for range 3 {
		k.insist(ctx, k.service())
	}
	job, serve, move := time.Now(), after(k.serves, serviceEvery), after(k.moves, migrationEvery)
	for {
		next := job
		for _, at := range []time.Time{serve, move} {
			if at.Before(next) {
				next = at
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(next)):
		}
		switch next {
		case job:
			k.insist(ctx, k.job())
			job = after(k.jobs, jobEvery)
		case serve:
			k.insist(ctx, k.service())
			serve = after(k.serves, serviceEvery)
		default:
			k.move(ctx)
			move = after(k.moves, migrationEvery)
		}
		k.retire(ctx)
	}
}

// after draws a future time, exponentially distributed with the given mean.
func after(r *rand.Rand, mean time.Duration) time.Time {
	return time.Now().Add(time.Duration(r.ExpFloat64() * float64(mean)))
}

// insist creates an object, and retries for as long as the API server is unavailable.
func (k *work) insist(ctx context.Context, o client.Object) {
	for ctx.Err() == nil {
		err := k.client.Create(ctx, o.DeepCopyObject().(client.Object))
		if err == nil || apierrors.IsAlreadyExists(err) {
			return
		}
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			k.Errorf("make %T %s: %v", o, o.GetName(), err)
			return
		}
		k.pause(ctx)
	}
}

// pause waits before a retry.
func (k *work) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(pollEvery):
	}
}

// template returns a pod template. Requests are powers of two, so that pods fill nodes without gaps.
func template(r *rand.Rand, movable ...string) (t corev1.PodTemplateSpec) {
	cpu := []int64{250, 500, 1000, 1000, 2000}[r.IntN(5)]
	t.Annotations = map[string]string{v1alpha1.AnnotationMigration: movable[r.IntN(len(movable))]}
	t.Spec.TerminationGracePeriodSeconds = new(int64(2))
	t.Spec.Containers = []corev1.Container{{
		Name: "main", Image: "example.com/work:1",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(cpu<<21, resource.BinarySI),
		}},
	}}
	return t
}

// job returns a Job of one to three parallel pods.
func (k *work) job() client.Object {
	t := template(k.jobs, v1alpha1.MigrationCheckpoint, v1alpha1.MigrationCheckpoint, v1alpha1.MigrationRestart, v1alpha1.MigrationNever)
	t.Annotations[v1alpha1.AnnotationRuntime] = (time.Duration(15+k.jobs.IntN(45)) * time.Second).String()
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	pods := int32(1 + k.jobs.IntN(3))
	k.sums.Jobs++
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: fmt.Sprintf("job-%d", k.sums.Jobs)},
		Spec: batchv1.JobSpec{
			Parallelism: &pods, Completions: &pods, BackoffLimit: new(int32(0)), TTLSecondsAfterFinished: k.forgetsAfter, PodReplacementPolicy: new(batchv1.Failed),
			// Disrupted pods, such as evicted ones, do not count as failed.
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action: batchv1.PodFailurePolicyActionIgnore,
				OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{
					Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
				}},
			}}},
			Template: t,
		},
	}
}

// everywhere returns a Job with one pod for each node that belongs to no NodeFleet. Only one of its
// pods fits on a node, so every node must be schedulable again.
func (k *work) everywhere() *batchv1.Job {
	job := k.job().(*batchv1.Job)
	job.Name = "everywhere"
	pods := int32(len(nodes()))
	job.Spec.Parallelism, job.Spec.Completions = &pods, &pods
	t := &job.Spec.Template
	t.Annotations = map[string]string{v1alpha1.AnnotationMigration: v1alpha1.MigrationNever, v1alpha1.AnnotationRuntime: "10s"}
	t.Spec.NodeSelector = map[string]string{labelOwn: "true"}
	t.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2500m"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	return job
}

// service returns a Deployment, and draws when it will be deleted.
func (k *work) service() client.Object {
	t := template(k.serves, v1alpha1.MigrationCheckpoint, v1alpha1.MigrationRestart)
	k.sums.Services++
	name := fmt.Sprintf("service-%d", k.sums.Services)
	t.Labels = map[string]string{"app": name}
	pods := int32(1 + k.serves.IntN(3))
	k.services = append(k.services, service{name: name, ends: after(k.serves, serviceLives)})
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &pods, Selector: &metav1.LabelSelector{MatchLabels: t.Labels}, Template: t,
		},
	}
}

// retire deletes the services whose time has come.
func (k *work) retire(ctx context.Context) {
	k.services = slices.DeleteFunc(k.services, func(s service) bool {
		if time.Now().Before(s.ends) {
			return false
		}
		return k.remove(ctx, s.name) == nil // otherwise the next call retries
	})
}

// remove deletes a service with its pods.
func (k *work) remove(ctx context.Context, name string) error {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name}}
	return client.IgnoreNotFound(k.client.Delete(ctx, d, client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

// removeServices deletes the remaining services.
func (k *work) removeServices(ctx context.Context) error {
	var errs []error
	for _, s := range k.services {
		errs = append(errs, k.remove(ctx, s.name))
	}
	return errors.Join(errs...)
}

// move creates a Migration of a random running pod, if there is one.
func (k *work) move(ctx context.Context) {
	pods, err := k.podsOf(ctx)
	if err != nil {
		return // the next Migration is created later
	}
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		return p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil || p.Annotations[v1alpha1.AnnotationMigration] != v1alpha1.MigrationCheckpoint
	})
	if len(pods) == 0 {
		return
	}
	p := pods[k.moves.IntN(len(pods))]
	k.asked++
	m := &v1alpha1.Migration{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: fmt.Sprintf("move-%d", k.asked)},
		Spec:       v1alpha1.MigrationSpec{PodName: p.Name, PodUID: string(p.UID), Deadline: metav1.Duration{Duration: migrationDeadline}},
	}
	if k.client.Create(ctx, m) == nil {
		k.sums.Migrations++
	}
}
