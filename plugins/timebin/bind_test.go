package timebin

import (
	"cmp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/test/fixtures"
)

// handle implements the part of the framework that Bind uses.
type handle struct {
	fwk.Handle
	client kubernetes.Interface
}

func (h handle) ClientSet() kubernetes.Interface { return h.client }
func (h handle) APICacher() fwk.APICacher        { return nil }

func TestBind(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	tooLate := apierrors.NewTimeoutError("too late", 1)
	tests := []struct {
		name    string
		pod     *corev1.Pod
		boundTo string // the node of the pod in the API server afterwards
		answer  error  // the error of the call
		want    fwk.Code
	}{
		{"a batch pod is bound", fixtures.Pod("p", 1, 1, fixtures.Batch("5m")), "node", nil, fwk.Success},
		{"a service is left to the next plugin", fixtures.Pod("p", 1, 1), "", nil, fwk.Skip},
		{"a binding that did not take place is an error", fixtures.Pod("p", 1, 1, fixtures.Batch("5m")), "", tooLate, fwk.Error},
		{"one that did, answered too late, is none", fixtures.Pod("p", 1, 1, fixtures.Batch("5m")), "node", tooLate, fwk.Success},
		{"a pod that somebody else bound elsewhere is an error", fixtures.Pod("p", 1, 1, fixtures.Batch("5m")), "other", tooLate, fwk.Error},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			client := fake.NewClientset(tc.pod.DeepCopy())
			var sent *corev1.Binding
			client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if action.GetSubresource() != "binding" {
					return false, nil, nil
				}
				sent = action.(clienttesting.CreateAction).GetObject().(*corev1.Binding)
				stored := tc.pod.DeepCopy()
				stored.Spec.NodeName = tc.boundTo
				return true, sent, cmp.Or(client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), stored, stored.Namespace, metav1.UpdateOptions{}), tc.answer)
			})
			p := &Plugin{handle: handle{client: client}, clock: clocktesting.NewFakePassiveClock(noon), reserved: newReservations()}
			if status := p.Bind(t.Context(), nil, tc.pod, "node"); status.Code() != tc.want {
				t.Errorf("status %v, want %v", status, tc.want)
			}
			if tc.want == fwk.Skip {
				return
			}
			if sent == nil || sent.Target.Name != "node" || sent.UID != tc.pod.UID {
				t.Fatalf("binding %+v", sent)
			}
			if got := sent.Annotations["supercargo.dev/expected-finish"]; got != "2026-01-01T12:05:00.000Z" {
				t.Errorf("expected finish %q", got)
			}
		})
	}
}
