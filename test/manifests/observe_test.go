package manifests

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// TestWhatOnlyReportsMayWriteNothingElse reads the roles of manifests/observe, which the chart's defaults render:
// they write status of our own kinds, Events and Leases.
func TestWhatOnlyReportsMayWriteNothingElse(t *testing.T) {
	reads := []string{"get", "list", "watch"}
	allowed := []string{
		"supercargo.dev nodefleets/status", "supercargo.dev replicapolicies/status", "supercargo.dev workerpools/status", "supercargo.dev migrations/status",
		"supercargo.dev machineprofiles/status", "supercargo.dev consolidations/status", "events.k8s.io events", " events", "coordination.k8s.io leases",
	}
	check := func(role string, rules []rbacv1.PolicyRule) {
		t.Helper()
		for _, rule := range rules {
			for _, verb := range rule.Verbs {
				if slices.Contains(reads, verb) {
					continue
				}
				for _, group := range rule.APIGroups {
					for _, resource := range rule.Resources {
						if !slices.Contains(allowed, group+" "+resource) {
							t.Errorf("%s may %s %s of group %q", role, verb, resource, group)
						}
					}
				}
			}
		}
	}
	roles := 0
	for _, program := range []string{"autoscaler", "descheduler"} {
		for _, object := range objects(t, "../../manifests/observe/"+program+"/rbac.yaml") {
			switch o := object.(type) {
			case *rbacv1.ClusterRole:
				roles++
				check(o.Name, o.Rules)
			case *rbacv1.Role:
				roles++
				check(o.Namespace+"/"+o.Name, o.Rules)
			}
		}
	}
	if roles < 5 {
		t.Errorf("checked %d roles", roles)
	}
	for _, r := range build(t, "../../manifests/observe").Resources() {
		if kind := r.GetKind(); kind == "Namespace" || strings.HasPrefix(kind, "Validating") || strings.HasPrefix(kind, "Mutating") {
			t.Errorf("manifests/observe holds %s %s", kind, r.GetName())
		}
	}
}
