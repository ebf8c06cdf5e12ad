package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/cli/explain"
	laboratory "supercargo.dev/supercargo/cmd/supercargo-lab/cli"
	"supercargo.dev/supercargo/cmd/supercargo/cli"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
	"supercargo.dev/supercargo/test/kit/testfile"
	"supercargo.dev/supercargo/test/kit/testwait"
)

// supercargo runs a command line in this process.
func supercargo(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = cli.Main(append([]string{"supercargo"}, args...), strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// simulate runs `supercargo simulate` in this process.
func simulate(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = laboratory.Main(append([]string{"supercargo-lab", "simulate"}, args...), strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// siteWith starts a control plane with Supercargo's CRDs, which ends with the test.
func siteWith(t *testing.T, options playground.Options) *kit.Site {
	t.Helper()
	s, err := kit.NewSites(options).Get()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stop the playground: %v", err)
		}
	})
	return s
}

func create(t *testing.T, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		testapi.Create(t, c, o)
	}
}

// deployment returns a Deployment of n pods with a CPU request.
func deployment(name string, n int32, cpu string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("1Gi")},
			}}}},
		}},
	}
}

// explained runs `supercargo explain pod` until check accepts the explanation. check returns what is missing.
func explained(t *testing.T, kubeconfig, pod string, check func(explain.Why) string) (why explain.Why) {
	t.Helper()
	testwait.Until(t, patience, "pod "+pod+" is explained", func() string {
		code, stdout, stderr := supercargo("explain", "po", pod, "-n", "default", "--kubeconfig", kubeconfig, "-o", "json")
		if code != exitOK {
			return stderr
		}
		why = explain.Why{}
		testfile.JSON(t, stdout, &why)
		if missing := check(why); missing != "" {
			return missing + "\n" + stdout
		}
		return ""
	})
	return why
}

// quick returns a fleet with short times that drains no machine that has pods.
func quick() v1alpha1.NodeFleetSpec {
	d := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	return v1alpha1.NodeFleetSpec{
		Pricing: v1alpha1.FleetPricing{BillingPeriod: d(time.Second)},
		Scaling: v1alpha1.FleetScaling{
			Interval: d(2 * time.Second), BatchIdle: d(time.Second), BatchMax: d(5 * time.Second), JoinTimeout: d(time.Minute), BackOff: d(30 * time.Second), ExpectedLag: d(5 * time.Second),
		},
		Consolidation: v1alpha1.FleetConsolidation{
			Policy: v1alpha1.ConsolidateWhenEmpty, After: d(time.Hour), MaxUnavailable: "100%", DrainTimeout: d(time.Minute), ReleaseDelay: d(3 * time.Second),
		},
	}
}

func flavorsOf(w *explain.FleetWhy) map[string]string {
	all := map[string]string{}
	for _, t := range w.Flavors {
		for _, name := range t.Names {
			all[name] = t.Reason
		}
	}
	return all
}

