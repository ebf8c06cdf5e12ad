package eviction

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/eviction"
	"supercargo.dev/supercargo/descheduler/eviction/evictiondecide"
	"supercargo.dev/supercargo/test/kit"
)

func intOf(n int32) intstr.IntOrString { return intstr.FromInt32(n) }

// migrates checks that the answer to an eviction is that it becomes a Migration.
func (b *bench) migrates(err error) {
	b.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), evictiondecide.Evacuation) {
		b.Fatalf("the eviction is answered with %v", err)
	}
	if d := status.Status().Details; d != nil && (d.RetryAfterSeconds != 0 || len(d.Causes) > 0) {
		b.Errorf("details %+v", d)
	}
}

// overBudget checks that the answer to an eviction is that it violates a budget.
func (b *bench) overBudget(err error) {
	b.Helper()
	if !apierrors.IsTooManyRequests(err) || !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		b.Fatalf("the eviction is answered with %v", err)
	}
}

func TestAPodOfAJobIsDrainedTwiceAndItsJobCountsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, "job", 3)
	pod := b.job()
	for round := range 2 {
		if out := b.drain(pod.Spec.NodeName); !strings.Contains(out, evictiondecide.Evacuation) {
			t.Errorf("drain %d does not say that the pod moves:\n%s", round, out)
		}
		next := b.running(1)[0]
		if next.Spec.NodeName == pod.Spec.NodeName || next.Annotations[v1alpha1.AnnotationBaseImage] != "work:1" {
			t.Errorf("after drain %d pod %s is on node %s and was made from image %q", round, next.Name, next.Spec.NodeName, next.Annotations[v1alpha1.AnnotationBaseImage])
		}
		pod = next
	}
	job := &batchv1.Job{}
	b.Read("work", job)
	if job.Status.Failed != 0 || job.Status.Active != 1 || !metav1.IsControlledBy(&pod, job) {
		t.Errorf("the Job has status %+v, and owns the pod: %v", job.Status, metav1.IsControlledBy(&pod, job))
	}
	b.allSucceeded(2)
}

func TestAPodOfADeploymentIsDrainedTwiceAndItsReplicaSetMakesNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t, "set", 3)
	pod := b.deployment(1)[0]
	first := pod.Name
	made := b.made(first)
	for range 2 {
		b.drain(pod.Spec.NodeName)
		next := b.running(1)[0]
		if next.Spec.NodeName == pod.Spec.NodeName || !strings.HasPrefix(next.Name, first[:len(first)-1]) {
			t.Errorf("pod %s moved to %s as %s", pod.Name, next.Spec.NodeName, next.Name)
		}
		pod = next
	}
	if others := made(); len(others) > 0 {
		t.Errorf("pods were made that no move has made: %v", others)
	}
	var sets appsv1.ReplicaSetList
	if err := b.List(b.Context(), &sets, client.InNamespace(b.Space)); err != nil || len(sets.Items) != 1 {
		t.Fatalf("%d ReplicaSets, %v", len(sets.Items), err)
	}
	if !metav1.IsControlledBy(&pod, &sets.Items[0]) || pod.Labels["app"] != "work" || pod.Labels["team"] != "blue" || pod.Labels[v1alpha1.LabelMigration] != "" {
		t.Errorf("the pod is %+v", pod.ObjectMeta)
	}
	b.allSucceeded(2)
}

