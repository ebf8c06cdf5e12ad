package chart

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestTheDashboardReadsWhatItsCommandDoes compares its permissions in the cluster with those that a user of the
// command needs. Beyond them, it only reviews who its users are.
func TestTheDashboardReadsWhatItsCommandDoes(t *testing.T) {
	want := append(rights(t, built(t, "dashboard", "audit")), "create subjectaccessreviews.authorization.k8s.io", "create tokenreviews.authentication.k8s.io")
	slices.Sort(want)
	var roles []*unstructured.Unstructured
	for _, o := range render(t, home, only(values{"dashboard.enabled": true})) {
		if o.GetName() == "supercargo-dashboard-server" {
			roles = append(roles, o)
		}
	}
	if diff := cmp.Diff(want, rights(t, roles)); diff != "" {
		t.Errorf("rights of the command's user, and of the dashboard (-user +dashboard):\n%s", diff)
	}
}

// TestTheDashboardIsForAuthorizedUsersInAnyNamespace checks the arguments for two namespaces.
func TestTheDashboardIsForAuthorizedUsersInAnyNamespace(t *testing.T) {
	for namespace, own := range map[string][]string{
		home: {"dashboard", "--authorize", "--address=:8443", "--accept-host=supercargo-dashboard." + home + ".svc"},
		"ops": {
			"dashboard", "--authorize", "--address=:8443", "--accept-host=supercargo-dashboard.ops.svc", "--certificate-secret=ops/supercargo-dashboard",
		},
	} {
		v := only(values{"dashboard.enabled": true, "dashboard.options": values{"accept-host": []any{"board.example", "b.example"}, "audit-interval": "5m"}})
		d := deployment(t, render(t, namespace, v), "supercargo-dashboard")
		want := append(slices.Clone(own), "--accept-host=board.example,b.example", "--audit-interval=5m")
		if diff := cmp.Diff(want, d.Spec.Template.Spec.Containers[0].Args); diff != "" {
			t.Errorf("in namespace %s (-want +got):\n%s", namespace, diff)
		}
		if image := d.Spec.Template.Spec.Containers[0].Image; image != "registry.invalid/supercargo/supercargo:v0.1.0" {
			t.Errorf("the image is %s", image)
		}
	}
}