// TestAPodIsExplainedFromPendingToWhatWouldMoveIt follows a pod that fits on no node until a machine is
// bought for it, and then until a budget keeps it there.
func TestAPodIsExplainedFromPendingToWhatWouldMoveIt(t *testing.T) {
	taint := []corev1.Taint{{Key: "own", Value: "team", Effect: corev1.TaintEffectNoSchedule}}
	s := siteWith(t, playground.Options{ClusterAPI: true, Nodes: []playground.NodeSpec{
		{Name: "small", CPU: "2", Memory: "8Gi"}, {Name: "tainted", CPU: "16", Memory: "64Gi", Taints: taint},
	}})
	for _, m := range []playground.MachineDeploymentSpec{
		{Name: "m-small", CPU: "2", Memory: "8Gi", PricePerHour: "0.1", Max: 5},
		{Name: "m-large", CPU: "8", Memory: "32Gi", PricePerHour: "0.4", Max: 5, AcquisitionLag: 5 * time.Second},
		{Name: "m-unpriced", CPU: "8", Memory: "32Gi", Max: 5},
		{Name: "m-tainted", CPU: "8", Memory: "32Gi", PricePerHour: "0.2", Max: 5, Taints: taint},
		{Name: "m-none", CPU: "8", Memory: "32Gi", PricePerHour: "0.2", Max: 0},
	} {
		if err := s.AddMachineDeployment(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	fleet := &v1alpha1.NodeFleet{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	fleet.Spec = quick()
	fleet.Spec.ClusterAPI = &v1alpha1.ClusterAPIFlavors{Namespace: "default", Selector: &metav1.LabelSelector{}}
	create(t, s.Client, fleet, deployment("web", 1, "4"))
	var pod corev1.Pod
	s.Eventually(t, kit.Waiting{Patience: patience, Poll: kit.Poll, Meanwhile: func() {}, Show: func() string { return "" }}, "the pod is made", func() string {
		var pods corev1.PodList
		if err := s.Client.List(t.Context(), &pods, client.InNamespace("default")); err != nil || len(pods.Items) != 1 {
			return fmt.Sprintf("%d pods (%v)", len(pods.Items), err)
		}
		pod = pods.Items[0]
		return ""
	})

	follow := followed{site: s, kubeconfig: s.KubeconfigPath(), pod: pod.Name}
	t.Run("nobody buys yet", follow.nobodyBuys)

	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	log, ended := &kit.Log{}, make(chan error, 1)
	go func() {
		ended <- app.Run(ctx, app.Options{Options: operator.Options{Config: operator.Throttle(s.Config()), MetricsAddress: "0", ProbeAddress: "0", Log: log.Logger("all")}})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the autoscaler: %v", err)
		}
		if t.Failed() {
			t.Logf("the autoscaler's last lines:\n%s", log.Tail(40))
		}
	})
	t.Run("a machine is ordered", follow.ordered)
	t.Run("it has its node", follow.placed)
	t.Run("a budget holds it", follow.held)
	t.Run("as somebody who may read nothing", follow.unread)
}

// followed is the pod whose explanations are read.
type followed struct {
	site            *kit.Site
	kubeconfig, pod string
}

// nobodyBuys checks the explanation while no autoscaler runs.
func (f followed) nobodyBuys(t *testing.T) {
	why := explained(t, f.kubeconfig, f.pod, func(w explain.Why) string {
		if w.Pending == nil || w.Pending.Scheduler == nil || len(w.Pending.Fleets) != 1 {
			return "the scheduler has not spoken"
		}
		return ""
	})
	p := why.Pending
	if p.Scheduler.Nodes != 2 || len(p.Scheduler.Reasons) != 2 || !strings.Contains(p.Scheduler.Message, "Insufficient cpu") {
		t.Errorf("the scheduler says %+v, want a reason for each of two nodes", p.Scheduler)
	}
	reasons := map[string]string{}
	for _, tally := range p.Nodes {
		reasons[strings.Join(tally.Names, ",")] = tally.Reason
	}
	if reasons["small"] != "Insufficient cpu" || !strings.Contains(reasons["tainted"], "own=team") {
		t.Errorf("the nodes are kept by %v", reasons)
	}
	fleet := p.Fleets[0]
	got := flavorsOf(&fleet)
	for flavor, says := range map[string]string{"m-small": "too small (CPU)", "m-unpriced": "no price", "m-tainted": "own=team", "m-none": "quota"} {
		if !strings.Contains(got[flavor], says) {
			t.Errorf("flavor %s is kept by %q, want %q", flavor, got[flavor], says)
		}
	}
	if reason, is := got["m-large"]; !is || reason != "" || fleet.Note != "" {
		t.Errorf("m-large is kept by %q, note %q; want it to take the pod, and the flavors to be read whole", reason, fleet.Note)
	}
	if fleet.Doing != explain.Nothing || !strings.Contains(fleet.Because, "check that it is running") {
		t.Errorf("the fleet is doing %s: %s; want nothing, as no autoscaler runs", fleet.Doing, fleet.Because)
	}
	if code, stdout, stderr := supercargo("explain", "pods", "-A", "--kubeconfig", f.kubeconfig); code != exitOK || !strings.Contains(stdout, "default/"+f.pod) {
		t.Errorf("explain pods -A: exit code %d, %s%s", code, stdout, stderr)
	}
}

// ordered checks the explanation once a machine is ordered.
func (f followed) ordered(t *testing.T) {
	why := explained(t, f.kubeconfig, f.pod, func(w explain.Why) string {
		if w.Pending == nil || w.Pending.Fleets[0].Doing != explain.Ordered || w.Pending.Fleets[0].Flavor == "" {
			return "no machine is on its way"
		}
		return ""
	})
	if fleet := why.Pending.Fleets[0]; fleet.Flavor != "m-large" || fleet.ExpectedTime == nil || !fleet.ExpectedTime.After(*fleet.OrderedTime) {
		t.Errorf("%s ordered at %v, expected at %v; want m-large, later", fleet.Flavor, fleet.OrderedTime, fleet.ExpectedTime)
	}
}

// placed checks the explanation once the pod runs.
func (f followed) placed(t *testing.T) {
	why := explained(t, f.kubeconfig, f.pod, func(w explain.Why) string {
		if w.Phase != "Running" || w.Moving == nil || w.Moving.Fleet == "" {
			return "it does not run on a machine of the fleet"
		}
		return ""
	})
	because := strings.Join(why.Placement.Because, "\n")
	if !strings.Contains(because, "Successfully assigned") || !strings.Contains(because, "ordered machines of flavor m-large") || !strings.Contains(why.Placement.Scores, "--v=10") {
		t.Errorf("placed because %s\n%s", because, why.Placement.Scores)
	}
	if !slices.Equal(why.Moving.Ways, []string{"evict"}) || why.Moving.Fleet != "all" {
		t.Errorf("it may leave by %v (%s), its node is of fleet %q; want evict and all", why.Moving.Ways, why.Moving.Held, why.Moving.Fleet)
	}
}

// held checks the explanation with a budget that allows no disruption.
func (f followed) held(t *testing.T) {
	one := intstr.FromInt32(1)
	create(t, f.site.Client, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	})
	why := explained(t, f.kubeconfig, f.pod, func(w explain.Why) string {
		if w.Moving == nil || len(w.Moving.Obstacles) == 0 {
			return "nothing holds it"
		}
		return ""
	})
	if m := why.Moving; len(m.Ways) != 0 || m.Obstacles[0].Object != "default/web" || !slices.Equal(m.Obstacles[0].Ways, []string{"evict"}) {
		t.Errorf("it may leave by %v, held by %q and %+v; want the budget alone in its way", m.Ways, m.Held, m.Obstacles)
	}
	if code, stdout, stderr := supercargo("explain", "no", why.Placement.Node, "--kubeconfig", f.kubeconfig); code != exitOK || !strings.Contains(stdout, "PodDisruptionBudget web") {
		t.Errorf("explain node: exit code %d, %s%s", code, stdout, stderr)
	}
}

// unread checks the explanation for a user without permissions.
func (f followed) unread(t *testing.T) {
	code, _, stderr := supercargo("explain", "po", f.pod, "-n", "default", "--kubeconfig", f.kubeconfig, "--as", "nobody")
	if code != exitFailed || !strings.Contains(stderr, `User "nobody"`) {
		t.Errorf("exit code %d, %q; want what the API server refuses to nobody", code, stderr)
	}
}
