package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	"supercargo.dev/supercargo/autoscaler/worker/workerdecide"
)

// serve is the command of the container; the arguments of work_queue_worker follow it.
//
// A worker that gets SIGTERM aborts its tasks, and counts as lost even if it is idle. It can leave without loss only on
// its own: after --idle-timeout without a task it tells the manager, and the manager gives a task that it may have sent
// at that moment to another worker, because it was not started. So the script runs one such session after the other,
// shielded from signals. SIGTERM, which the kubelet sends when the pod is deleted, evicted or drained with its node,
// only prevents the next session.
const serve = `leave=
trap 'leave=1' TERM INT
while [ -z "$leave" ]; do
  work_queue_worker "$@" &
  session=$!
  while kill -0 "$session" 2>/dev/null; do wait "$session"; done
  [ -n "$leave" ] || sleep 1
done`

const (
	// passwordVolume is mounted at passwordDir.
	passwordVolume = "supercargo-password"
	passwordDir    = "/var/run/supercargo/work-queue"
	passwordFile   = "password"

	// connectTimeout is how many seconds a worker looks for its manager before the next session starts, or it leaves.
	connectTimeout = 15

	annotationSafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	gpu                   = corev1.ResourceName("nvidia.com/gpu")
)

// parseTemplate decodes the pod template of a pool, and returns its faults.
func parseTemplate(pool *v1alpha1.WorkerPool) (*corev1.PodTemplateSpec, error) {
	var template corev1.PodTemplateSpec
	decoder := json.NewDecoder(bytes.NewReader(pool.Spec.Template.Raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&template); err != nil {
		return nil, fmt.Errorf("spec.template: %w", err)
	}
	if len(template.Spec.Containers) == 0 {
		return nil, fmt.Errorf("spec.template.spec.containers: at least one is required, with an image that contains work_queue_worker")
	}
	c := &template.Spec.Containers[0]
	if len(c.Command) > 0 || len(c.Args) > 0 {
		return nil, fmt.Errorf("spec.template.spec.containers[0]: must not have command or args, because the pool sets them")
	}
	return &template, nil
}

// podFor returns the pod of a worker.
func podFor(pool *v1alpha1.WorkerPool, template *corev1.PodTemplateSpec, f *workerdecide.Flavor, instanceType string) *corev1.Pod {
	t := template.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	pod.Name, pod.GenerateName, pod.Namespace = "", pool.Name+"-", pool.Namespace
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "WorkerPool", Name: pool.Name, UID: pool.UID, Controller: new(true),
	}}
	pod.Labels = withDefault(pod.Labels, v1alpha1.LabelClass, "batch")
	pod.Labels[v1alpha1.LabelWorkerPool] = pool.Name
	pod.Annotations = withDefault(pod.Annotations, v1alpha1.AnnotationMigration, v1alpha1.MigrationNever)
	pod.Annotations = withDefault(pod.Annotations, annotationSafeToEvict, "false")
	if f.Name != "" {
		pod.Annotations[v1alpha1.AnnotationFlavor] = f.Name
	}
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	pod.Spec.TerminationGracePeriodSeconds = new(int64(math.Ceil(pool.Spec.Worker.DrainTimeout.Seconds())))
	if instanceType != "" {
		pod.Spec.NodeSelector = withDefault(pod.Spec.NodeSelector, corev1.LabelInstanceTypeStable, instanceType)
	}
	if pool.Spec.Worker.Packing != v1alpha1.WorkersPacked {
		apart(&pod.Spec)
	}
	mountPassword(pool, &pod.Spec)
	c := &pod.Spec.Containers[0]
	c.Command, c.Args = []string{"/bin/sh", "-c", serve, "work_queue_worker"}, arguments(pool, f.Worker)
	request(c, f.Worker)
	return pod
}

// withDefault sets a key of the map to value, if it has none, and returns the map.
func withDefault(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	if m[key] == "" {
		m[key] = value
	}
	return m
}

