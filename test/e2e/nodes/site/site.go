//go:build linux

// Package site gives each test its own namespace on a shared cluster, and helpers that most tests need.
package site

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

// The timeout of a wait, and its polling interval.
const (
	patience = 5 * time.Minute
	interval = 100 * time.Millisecond
)

// Cluster is a cluster with nodes of any kind.
type Cluster interface {
	// Client has administrator rights.
	Client() kubernetes.Interface
	// KeepLogs copies the logs of all nodes to a folder with that name. The test's log says where.
	KeepLogs(tb testing.TB, name string)
}

// Site is a cluster as used by one test, with its own namespace.
type Site struct {
	testing.TB
	Namespace string

	cluster  Cluster
	patience time.Duration
}

// New creates a namespace for a test. When the test ends, its pods are removed. If it has failed, the logs of
// all nodes are kept.
func New(tb testing.TB, c Cluster) *Site {
	tb.Helper()
	return NewPatient(tb, c, patience)
}

// NewPatient is [New] for slow nodes: patience is the timeout of a wait.
func NewPatient(tb testing.TB, c Cluster, patience time.Duration) *Site {
	tb.Helper()
	s := &Site{cluster: c, TB: tb, patience: patience}
	ctx := s.Context()
	namespace, err := c.Client().CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	s.Namespace = namespace.Name
	s.Eventually("namespace "+s.Namespace+" can have pods", func(ctx context.Context) error {
		_, err := c.Client().CoreV1().ServiceAccounts(s.Namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	tb.Cleanup(func() {
		if tb.Failed() {
			c.KeepLogs(tb, tb.Name())
		}
		s.removePods()
	})
	return s
}

// Client has administrator rights.
func (s *Site) Client() kubernetes.Interface { return s.cluster.Client() }

// Context returns a context with the timeout of a wait, which outlives the test's context.
func (s *Site) Context() context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.TB.Context()), s.patience)
	s.Cleanup(cancel)
	return ctx
}

// removePods removes the pods of the test at once.
func (s *Site) removePods() {
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	propagation := metav1.DeletePropagationBackground
	if err := s.Client().BatchV1().Jobs(s.Namespace).DeleteCollection(ctx,
		metav1.DeleteOptions{PropagationPolicy: &propagation}, metav1.ListOptions{}); err != nil {
		s.Error(err)
	}
	err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		pods, err := s.Client().CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(pods.Items) == 0 {
			return err == nil, err
		}
		return false, s.Client().CoreV1().Pods(s.Namespace).DeleteCollection(ctx,
			metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}, metav1.ListOptions{})
	})
	if err != nil {
		s.Errorf("remove the pods of %s: %v", s.Namespace, err)
	}
}

// Eventually waits until check returns nil.
func (s *Site) Eventually(what string, check func(context.Context) error) {
	s.Helper()
	var last error
	err := wait.PollUntilContextTimeout(s.Context(), interval, s.patience, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		s.Fatalf("not so within %v: %s: %v", s.patience, what, last)
	}
}

// Pod creates a pod of the test that runs a program of ours.
func (s *Site) Pod(name, image string, env ...corev1.EnvVar) *corev1.Pod {
	pod := NewPod(name, image, env...)
	pod.Namespace = s.Namespace
	return pod
}

// NewPod returns a pod of one container with the environment env.
func NewPod(name, image string, env ...corev1.EnvVar) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			AutomountServiceAccountToken:  ptr.To(false),
			Containers: []corev1.Container{{
				Name: "main", Image: image, ImagePullPolicy: corev1.PullNever, Env: env,
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
				}},
			}},
		},
	}
}

// On makes a pod run on a node, through the scheduler.
func On(node *cluster.Node, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node.Name}
	return pod
}

// Create creates a pod.
func (s *Site) Create(pod *corev1.Pod) {
	s.Helper()
	if _, err := s.Client().CoreV1().Pods(s.Namespace).Create(s.Context(), pod, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// Get returns the current state of a pod.
func (s *Site) Get(name string) *corev1.Pod {
	s.Helper()
	pod, err := s.Client().CoreV1().Pods(s.Namespace).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return pod
}

// Running waits until a pod runs.
func (s *Site) Running(name string) *corev1.Pod {
	s.Helper()
	var pod *corev1.Pod
	s.Eventually("pod "+name+" runs", func(ctx context.Context) (err error) {
		pod, err = s.Client().CoreV1().Pods(s.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning || !pod.Status.ContainerStatuses[0].Ready {
			return fmt.Errorf("it is %s: %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
		}
		return nil
	})
	return pod
}

// Gone waits until a pod no longer exists.
func (s *Site) Gone(name string) {
	s.Helper()
	s.Eventually("pod "+name+" is gone", func(ctx context.Context) error {
		_, err := s.Client().CoreV1().Pods(s.Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
}

// Output returns the output of a pod's container, through the API server and the kubelet.
func (s *Site) Output(ctx context.Context, pod string) ([]byte, error) {
	return s.Client().CoreV1().Pods(s.Namespace).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(ctx)
}

// Ticks returns the values that a counter has printed so far.
func (s *Site) Ticks(pod string) []workload.Tick {
	s.Helper()
	output, err := s.Output(s.Context(), pod)
	if err != nil {
		s.Fatal(err)
	}
	ticks, err := workload.ParseTicks(output)
	if err != nil {
		s.Fatal(err)
	}
	return ticks
}
