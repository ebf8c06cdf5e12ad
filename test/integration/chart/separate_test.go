package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestTheKubeconfigOfTheMachinesClusterIsMounted: the option names the file that the Secret becomes.
func TestTheKubeconfigOfTheMachinesClusterIsMounted(t *testing.T) {
	for name, tc := range map[string]struct {
		values values
		option string
	}{
		"the usual key": {values{"networkPolicy.enabled": false, "autoscaler.clusterAPI.kubeconfigSecret.name": "management"}, "--cluster-api-kubeconfig=/etc/supercargo/cluster-api/value"},
		"another key": {
			values{"networkPolicy.enabled": false, "autoscaler.clusterAPI.kubeconfigSecret": values{"name": "management", "key": "admin.conf"}, "metricsAdapter.enabled": true},
			"--cluster-api-kubeconfig=/etc/supercargo/cluster-api/admin.conf",
		},
	} {
		pod := deployment(t, render(t, home, tc.values), "supercargo-autoscaler").Spec.Template.Spec
		if args := pod.Containers[0].Args; !slices.Contains(args, tc.option) {
			t.Errorf("%s: the arguments are %q, want %s", name, args, tc.option)
		}
		var secret, folder string
		for _, v := range pod.Volumes {
			if v.Secret != nil {
				secret = v.Name + " " + v.Secret.SecretName
			}
		}
		for _, m := range pod.Containers[0].VolumeMounts {
			if m.ReadOnly && m.Name == "cluster-api" {
				folder = m.MountPath
			}
		}
		if secret != "cluster-api management" || folder != "/etc/supercargo/cluster-api" {
			t.Errorf("%s: Secret %q is mounted at %q", name, secret, folder)
		}
	}
	for _, arg := range deployment(t, render(t, home, nil), "supercargo-autoscaler").Spec.Template.Spec.Containers[0].Args {
		if strings.HasPrefix(arg, "--cluster-api-kubeconfig") {
			t.Errorf("without the value there is argument %s", arg)
		}
	}
}

// rights are what the ClusterRoles among objects grant, one line for each verb of each resource.
func rights(t *testing.T, objects []*unstructured.Unstructured) (granted []string) {
	t.Helper()
	strs := func(rule map[string]any, field string) []string {
		all, _, err := unstructured.NestedStringSlice(rule, field)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	for _, o := range objects {
		if o.GetKind() != "ClusterRole" {
			continue
		}
		for _, rule := range list(t, o, "rules") {
			for _, group := range strs(rule, "apiGroups") {
				for _, resource := range strs(rule, "resources") {
					for _, verb := range strs(rule, "verbs") {
						granted = append(granted, fmt.Sprintf("%s %s.%s", verb, resource, group))
					}
				}
			}
		}
	}
	slices.Sort(granted)
	return slices.Compact(granted)
}

// TestRightsMoveToTheClusterOfTheMachines: with the machines in another cluster, the autoscaler has
// there what it then lacks here, and no more.
func TestRightsMoveToTheClusterOfTheMachines(t *testing.T) {
	here := rights(t, render(t, home, only(values{"autoscaler.enabled": true, "autoscaler.machines.enabled": true, "autoscaler.catalogue.enabled": true})))
	left := rights(t, render(t, home, only(values{"autoscaler.enabled": true, "autoscaler.machines.enabled": true, "autoscaler.clusterAPI.kubeconfigSecret.name": "management"})))
	there := rights(t, built(t, "autoscaler/management-cluster"))
	for _, right := range there {
		if slices.Contains(left, right) {
			t.Errorf("both clusters grant %q", right)
		}
	}
	for _, right := range left {
		if strings.Contains(right, "cluster.x-k8s.io") {
			t.Errorf("the cluster of the release grants %q", right)
		}
	}
	both := slices.Concat(left, there)
	slices.Sort(both)
	if diff := cmp.Diff(here, both); diff != "" {
		t.Errorf("rights with one cluster, and with two (-one +two):\n%s", diff)
	}
}