// apart keeps the pod off nodes that have a worker of any pool.
func apart(spec *corev1.PodSpec) {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.PodAntiAffinity == nil {
		spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{}
	}
	terms := &spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	*terms = append(*terms, corev1.PodAffinityTerm{
		LabelSelector:     &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: v1alpha1.LabelWorkerPool, Operator: metav1.LabelSelectorOpExists}}},
		NamespaceSelector: &metav1.LabelSelector{}, TopologyKey: corev1.LabelHostname,
	})
}

// mountPassword mounts the manager's password into the worker's container.
func mountPassword(pool *v1alpha1.WorkerPool, spec *corev1.PodSpec) {
	secret := pool.Spec.Manager.PasswordSecret
	if secret == nil {
		return
	}
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: passwordVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: secret.Name, Items: []corev1.KeyToPath{{Key: secret.Key, Path: passwordFile}},
	}}})
	c := &spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: passwordVolume, MountPath: passwordDir, ReadOnly: true})
}

// arguments returns the arguments of work_queue_worker.
func arguments(pool *v1alpha1.WorkerPool, size estimate.Resources) []string {
	args := []string{
		"--single-shot", "--idle-timeout", strconv.Itoa(int(math.Ceil(pool.Spec.Worker.IdleTimeout.Seconds()))),
		"--connect-timeout", strconv.Itoa(connectTimeout), "--max-backoff", "10",
		"--cores", strconv.FormatInt(size.MilliCores/1000, 10), "--memory", strconv.FormatInt(size.MemoryBytes>>20, 10), "--gpus", strconv.FormatInt(size.GPUs, 10),
	}
	if size.DiskBytes < workerdecide.Boundless {
		args = append(args, "--disk", strconv.FormatInt(size.DiskBytes>>20, 10))
	}
	m := &pool.Spec.Manager
	if m.PasswordSecret != nil {
		args = append(args, "--password", passwordDir+"/"+passwordFile)
	}
	if m.TLS != nil {
		args = append(args, "--ssl")
	}
	if m.Address == nil {
		return append(args, "--catalog", strings.Join(m.Catalog.Servers, ","), "--manager-name", "^"+regexp.QuoteMeta(m.Catalog.Project)+"$")
	}
	host, port, err := net.SplitHostPort(*m.Address)
	if err != nil {
		return append(args, *m.Address) // the API server's validation pattern ensures host:port
	}
	return append(args, host, port)
}

// request sets the container's requests to what the worker offers.
func request(c *corev1.Container, size estimate.Resources) {
	if c.Resources.Requests == nil {
		c.Resources.Requests = corev1.ResourceList{}
	}
	c.Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(size.MilliCores, resource.DecimalSI)
	c.Resources.Requests[corev1.ResourceMemory] = *resource.NewQuantity(size.MemoryBytes, resource.BinarySI)
	if size.DiskBytes < workerdecide.Boundless {
		c.Resources.Requests[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(size.DiskBytes, resource.BinarySI)
	}
	if size.GPUs > 0 {
		if c.Resources.Limits == nil {
			c.Resources.Limits = corev1.ResourceList{}
		}
		c.Resources.Limits[gpu] = *resource.NewQuantity(size.GPUs, resource.DecimalSI)
		c.Resources.Requests[gpu] = c.Resources.Limits[gpu]
	}
}

// offered returns what the worker in a pod offers, derived from the pod's requests.
func offered(p *corev1.Pod) estimate.Resources {
	requests := p.Spec.Containers[0].Resources.Requests
	size := estimate.Resources{MilliCores: requests.Cpu().MilliValue() / 1000 * 1000, MemoryBytes: requests.Memory().Value(), DiskBytes: workerdecide.Boundless}
	if disk, stated := requests[corev1.ResourceEphemeralStorage]; stated {
		size.DiskBytes = disk.Value()
	}
	if n, stated := requests[gpu]; stated {
		size.GPUs = n.Value()
	}
	return size
}
