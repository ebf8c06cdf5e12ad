// Package audit tests `supercargo audit` with a real API server.
package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/api/v1alpha1"
	auditing "supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/cmd/supercargo/cli"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit/testapi"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// pods is more than the API server returns in one page.
const pods = 620

// nodes returns AWS machines in a region with embedded list prices, one with its own price and one with an
// unknown price.
func nodes() []playground.NodeSpec {
	var all []playground.NodeSpec
	for i := range 12 {
		n := playground.NodeSpec{
			Name: fmt.Sprintf("node-%02d", i), CPU: "15890m", Memory: "57991Mi", Pods: 234, MachineType: "m5.4xlarge",
			Labels: map[string]string{corev1.LabelTopologyRegion: "us-east-1", corev1.LabelTopologyZone: "us-east-1a", "eks.amazonaws.com/nodegroup": "general"},
		}
		switch i {
		case 0:
			n.Annotations = map[string]string{v1alpha1.AnnotationPricePerHour: "0.50"}
		case 1:
			n.MachineType = "z9.unknown"
		}
		all = append(all, n)
	}
	return all
}

// fill binds pods of a ReplicaSet to the nodes in turn, including one without a controller.
func fill(t *testing.T, c client.Client) {
	t.Helper()
	create := func(o client.Object) {
		testapi.Create(t, c, o)
	}
	create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "auditor"}})
	for i := range pods {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("web-%03d", i), Labels: map[string]string{"app": "web"}}}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: new(true)}}
		if i == 7 {
			p.OwnerReferences = nil
		}
		p.Spec.NodeName, p.Spec.AutomountServiceAccountToken = fmt.Sprintf("node-%02d", i%12), new(false)
		p.Spec.Containers = []corev1.Container{{Name: "main", Image: "web", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("200Mi")},
		}}}
		create(p)
	}
	create(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}},
	})
}

// dump returns what kubectl get -A -o yaml would print.
func dump(t *testing.T, c client.Client) string {
	t.Helper()
	var text bytes.Buffer
	for _, list := range []client.ObjectList{&corev1.NodeList{}, &corev1.PodList{}, &policyv1.PodDisruptionBudgetList{}, &corev1.NamespaceList{}} {
		testapi.List(t, c, list)
		kinds, _, err := scheme.Scheme.ObjectKinds(list)
		if err != nil {
			t.Fatal(err)
		}
		list.(runtime.Object).GetObjectKind().SetGroupVersionKind(kinds[0])
		part, err := yaml.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString("---\n")
		text.Write(part)
	}
	path := testfile.New(t, "dump.yaml", text.Bytes())
	return path
}

// audit runs the command.
func audit(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = cli.Main(append([]string{"supercargo", "audit"}, args...), strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// documentOf runs the command and parses its JSON.
func documentOf(t *testing.T, args ...string) auditing.Result {
	t.Helper()
	code, stdout, stderr := audit(append(args, "-o", "json")...)
	if code != 0 {
		t.Fatalf("audit %v: exit code %d: %s", args, code, stderr)
	}
	var d auditing.Result
	if err := json.Unmarshal([]byte(stdout), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAClusterAndItsDumpAreAuditedAlike(t *testing.T) {
	p := playground.ForTest(t, playground.Options{Nodes: nodes(), NoScheduler: true, NoKwok: true, NoControllerManager: true})
	c, err := client.New(p.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, c)
	live := documentOf(t, "--kubeconfig", p.KubeconfigPath())
	read := documentOf(t, "--from", dump(t, c))
	if diff := cmp.Diff(read, live); diff != "" {
		t.Errorf("the cluster differs from its dump (-dump +cluster):\n%s", diff)
	}

	t.Run("the figures are those of the cluster", func(t *testing.T) {
		// 10 machines at the list price of $0.768, one at its own price, one without a price.
		if got := fmt.Sprintf("%.2f", live.Now.PerHour.Dollars()); got != "8.18" || live.Now.Nodes != 11 || len(live.Unpriced) != 1 || live.Unpriced[0].Node != "node-01" {
			t.Errorf("now $%s an hour on %d nodes, unpriced %v; want $8.18 on 11, and node-01", got, live.Now.Nodes, live.Unpriced)
		}
		if live.PlannedPods != pods-52 || live.Pods != pods || live.Nodes != 12 { // every twelfth is on node-01
			t.Errorf("%d pods in the figures of %d on %d nodes, want %d of %d on 12", live.PlannedPods, live.Pods, live.Nodes, pods-52, pods)
		}
		if live.Moved.PerHour >= live.Now.PerHour || live.Cheapest.PerHour > live.Moved.PerHour || live.Bound > live.Cheapest.PerHour {
			t.Errorf("bound %v, cheapest %v, moved %v, now %v; want them in order, and moves that save", live.Bound, live.Cheapest.PerHour, live.Moved.PerHour, live.Now.PerHour)
		}
	})
	t.Run("the ClusterRole is all that it needs", func(t *testing.T) {
		text := testfile.Read(t, "../../../manifests/audit/role.yaml")
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict(text, &role); err != nil {
			t.Fatal(err)
		}
		grant(t, c, &role, "reader")
		if diff := cmp.Diff(live, documentOf(t, "--kubeconfig", p.KubeconfigPath(), "--as", "reader")); diff != "" {
			t.Errorf("another user sees something else (-administrator +reader):\n%s", diff)
		}
	})
	t.Run("kinds that it may not list are named, and the figures stand", func(t *testing.T) {
		grant(t, c, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "least"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"list"}},
		}}, "least")
		least := documentOf(t, "--kubeconfig", p.KubeconfigPath(), "--as", "least")
		if least.Now.PerHour != live.Now.PerHour || !strings.Contains(strings.Join(least.Notes, "\n"), "PodDisruptionBudgets were not read: the user may not list them.") {
			t.Errorf("now %v, notes %q", least.Now.PerHour, least.Notes)
		}
	})
	refusals(t, p.KubeconfigPath())
}

// refusals checks which audits of a cluster are refused.
func refusals(t *testing.T, kubeconfig string) {
	t.Run("without rights it is refused", func(t *testing.T) {
		code, stdout, stderr := audit("--kubeconfig", kubeconfig, "--as", "nobody")
		if code != 1 || stdout != "" || !strings.Contains(stderr, "list Nodes: ") || !strings.Contains(stderr, "forbidden") {
			t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
		}
	})
	t.Run("a context that the kubeconfig does not have is refused", func(t *testing.T) {
		code, _, stderr := audit("--kubeconfig", kubeconfig, "--context", "none")
		if code != 2 || !strings.Contains(stderr, `context "none" does not exist`) {
			t.Errorf("exit code %d, stderr %q", code, stderr)
		}
	})
}

// grant binds a role to a user.
func grant(t *testing.T, c client.Client, role *rbacv1.ClusterRole, user string) {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}
	for _, o := range []client.Object{role, binding} {
		testapi.Create(t, c, o)
	}
}
