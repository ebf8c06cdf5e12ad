package agent

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/kit"
)

const (
	descheduler = "system:serviceaccount:supercargo-system:supercargo-descheduler"
	scheduler   = "system:kube-scheduler"
	attacker    = "system:serviceaccount:default:attacker"
)

// as returns a client of an account to which RBAC allows everything.
func (b *bench) as(user string) client.Client {
	b.Helper()
	config := rest.CopyConfig(b.Site.Config())
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	c, err := client.New(config, client.Options{Scheme: b.Scheme()})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// guarded enforces the policies in the descheduler's manifests until the test ends.
func (b *bench) guarded() {
	b.Helper()
	m := b.migration(b.pod("probe-of-policy")) // by the administrator, before the policies are in force
	ctx := context.WithoutCancel(b.Context())  // the test's context ends before the cleanup
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"order":"Kill"}}`))
	try := func() error { return b.Status().Patch(ctx, m.DeepCopy(), patch, client.DryRunAll) }
	objects := kit.Objects(b, "../../../manifests/descheduler/policy.yaml")
	b.Cleanup(func() {
		for _, object := range objects {
			if err := client.IgnoreNotFound(b.Delete(ctx, object)); err != nil {
				b.Error(err)
			}
		}
		b.Eventually("the policy is no longer in force", func() string {
			if err := try(); err != nil {
				return err.Error()
			}
			return ""
		})
	})
	for _, object := range objects {
		b.Make(object)
	}
	b.Eventually("the policy is in force", func() string {
		if err := try(); err == nil {
			return "the administrator, who is none of ours, writes a status"
		}
		restored := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "probe-of-policy-2"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: v1alpha1.GroupName + "/checkpoint:1"}}},
		}
		if err := b.Create(ctx, restored, client.DryRunAll); err == nil {
			return "the administrator makes a pod from a checkpoint"
		}
		return ""
	})
}

// refused checks that a policy rejects an attempt, or that none does.
func (b *bench) refused(what, by string, err error) {
	b.Helper()
	switch {
	case by == "" && err != nil:
		b.Errorf("%s: it is refused: %v", what, err)
	case by != "" && err == nil:
		b.Errorf("%s: it is allowed", what)
	case by != "" && (!apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), by)):
		b.Errorf("%s: it is refused, but not by policy %s: %v", what, by, err)
	}
}

// TestOthersGiveTheAgentsNoOrders simulates a user who may write the status of Migrations by RBAC, for
// example by a wildcard in a role of a namespace.
func TestOthersGiveTheAgentsNoOrders(t *testing.T) {
	b := newBench(t)
	m := b.migration(b.pod("work"))
	b.guarded()
	const policy = "supercargo-migration-status"
	const reservation = `"reservation":{"node":"n","podUID":"u","time":"2026-01-01T00:00:00Z"}`
	for _, tc := range []struct{ name, user, patch, refusedBy string }{
		{"an order by the descheduler", descheduler, `{"status":{"order":"Kill"}}`, ""},
		{"an order by somebody", attacker, `{"status":{"order":"Kill"}}`, policy},
		{"another container by somebody", attacker, `{"status":{"plan":{"containerID":"of-another-pod"}}}`, policy},
		{"a report by somebody", attacker, `{"status":{"source":{"step":"Shipped","time":"2026-01-01T00:00:00.000000Z"}}}`, policy},
		{"a reservation by somebody", attacker, `{"status":{` + reservation + `}}`, policy},
		{"a reservation by the scheduler", scheduler, `{"status":{` + reservation + `}}`, ""},
		{"a reservation by the second scheduler", "system:serviceaccount:kube-system:supercargo-scheduler", `{"status":{` + reservation + `}}`, ""},
		{"an order by the scheduler", scheduler, `{"status":{"order":"Kill",` + reservation + `}}`, policy},
		{"a condition by the scheduler", scheduler, `{"status":{"conditions":[{"type":"Finished","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, policy},
		{"no change by somebody", attacker, `{"status":{}}`, policy},
	} {
		err := b.as(tc.user).Status().Patch(b.Context(), m.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(tc.patch)), client.DryRunAll)
		b.refused(tc.name, tc.refusedBy, err)
	}
	if err := b.as(attacker).Patch(b.Context(), m.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)), client.DryRunAll); err != nil {
		t.Errorf("a Migration itself cannot be changed any more: %v", err)
	}
}

// TestOnlyTheDeschedulerMakesPodsFromCheckpoints simulates a user who may create pods in a namespace, and
// names the checkpoint of a pod in another namespace.
func TestOnlyTheDeschedulerMakesPodsFromCheckpoints(t *testing.T) {
	b := newBench(t)
	running := b.pod("running")
	b.guarded()
	const policy = "supercargo-checkpoint-images"
	image := v1alpha1.GroupName + "/checkpoint:0c5e0000-0000-0000-0000-000000000000"
	pods := 0
	pod := func(change func(*corev1.PodSpec)) *corev1.Pod {
		pods++
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: fmt.Sprintf("pod-%d", pods)},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.test/work:1"}}},
		}
		change(&p.Spec)
		return p
	}
	main := func(image string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.Containers[0].Image = image }
	}
	for _, tc := range []struct {
		name, user string
		change     func(*corev1.PodSpec)
		refusedBy  string
	}{
		{"the descheduler's", descheduler, main(image), ""},
		{"somebody's", attacker, main(image), policy},
		{"somebody's by digest", attacker, main(v1alpha1.GroupName + "/checkpoint@sha256:" + strings.Repeat("a", 64)), policy},
		{"somebody's without a tag", attacker, main(v1alpha1.GroupName + "/checkpoint"), policy},
		{"somebody's by ID", attacker, main("sha256:" + strings.Repeat("a", 64)), policy},
		{"somebody's by bare ID", attacker, main(strings.Repeat("a", 64)), policy},
		{"somebody's init container", attacker, func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{{Name: "init", Image: image}}
		}, policy},
		{"somebody's second container", attacker, func(s *corev1.PodSpec) {
			s.Containers = append(s.Containers, corev1.Container{Name: "more", Image: image})
		}, policy},
		{"any other image", attacker, main("example.test/work:1"), ""},
		{"another image with a digest", attacker, main("example.test/work@sha256:" + strings.Repeat("a", 64)), ""},
		{"an image with a similar name", attacker, main("example.test/" + v1alpha1.GroupName + "/checkpoint:1"), ""},
		{"another image of ours", attacker, main(v1alpha1.GroupName + "/checkpoint-viewer:1"), ""},
	} {
		b.refused("make "+tc.name, tc.refusedBy, b.as(tc.user).Create(b.Context(), pod(tc.change), client.DryRunAll))
	}
	b.refused("give a pod that runs the image", policy,
		b.as(attacker).Patch(b.Context(), running.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"containers":[{"name":"main","image":"`+image+`"}]}}`)), client.DryRunAll))
	debugged := running.DeepCopy()
	debugged.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debug", Image: image, ImagePullPolicy: corev1.PullNever, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}}}
	b.refused("debug a pod with the image", policy, b.as(attacker).SubResource("ephemeralcontainers").Update(b.Context(), debugged, &client.SubResourceUpdateOptions{UpdateOptions: client.UpdateOptions{DryRun: []string{metav1.DryRunAll}}}))
	// Once it exists, its owner and other clients still write its labels and finalizers.
	restored := pod(main(image))
	if err := b.as(descheduler).Create(b.Context(), restored); err != nil {
		t.Fatal(err)
	}
	b.refused("label a restored pod", "", b.as(attacker).Patch(b.Context(), restored, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))))
}