// TestAForgedReviewMakesNoMigration simulates a pod that can reach the webhook and is not the API server.
func TestAForgedReviewMakesNoMigration(t *testing.T) {
	t.Parallel()
	b := newBench(t, "forged", 2)
	pod := b.job()
	var configuration admissionv1.ValidatingWebhookConfiguration
	b.Read(webhookName, &configuration)
	address, err := url.Parse(*configuration.Webhooks[0].ClientConfig.URL)
	if err != nil {
		t.Fatal(err)
	}
	review := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"forged",
		"kind":{"group":"policy","version":"v1","kind":"Eviction"},"resource":{"group":"","version":"v1","resource":"pods"},"subResource":"eviction",
		"operation":"CREATE","namespace":%q,"name":%q,"userInfo":{"username":"system:admin"},
		"object":{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"namespace":%[1]q,"name":%[2]q}}}}`, b.Space, pod.Name)
	caller := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for name, path := range map[string]string{
		"no secret": eviction.Path, "an empty one": eviction.Path + "/", "a wrong one": eviction.Path + "/" + strings.Repeat("0", 64), "another path": "/",
		"half of the right one": address.Path[:len(address.Path)-32],
	} {
		answer, err := caller.Post("https://"+address.Host+path, "application/json", strings.NewReader(review))
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != http.StatusNotFound {
			t.Errorf("with %s the answer is %s, want 404", name, answer.Status)
		}
		_ = answer.Body.Close()
	}
	if m := b.Migrations(); len(m) > 0 {
		t.Fatalf("Migrations were made by somebody who is not the API server: %+v", m)
	}
	b.migrates(b.evict(pod.Name)) // it answers the API server
	b.allSucceeded(1)
}

// made watches created pods, and returns a function that lists those that are neither the first nor created
// by a migration.
func (b *bench) made(first string) func() []string {
	b.Helper()
	watched, err := b.Site.Client.Watch(b.Context(), &corev1.PodList{}, client.InNamespace(b.Space))
	if err != nil {
		b.Fatal(err)
	}
	var names []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range watched.ResultChan() {
			if p, ok := e.Object.(*corev1.Pod); ok && e.Type == watch.Added && p.Name != first && p.Annotations[v1alpha1.AnnotationMigrationName] == "" {
				names = append(names, p.Name)
			}
		}
	}()
	return func() []string {
		watched.Stop()
		<-done
		return names
	}
}

// allSucceeded waits until all migrations have succeeded, and checks that there are n.
func (b *bench) allSucceeded(n int) {
	b.Helper()
	b.Eventually(fmt.Sprintf("%d migrations have succeeded", n), func() string {
		all := b.Migrations()
		for i := range all {
			if all[i].Status.Phase != v1alpha1.MigrationSucceeded {
				return fmt.Sprintf("%s is %s", all[i].Name, all[i].Status.Phase)
			}
		}
		if len(all) != n {
			return fmt.Sprint(len(all))
		}
		return ""
	})
}

func TestABudgetIsNeverExceeded(t *testing.T) {
	t.Parallel()
	b := newBench(t, "budget", 3)
	pods := b.deployment(2)
	b.budget(2, 0)
	b.overBudget(b.evict(pods[0].Name))
	if m := b.Migrations(); len(m) > 0 {
		t.Fatalf("a Migration was made although the budget is at its limit: %+v", m)
	}
	budget := &policyv1.PodDisruptionBudget{}
	b.Read("work", budget)
	before := budget.DeepCopy()
	budget.Spec.MinAvailable = new(intOf(1))
	if err := b.Patch(b.Context(), budget, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	b.allowed(1)
	b.migrates(b.evict(pods[0].Name))
	b.overBudget(b.evict(pods[1].Name)) // the first has used up the budget
	b.allSucceeded(1)
	b.running(2)
	b.allowed(1)
	b.migrates(b.evict(pods[1].Name))
	b.allSucceeded(2)
	b.running(2)
	b.allowed(1)
}

func TestADryRunLeavesNoTrace(t *testing.T) {
	t.Parallel()
	b := newBench(t, "dry", 2)
	pod := b.deployment(2)[0]
	b.budget(1, 1)
	budget := &policyv1.PodDisruptionBudget{}
	b.Read("work", budget)
	dryRun := func(e *policyv1.Eviction) {
		e.DeleteOptions = &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	}
	b.migrates(b.evict(pod.Name, dryRun))
	if out, err := b.kubectl("drain", pod.Spec.NodeName, "--dry-run=server", "--timeout=3s"); err == nil || !strings.Contains(out, evictiondecide.Evacuation) {
		t.Errorf("kubectl says %v\n%s", err, out)
	}
	if m := b.Migrations(); len(m) > 0 {
		t.Errorf("Migrations were made: %+v", m)
	}
	for _, o := range []client.Object{&corev1.Pod{ObjectMeta: pod.ObjectMeta}, budget} {
		was := o.GetResourceVersion()
		if b.Read(o.GetName(), o); o.GetResourceVersion() != was {
			t.Errorf("%T %s has changed", o, o.GetName())
		}
	}
	if events := b.told(pod.Name); len(events) > 0 {
		t.Errorf("Events %v", events)
	}
}

// told returns the Events of the descheduler and the webhook about a pod.
func (b *bench) told(pod string) (notes []string) {
	b.Helper()
	var list eventsv1.EventList
	if err := b.List(b.Context(), &list, client.InNamespace(b.Space)); err != nil {
		b.Fatal(err)
	}
	for i := range list.Items {
		if e := &list.Items[i]; e.Regarding.Kind == "Pod" && e.Regarding.Name == pod && (e.ReportingController == "supercargo-descheduler" || e.ReportingController == webhookAccount) {
			notes = append(notes, e.Reason+": "+e.Note)
		}
	}
	return notes
}

func TestEvictionsOfAPodInFlightAreAnsweredAlike(t *testing.T) {
	t.Parallel()
	b := newBench(t, "again", 2)
	pod := b.job()
	for range 3 {
		b.migrates(b.evict(pod.Name))
	}
	if m := b.Migrations(); len(m) != 1 || m[0].Name != "evict-"+string(pod.UID)+"-1" || m[0].Spec.PodUID != string(pod.UID) {
		t.Errorf("Migrations %+v", m)
	}
	b.allSucceeded(1)
	b.Eventually("the eviction of the old pod finds no pod", func() string {
		if err := b.evict(pod.Name); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("it is answered with %v", err)
		}
		return ""
	})
	b.Eventually("the Event of the move is there", func() string {
		notes := b.told(pod.Name)
		if len(notes) != 1 || !strings.HasPrefix(notes[0], "EvictionMigrates: ") {
			return fmt.Sprint(notes)
		}
		return ""
	})
}

func TestPreconditionsAreLeftToTheAPIServer(t *testing.T) {
	t.Parallel()
	b := newBench(t, "conditions", 2)
	pod := b.bare("work")
	err := b.evict(pod.Name, func(e *policyv1.Eviction) {
		e.DeleteOptions = &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(types.UID("another"))}}
	})
	if !apierrors.IsConflict(err) || len(b.Migrations()) > 0 {
		t.Errorf("the eviction of another pod is answered with %v; Migrations %v", err, b.Migrations())
	}
	b.migrates(b.evict(pod.Name, func(e *policyv1.Eviction) {
		e.DeleteOptions = &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	}))
	b.allSucceeded(1)
}

func TestAPodThatCannotBeMovedIsEvictedAndItIsSaidWhy(t *testing.T) {
	t.Parallel()
	b := newBench(t, "stuck", 2)
	volume := func(p *corev1.PodTemplateSpec) {
		p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/data", SubPath: "part"}}
	}
	how := func(value string) func(*corev1.PodTemplateSpec) {
		return func(p *corev1.PodTemplateSpec) {
			p.Annotations = map[string]string{v1alpha1.AnnotationMigration: value}
		}
	}
	for name, change := range map[string]func(*corev1.PodTemplateSpec){
		"volume": volume, "restart": how(v1alpha1.MigrationRestart), "never": how(v1alpha1.MigrationNever), "silent": func(p *corev1.PodTemplateSpec) { p.Annotations = nil },
	} {
		b.bare(name, change)
		if err := b.evict(name); err != nil {
			t.Errorf("the eviction of pod %s is answered with %v", name, err)
		}
	}
	b.running(0)
	if m := b.Migrations(); len(m) > 0 {
		t.Errorf("Migrations were made: %+v", m)
	}
	if got := b.warned(); !strings.Contains(got, "pod volume loses its state if it is evicted: it cannot be moved: EmptyDirUnsupported: volume scratch") || strings.Count(got, "cannot be moved") != 1 {
		t.Errorf("warned of %q", got)
	}
	b.Eventually("the Event of the eviction is there", func() string {
		notes := b.told("volume")
		if len(notes) != 1 || !strings.HasPrefix(notes[0], "EvictedNotMovable: ") {
			return fmt.Sprint(notes)
		}
		return ""
	})
}

// TestAPodThatCannotBeMovedYetIsNotEvicted has a pod whose startup probe has not succeeded yet, in place of its kubelet.
func TestAPodThatCannotBeMovedYetIsNotEvicted(t *testing.T) {
	t.Parallel()
	b := newBench(t, "yet", 2)
	pod := b.job(func(p *corev1.PodTemplateSpec) {
		p.Spec.Containers[0].StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
	})
	started := func(is bool) {
		t.Helper()
		before := pod.DeepCopy()
		pod.Status.ContainerStatuses[0].Started = &is
		if err := b.Status().Patch(t.Context(), &pod, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	started(false)
	for range 2 {
		if err := b.evict(pod.Name); !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "cannot be moved yet: StartupProbePending") || strings.Contains(err.Error(), evictiondecide.Evacuation) {
			t.Errorf("the eviction is answered with %v", err)
		}
	}
	if now := b.Pods(); len(now) != 1 || now[0].UID != pod.UID || now[0].DeletionTimestamp != nil || len(b.Migrations()) > 0 {
		t.Fatalf("the pods are %v, and the Migrations %v", now, b.Migrations())
	}
	started(true)
	b.migrates(b.evict(pod.Name))
	b.allSucceeded(1)
}

// failurePolicies are the failure policies of the overlays in manifests/evictions.
var failurePolicies = map[string]admissionv1.FailurePolicyType{"open": admissionv1.Ignore, "closed": admissionv1.Fail}

// TestWithoutAWebhookItsFailurePolicyDecides uses an address without a listener.
func TestWithoutAWebhookItsFailurePolicyDecides(t *testing.T) {
	t.Parallel()
	for overlay, evicted := range map[string]bool{"open": true, "closed": false} {
		b := newBench(t, down+overlay, 1)
		c := kit.EvictionWebhook(t, "../../../manifests", "https://127.0.0.1:1/evictions")
		c.Name = down + overlay
		c.Webhooks[0].FailurePolicy = new(failurePolicies[overlay])
		c.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: b.Space}}
		b.Make(c)
		pod := b.bare("work")
		if evicted {
			if err := b.evict(pod.Name); err != nil {
				t.Errorf("%s: the eviction is answered with %v", overlay, err)
			}
			b.running(0)
			continue
		}
		b.Eventually("the API server asks", func() string {
			// The API server observes a new webhook a moment after its creation.
			if err := b.evict(pod.Name, func(e *policyv1.Eviction) {
				e.DeleteOptions = &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
			}); err == nil {
				return "lets pods go"
			}
			return ""
		})
		if err := b.evict(pod.Name); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "evictions.supercargo.dev") {
			t.Errorf("%s: the eviction is answered with %v", overlay, err)
		}
		if now := b.running(1)[0]; now.UID != pod.UID {
			t.Errorf("%s: the pod has gone", overlay)
		}
	}
}

func TestTheRightsInTheManifestsAreEnough(t *testing.T) {
	b := newBench(t, "rights", 2)
	b.migrates(b.evict(b.job().Name))
	b.allSucceeded(1)
	if written, forbade := shared.requests.Read(); len(forbade) > 0 || len(written) < 10 {
		t.Errorf("forbidden: %v; %d writes", forbade, len(written))
	}
}
