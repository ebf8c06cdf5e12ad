//go:build soak

package consolidation

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// space is the namespace of all work.
const space = "work"

// annotationWork is the actual runtime of a pod. Only the shim reads it: the runtime annotation of pods is
// less exact.
const annotationWork = "test/work"

// labelStays is on pods that must not be moved, so that the stock descheduler excludes them too.
const labelStays = "stays"

// arrival is the creation of an object; Deployments are deleted again.
type arrival struct {
	at, removed time.Duration
	object      client.Object
}

// Load of the cluster, in shares of its CPU: the initial load, and the load that arrivals maintain on
// average, with the amplitude swing.
const (
	filled = 0.85
	kept   = 0.45
	swing  = 0.6
	// services is the share of the initial load that keeps running.
	services = 0.2
)

// Mean runtime and CPU of arriving Jobs, see job.
const (
	meanPods = 2.5
	meanCPU  = 812.5 // milli-CPU
	meanWork = 85 * time.Second
	longest  = 240 * time.Second
)

// generator generates the workload.
type generator struct {
	setting
	*rand.Rand
	made int
	all  []arrival
}

// workload returns all arrivals, sorted by time. It depends only on the setting.
func workload(s setting) []arrival {
	g := &generator{setting: s, Rand: rand.New(rand.NewPCG(s.Seed, 0))}
	capacity := float64(s.milliCPU())
	for used := 0.0; used < filled*services*capacity; {
		used += g.deployment(0)
	}
	for used := 0.0; used < filled*(1-services)*capacity; {
		used += g.job(0)
	}
	perJob := meanPods * meanCPU * s.of(meanWork).Seconds()
	rate := kept * (1 - services) * capacity / perJob // per second
	for at := s.of(20 * time.Second); ; {
		wave := 1 + swing*math.Sin(6*math.Pi*at.Seconds()/s.Lasts.Seconds())
		at += time.Duration(g.ExpFloat64() / (rate * wave) * float64(time.Second))
		if at >= s.Lasts {
			break
		}
		g.job(at)
		if g.Float64() < 0.05 {
			g.deployment(at)
		}
	}
	slices.SortStableFunc(g.all, func(a, b arrival) int { return int(a.at - b.at) })
	return g.all
}

func (g *generator) name(kind string) string {
	g.made++
	return fmt.Sprintf("%s-%d", kind, g.made)
}

// template returns a pod template and its CPU request in milli-CPU.
func (g *generator) template() (t corev1.PodTemplateSpec, milliCPU float64) {
	cpu := []int64{250, 500, 1000, 1500}[g.IntN(4)]
	memory := cpu << 20 * int64(1+g.IntN(4)) // about 1 to 4 GiB per CPU
	says := v1alpha1.MigrationCheckpoint
	switch n := g.Float64(); {
	case n < 0.15:
		says = v1alpha1.MigrationNever
	case n < 0.40:
		says = v1alpha1.MigrationRestart
	}
	t.Labels = map[string]string{}
	if says == v1alpha1.MigrationNever {
		t.Labels[labelStays] = "true"
	}
	t.Annotations = map[string]string{v1alpha1.AnnotationMigration: says}
	t.Spec.Containers = []corev1.Container{{
		Name: "main", Image: "work:1",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
		}},
	}}
	return t, float64(cpu)
}

// job generates a Job of some parallel pods: two of three are short. Most have a runtime annotation, and take
// somewhat less.
func (g *generator) job(at time.Duration) (milliCPU float64) {
	t, cpu := g.template()
	pods := int32(1 + g.IntN(4))
	says := g.of(time.Duration(30+g.IntN(60)) * time.Second)
	if g.Float64() < 1.0/3 {
		says = g.of(time.Duration(120+g.IntN(120)) * time.Second)
	}
	work := time.Duration(float64(says) * (0.75 + 0.2*g.Float64()))
	t.Annotations[annotationWork] = work.String()
	if g.Float64() < 0.85 {
		t.Annotations[v1alpha1.AnnotationRuntime] = says.String()
	}
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	mode := []batchv1.CompletionMode{batchv1.IndexedCompletion, batchv1.NonIndexedCompletion}[g.IntN(2)]
	g.all = append(g.all, arrival{at: at, object: &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: g.name("job")},
		Spec: batchv1.JobSpec{
			Parallelism: &pods, Completions: &pods, CompletionMode: &mode, BackoffLimit: new(int32(0)), PodReplacementPolicy: new(batchv1.Failed),
			// A pod that was disrupted to be restarted is not a failure.
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action: batchv1.PodFailurePolicyActionIgnore,
				OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{
					Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
				}},
			}}},
			Template: t,
		},
	}})
	return float64(pods) * cpu
}

// deployment generates a Deployment of some pods that exists for a while, or until the end.
func (g *generator) deployment(at time.Duration) (milliCPU float64) {
	t, cpu := g.template()
	pods := int32(1 + g.IntN(4))
	name := g.name("service")
	t.Labels["app"] = name
	removed := at + time.Duration((0.2+g.Float64())*float64(g.Lasts))
	g.all = append(g.all, arrival{at: at, removed: min(removed, g.Lasts), object: &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &pods, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: t,
		},
	}})
	return float64(pods) * cpu
}
