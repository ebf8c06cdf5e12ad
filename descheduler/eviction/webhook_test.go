package eviction

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/eviction/evictiondecide"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/testfile"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// cluster is a cluster in which pod work on node a can be moved to node b, and its budget allows
// it.
type cluster struct {
	*testing.T
	client.Client
	webhook *Webhook
	events  *events.FakeRecorder
	// writes is the number of requested writes.
	writes int
	// before is called before each write. Its error is the API server's response.
	before func(client.Object) error
}

func newCluster(t *testing.T, change ...func(*corev1.Pod)) *cluster {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "work", UID: "uid", Labels: map[string]string{"app": "work"},
			Annotations: map[string]string{v1alpha1.AnnotationMigration: v1alpha1.MigrationCheckpoint},
		},
		Spec:   corev1.PodSpec{NodeName: "a", Containers: []corev1.Container{{Name: "main"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, f := range change {
		f(pod)
	}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "work"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "work"}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1, DesiredHealthy: 1, CurrentHealthy: 2},
	}
	c := &cluster{T: t, events: events.NewFakeRecorder(10), before: func(client.Object) error { return nil }}
	write := func(o client.Object) error {
		c.writes++
		return c.before(o)
	}
	c.Client = fixtures.Client(pod, budget, fixtures.AbleNode("a"), fixtures.AbleNode("b")).WithStatusSubresource(budget).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if err := write(o); err != nil {
					return err
				}
				return to.Create(ctx, o, opts...)
			},
			SubResourceUpdate: func(ctx context.Context, to client.Client, kind string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				if err := write(o); err != nil {
					return err
				}
				return to.SubResource(kind).Update(ctx, o, opts...)
			},
		}).Build()
	c.webhook = &Webhook{
		Client: c.Client, Live: c.Client, Events: c.events, Clock: clocktesting.NewFakePassiveClock(now), Log: logr.Discard(),
		Config: evictiondecide.Config{Deadline: time.Minute, Attempts: 1, AfterFailure: evictiondecide.Evict},
	}
	return c
}

// review returns a request of the API server.
func review(change ...func(*admissionv1.AdmissionRequest, *policyv1.Eviction)) []byte {
	asked := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "work"}}
	r := &admissionv1.AdmissionRequest{
		UID: "review", Namespace: "ns", Name: "work", Operation: admissionv1.Create,
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, SubResource: "eviction",
	}
	for _, f := range change {
		f(r, asked)
	}
	r.Object.Raw, _ = json.Marshal(asked) // it never fails
	text, _ := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: r})
	return text
}

// ask sends a request, and returns the response; nil if there is only an error.
func (c *cluster) ask(body []byte) (*admissionv1.AdmissionResponse, int, string) {
	c.Helper()
	out := httptest.NewRecorder()
	c.webhook.ServeHTTP(out, httptest.NewRequestWithContext(c.Context(), http.MethodPost, Path, bytes.NewReader(body)))
	text := out.Body.String()
	if out.Code != http.StatusOK {
		return nil, out.Code, text
	}
	var got admissionv1.AdmissionReview
	testfile.JSON(c, out.Body.Bytes(), &got)
	if got.Response.UID != "review" || got.APIVersion != "admission.k8s.io/v1" || got.Kind != "AdmissionReview" {
		c.Errorf("it answers as %s %s to %s", got.APIVersion, got.Kind, got.Response.UID)
	}
	return got.Response, out.Code, text
}

func (c *cluster) migrations() []v1alpha1.Migration {
	c.Helper()
	var list v1alpha1.MigrationList
	if err := c.List(c.Context(), &list); err != nil {
		c.Fatal(err)
	}
	return list.Items
}

func (c *cluster) allowed() int32 {
	c.Helper()
	var b policyv1.PodDisruptionBudget
	if err := c.Get(c.Context(), client.ObjectKey{Namespace: "ns", Name: "work"}, &b); err != nil {
		c.Fatal(err)
	}
	return b.Status.DisruptionsAllowed
}

