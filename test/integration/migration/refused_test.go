package migration

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/test/kit"
)

func TestAPodThatCannotBeMovedIsNotTouched(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		pod    func(*corev1.Pod)
		before func(*bench)
		spec   func(*v1alpha1.MigrationSpec)
		reason string
	}{
		{name: "not-opted-in", pod: func(p *corev1.Pod) { p.Annotations = nil }, reason: "NotOptedIn"},
		{name: "part-of-an-empty-dir", pod: func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/data", SubPath: "part"}}
		}, reason: "EmptyDirUnsupported"},
		{name: "two-containers", pod: func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "two", Image: "x"})
		}, reason: "MultipleContainers"},
		{name: "liveness", pod: func(p *corev1.Pod) {
			p.Spec.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}}
		}, reason: "LivenessProbeTooStrict"},
		{name: "service", pod: func(*corev1.Pod) {}, before: func(b *bench) {
			b.Make(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "web"}, Spec: corev1.ServiceSpec{
				Selector: map[string]string{"app": "work"}, Ports: []corev1.ServicePort{{Port: 80}},
			}})
		}, reason: "ServiceUnsupported"},
		{name: "quota", pod: func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		}, before: (*bench).fullQuota, reason: "QuotaExceeded"},
		{name: "replica-set", pod: func(p *corev1.Pod) {}, before: (*bench).adopt, reason: "SelectorUnsupported"},
		{name: "no-agent", pod: func(*corev1.Pod) {}, before: (*bench).withoutAgents, reason: "AgentMissing"},
		{name: "no-target", pod: func(*corev1.Pod) {}, spec: func(s *v1alpha1.MigrationSpec) { s.TargetNode = "nowhere" }, reason: "TargetUnsuitable"},
		{name: "another-pod", pod: func(*corev1.Pod) {}, spec: func(s *v1alpha1.MigrationSpec) { s.PodUID = "earlier" }, reason: "PodReplaced"},
		{name: "no-pod", pod: func(*corev1.Pod) {}, spec: func(s *v1alpha1.MigrationSpec) { s.PodName = "nobody" }, reason: "PodNotFound"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "no-"+tc.name, 2)
			b.bare(tc.pod)
			if tc.before != nil {
				tc.before(b)
			}
			old := b.Pods()[0]
			b.deschedule()
			m := b.move("work", func(s *v1alpha1.MigrationSpec) {
				if tc.spec != nil {
					tc.spec(s)
				}
			})
			m = b.ends(m.Name, v1alpha1.MigrationRefused)
			if c := condition(m, v1alpha1.MigrationEligible); c.Status != metav1.ConditionFalse || c.Reason != tc.reason {
				t.Errorf("refused for %s: %s; want %s", c.Reason, c.Message, tc.reason)
			}
			b.hasEvents(m, "Refused")
			pods := b.Pods()
			if len(pods) != 1 || pods[0].ResourceVersion != old.ResourceVersion {
				t.Errorf("%d pods, or the pod was touched", len(pods))
			}
			if m.Status.Plan != nil || m.Status.Order != "" {
				t.Errorf("there is a plan: %+v", m.Status)
			}
		})
	}
}

// fullQuota creates a quota of the namespace with no room for a second pod.
func (b *bench) fullQuota() {
	b.Helper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "full"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse("1500m")}},
	}
	b.Make(quota)
	b.Eventually("the quota counts the pod", func() string {
		b.Find("full", quota)
		if used := quota.Status.Used[corev1.ResourceRequestsCPU]; used.Cmp(resource.MustParse("1")) != 0 {
			return used.String()
		}
		return ""
	})
}

// adopt lets a ReplicaSet adopt the pod whose selector would also match the new pod, because the new pod has
// no label that excludes it.
func (b *bench) adopt() {
	b.Helper()
	pod := b.template()
	b.Make(&appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "set"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"other"}}},
			},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: corev1.PodSpec{Containers: pod.Spec.Containers}},
		},
	})
	b.Eventually("the pod has an owner", func() string {
		if len(b.Pods()[0].OwnerReferences) == 0 {
			return "none"
		}
		return ""
	})
}

// withoutAgents removes the capability annotations of all agents.
func (b *bench) withoutAgents() {
	b.Helper()
	for i := range 2 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: b.Node(i)}}
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"`+v1alpha1.AnnotationCapability+`":null}}}`))
		if err := b.Patch(b.Context(), node, patch); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAJobThatReplacesPodsTooEarlyIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, "early", 2)
	pod := b.template()
	b.Make(&batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "work"},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec}},
	})
	old := b.Runs(1)[0]
	b.deschedule()
	b.move(old.Name)
	if c := condition(b.ends("move-"+old.Name, v1alpha1.MigrationRefused), v1alpha1.MigrationEligible); c.Reason != "PodReplacementPolicyUnsupported" {
		t.Errorf("refused for %s: %s", c.Reason, c.Message)
	}
}

// The API server itself rejects invalid Migrations.
func TestBadMigrationsAreNotTaken(t *testing.T) {
	t.Parallel()
	b := newBench(t, "invalid", 0)
	for _, tc := range []struct {
		name   string
		change func(*v1alpha1.MigrationSpec)
		says   string
	}{
		{"no pod", func(s *v1alpha1.MigrationSpec) { s.PodName = "" }, "spec.podName"},
		{"too short", func(s *v1alpha1.MigrationSpec) { s.Deadline.Duration = 9 * time.Second }, "must be between 10s and 24h"},
		{"too long", func(s *v1alpha1.MigrationSpec) { s.Deadline.Duration = 25 * time.Hour }, "must be between 10s and 24h"},
		{"a pod's name that is none", func(s *v1alpha1.MigrationSpec) { s.PodName = strings.Repeat("x", 254) }, "spec.podName"},
	} {
		m := &v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "m"}, Spec: v1alpha1.MigrationSpec{PodName: "work"}}
		tc.change(&m.Spec)
		if err := b.Create(b.Context(), m); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v; want an error that says %q", tc.name, err, tc.says)
		}
	}
	m := b.move("work")
	if m.Spec.Deadline.Duration != 5*time.Minute {
		t.Errorf("the defaults are %+v", m.Spec)
	}
	m.Spec.TargetNode = "b"
	if err := b.Update(b.Context(), m); err == nil || !strings.Contains(err.Error(), "is immutable") {
		t.Errorf("the spec was changed: %v", err)
	}
}

func TestADryRunWritesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, "dry", 2)
	b.bare()
	b.move("work")
	requests := &kit.Ledger{}
	stop := b.deschedule(func(o *app.Options) { o.DryRun = true; o.Config.Wrap(requests.Wrap) })
	b.Eventually("it says what it would do", func() string {
		if !strings.Contains(b.Logs.Tail(1000), "Would AddFinalizer") {
			return "nothing"
		}
		return ""
	})
	stop()
	written, _ := requests.Read()
	for _, w := range written {
		if w != "POST /api/v1/namespaces/"+b.Space+"/pods" { // with dryRun=All
			t.Errorf("written: %s", w)
		}
	}
	if pods := b.Pods(); len(pods) != 1 {
		t.Errorf("%d pods", len(pods))
	}
}
