package replay

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"
)

// call is one API call for a worker to make.
type call struct {
	verb   verb // createPod or deletePod
	pod    int
	object *corev1.Pod
	unsure bool // for deletePod: the pod may belong to another run
}

// answer is the result of a call.
type answer struct {
	call
	err error
}

// work makes calls until the channel is closed.
func (r *run) work(ctx context.Context) {
	pods := r.opts.Client.CoreV1().Pods(r.opts.Namespace)
	for c := range r.calls {
		a := answer{call: c}
		if c.verb == createPod {
			_, a.err = pods.Create(ctx, c.object, metav1.CreateOptions{})
		} else {
			a.err = r.delete(ctx, pods, c)
		}
		r.answers <- a
	}
}

// delete deletes a pod without a grace period. If the pod may belong to another run, it checks
// first.
func (r *run) delete(ctx context.Context, pods typedcorev1.PodInterface, c call) error {
	opts := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	if c.unsure {
		found, err := pods.Get(ctx, c.object.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if found.Labels[LabelRun] != r.opts.Run {
			return nil
		}
		opts.Preconditions = metav1.NewUIDPreconditions(string(found.UID))
	}
	return pods.Delete(ctx, c.object.Name, opts)
}

const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// pause returns the back-off after the given number of consecutive failures: it doubles each time,
// or follows the API server's Retry-After if that is longer.
func pause(failures int, err error) time.Duration {
	d := lastPause
	if doublings := failures - 1; doublings < 6 {
		d = min(d, firstPause<<doublings)
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		d = max(d, time.Duration(seconds)*time.Second)
	}
	return d
}

// hopeless reports whether retrying the same create call can never succeed.
func hopeless(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

func checkNamespace(ctx context.Context, client kubernetes.Interface, name string) error {
	if _, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil {
		return fmt.Errorf("replay: read namespace %s: %w", name, err)
	}
	return nil
}