func TestAnEvictionIsAnsweredByAMigration(t *testing.T) {
	c := newCluster(t)
	for range 2 { // the second finds the Migration of the first
		got, _, text := c.ask(review())
		if got == nil || got.Allowed || got.Result.Code != http.StatusTooManyRequests || !strings.HasPrefix(got.Result.Message, evictiondecide.Evacuation) || got.Result.Details != nil {
			t.Fatalf("it answers %s", text)
		}
	}
	if m := c.migrations(); len(m) != 1 || m[0].Name != "evict-uid-1" || c.allowed() != 0 || c.writes != 2 {
		t.Errorf("%d Migrations, %d disruptions left, %d writes", len(c.migrations()), c.allowed(), c.writes)
	}
	if n := len(c.events.Events); n != 1 {
		t.Errorf("%d Events, want one: the second answer is no news", n)
	}
}

func TestADryRunWritesNothing(t *testing.T) {
	for name, change := range map[string]func(*admissionv1.AdmissionRequest, *policyv1.Eviction){
		"of the request": func(r *admissionv1.AdmissionRequest, _ *policyv1.Eviction) { r.DryRun = new(true) },
		"of the eviction": func(_ *admissionv1.AdmissionRequest, e *policyv1.Eviction) {
			e.DeleteOptions = &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
		},
	} {
		c := newCluster(t)
		got, _, text := c.ask(review(change))
		if got == nil || got.Allowed || !strings.HasPrefix(got.Result.Message, evictiondecide.Evacuation) {
			t.Errorf("%s: it answers %s", name, text)
		}
		if c.writes > 0 || len(c.events.Events) > 0 {
			t.Errorf("%s: %d writes, %d Events", name, c.writes, len(c.events.Events))
		}
	}
}

func TestWhatCannotBeMovedGoesWithAWarning(t *testing.T) {
	c := newCluster(t, func(p *corev1.Pod) { p.Spec.HostNetwork = true })
	got, _, text := c.ask(review())
	if got == nil || !got.Allowed || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "HostNamespaceUnsupported") {
		t.Errorf("it answers %s", text)
	}
	if c.writes > 0 || len(c.events.Events) != 1 {
		t.Errorf("%d writes, %d Events", c.writes, len(c.events.Events))
	}
	silent := newCluster(t, func(p *corev1.Pod) { p.Annotations = nil })
	if got, _, text := silent.ask(review()); got == nil || !got.Allowed || len(got.Warnings) > 0 || len(silent.events.Events) > 0 {
		t.Errorf("a pod that did not ask: %s", text)
	}
	gone := review(func(r *admissionv1.AdmissionRequest, e *policyv1.Eviction) { r.Name, e.Name = "gone", "gone" })
	if got, _, text := silent.ask(gone); got == nil || !got.Allowed {
		t.Errorf("a pod that is gone: %s", text)
	}
}

func TestABudgetThatOthersClaimMeanwhileIsCheckedAgain(t *testing.T) {
	c := newCluster(t)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "poddisruptionbudgets"}, "work", errors.New("it has changed"))
	c.before = func(o client.Object) error {
		if _, ok := o.(*policyv1.PodDisruptionBudget); !ok || c.writes > 1 {
			return nil
		}
		var b policyv1.PodDisruptionBudget // somebody else claims the last one
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), &b); err != nil {
			return err
		}
		b.Status.DisruptionsAllowed = 0
		return errors.Join(c.Status().Update(t.Context(), &b), conflict)
	}
	got, _, text := c.ask(review())
	if got == nil || got.Allowed || got.Result.Details == nil || got.Result.Details.Causes[0].Type != policyv1.DisruptionBudgetCause {
		t.Errorf("it answers %s", text)
	}
	if m := c.migrations(); len(m) > 0 {
		t.Errorf("Migrations %+v", m)
	}
}

// TestWhatGoesWrongIsAnErrorAndNoRefusal: so the failurePolicy applies.
func TestWhatGoesWrongIsAnErrorAndNoRefusal(t *testing.T) {
	c := newCluster(t)
	c.before = func(client.Object) error { return errors.New("the API server is away") }
	if got, code, text := c.ask(review()); got != nil || code != http.StatusInternalServerError || !strings.Contains(text, "claim a disruption from PodDisruptionBudget ns/work: the API server is away") {
		t.Errorf("%d %s", code, text)
	}
	for name, body := range map[string][]byte{
		"no JSON":    []byte("{"),
		"no request": []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`),
		"another resource": review(func(r *admissionv1.AdmissionRequest, _ *policyv1.Eviction) {
			r.SubResource = "status"
		}),
		"too long": bytes.Repeat([]byte(" "), mostBytes+1),
	} {
		if got, code, text := c.ask(body); got != nil || code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
}
