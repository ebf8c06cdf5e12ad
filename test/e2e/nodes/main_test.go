//go:build nodes

package nodes

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
)

// How long is waited for what must come, and how often it is looked for.
const (
	patience = 5 * time.Minute
	interval = 100 * time.Millisecond
)

// theCluster is started by the first test that needs it. All share it; a test that
// kills nodes puts them up again.
var theCluster = sync.OnceValues(func() (*cluster.Cluster, error) {
	return cluster.Up(context.Background(), cluster.Config{})
})

var started bool

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(childMain())
	}
	code := m.Run()
	if started {
		if c, err := theCluster(); err == nil {
			if err := c.Down(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = max(code, 1)
			}
		}
	}
	os.Exit(code)
}

// site is the cluster in the hands of one test, with a namespace of its own.
type site struct {
	*cluster.Cluster
	t         *testing.T
	namespace string
}

func newSite(t *testing.T) *site {
	t.Helper()
	started = true
	c, err := theCluster()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{Cluster: c, t: t}
	ctx := s.context()
	namespace, err := c.Client().CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.namespace = namespace.Name
	s.eventually("namespace "+s.namespace+" can have pods", func(ctx context.Context) error {
		_, err := c.Client().CoreV1().ServiceAccounts(s.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	t.Cleanup(func() {
		if t.Failed() {
			c.KeepLogs(t, t.Name())
		}
		s.removePods()
	})
	return s
}

// context ends when the test has had its time.
func (s *site) context() context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), patience)
	s.t.Cleanup(cancel)
	return ctx
}

// removePods removes the pods of the test at once.
func (s *site) removePods() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	propagation := metav1.DeletePropagationBackground
	if err := s.Client().BatchV1().Jobs(s.namespace).DeleteCollection(ctx,
		metav1.DeleteOptions{PropagationPolicy: &propagation}, metav1.ListOptions{}); err != nil {
		s.t.Error(err)
	}
	err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		pods, err := s.Client().CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(pods.Items) == 0 {
			return err == nil, err
		}
		return false, s.Client().CoreV1().Pods(s.namespace).DeleteCollection(ctx,
			metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}, metav1.ListOptions{})
	})
	if err != nil {
		s.t.Errorf("remove the pods of %s: %v", s.namespace, err)
	}
}

// eventually waits until check returns nil.
func (s *site) eventually(what string, check func(context.Context) error) {
	s.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(s.context(), interval, patience, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		s.t.Fatalf("not so within %v: %s: %v", patience, what, last)
	}
}

// pod is a pod of the test that runs a program of ours.
func (s *site) pod(name, image string, env ...corev1.EnvVar) *corev1.Pod {
	pod := newPod(name, image, env...)
	pod.Namespace = s.namespace
	return pod
}

// newPod is a pod of one container that has the environment env.
func newPod(name, image string, env ...corev1.EnvVar) *corev1.Pod {
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

// on has a pod run on a node that the scheduler is told.
func on(node *cluster.Node, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node.Name}
	return pod
}

func (s *site) create(pod *corev1.Pod) {
	s.t.Helper()
	if _, err := s.Client().CoreV1().Pods(s.namespace).Create(s.context(), pod, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) get(name string) *corev1.Pod {
	s.t.Helper()
	pod, err := s.Client().CoreV1().Pods(s.namespace).Get(s.context(), name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return pod
}

// running waits until a pod runs.
func (s *site) running(name string) *corev1.Pod {
	s.t.Helper()
	var pod *corev1.Pod
	s.eventually("pod "+name+" runs", func(ctx context.Context) (err error) {
		pod, err = s.Client().CoreV1().Pods(s.namespace).Get(ctx, name, metav1.GetOptions{})
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

// gone waits until a pod is no more.
func (s *site) gone(name string) {
	s.t.Helper()
	s.eventually("pod "+name+" is gone", func(ctx context.Context) error {
		_, err := s.Client().CoreV1().Pods(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
}

// output is what a pod's container has printed, by way of the API server and the
// kubelet.
func (s *site) output(ctx context.Context, pod string) ([]byte, error) {
	return s.Client().CoreV1().Pods(s.namespace).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(ctx)
}
