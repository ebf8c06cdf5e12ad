package chart

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// world contains the rendered objects, to resolve references.
type world struct {
	*testing.T
	objects []*unstructured.Unstructured
	byID    map[string]*unstructured.Unstructured
}

func newWorld(t *testing.T, objects []*unstructured.Unstructured) *world {
	t.Helper()
	w := &world{T: t, objects: objects, byID: map[string]*unstructured.Unstructured{}}
	for _, o := range objects {
		w.byID[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = o
	}
	return w
}

// there lists objects that exist in every cluster.
var there = []string{
	"ClusterRole /system:kube-scheduler", "ClusterRole /system:volume-scheduler", "ClusterRole /system:auth-delegator",
	"Role kube-system/extension-apiserver-authentication-reader", "Namespace /kube-system",
}

// needs reports an object that does not exist.
func (w *world) needs(who *unstructured.Unstructured, kind, namespace, name string) *unstructured.Unstructured {
	w.Helper()
	key := kind + " " + namespace + "/" + name
	if w.byID[key] == nil && !slices.Contains(there, key) {
		w.Errorf("%s %s refers to %s, which is not there", who.GetKind(), who.GetName(), key)
	}
	return w.byID[key]
}

// text returns a field of an object, or "" if it has none.
func text(o map[string]any, path ...string) string {
	value, _, _ := unstructured.NestedString(o, path...)
	return value
}

// pods returns the workloads whose pods a selector selects.
func (w *world) pods(namespace string, selector map[string]string) (found []*unstructured.Unstructured) {
	for _, o := range w.objects {
		labels, ok, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
		if !ok || o.GetNamespace() != namespace || len(selector) == 0 {
			continue
		}
		if !slices.ContainsFunc(slices.Collect(keys(selector)), func(k string) bool { return labels[k] != selector[k] }) {
			found = append(found, o)
		}
	}
	return found
}

func keys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// ports returns the names of the ports of a workload.
func (w *world) ports(o *unstructured.Unstructured) (names []string) {
	for _, container := range containers(w.T, o) {
		all, _ := container["ports"].([]any)
		for _, port := range all {
			names = append(names, text(port.(map[string]any), "name"))
		}
	}
	return names
}

// selects checks that the pods of a selector exist and have certain ports.
func (w *world) selects(who *unstructured.Unstructured, selector map[string]string, ports ...string) {
	w.Helper()
	found := w.pods(who.GetNamespace(), selector)
	if len(found) != 1 {
		w.Errorf("%s %s selects the pods of %d workloads by %v, want one", who.GetKind(), who.GetName(), len(found), selector)
		return
	}
	for _, port := range ports {
		if !slices.Contains(w.ports(found[0]), port) {
			w.Errorf("%s %s leads to port %s of %s, which has %q", who.GetKind(), who.GetName(), port, found[0].GetName(), w.ports(found[0]))
		}
	}
}

// account matches ServiceAccounts in policies.
var account = regexp.MustCompile(`system:serviceaccount:([a-z0-9-]+):([a-z0-9-]+)`)

// check resolves every reference of one object.
func (w *world) check(o *unstructured.Unstructured) {
	w.Helper()
	selector, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
	switch o.GetKind() {
	case "ClusterRoleBinding", "RoleBinding":
		w.binding(o)
	case "Deployment", "DaemonSet":
		w.workload(o)
		w.selects(o, selector)
	case "PodDisruptionBudget":
		w.selects(o, selector)
	case "Service":
		selector, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector")
		for _, port := range list(w.T, o, "spec", "ports") {
			w.selects(o, selector, text(port, "targetPort"))
		}
	case "NetworkPolicy":
		selector, _, _ := unstructured.NestedStringMap(o.Object, "spec", "podSelector", "matchLabels")
		for _, rule := range list(w.T, o, "spec", "ingress") {
			for _, port := range rule["ports"].([]any) {
				w.selects(o, selector, text(port.(map[string]any), "port"))
			}
		}
	case "PodMonitor":
		for _, endpoint := range list(w.T, o, "spec", "podMetricsEndpoints") {
			w.selects(o, selector, text(endpoint, "port"))
		}
	case "ServiceMonitor":
		service := w.needs(o, "Service", o.GetNamespace(), o.GetName())
		if service == nil || service.GetLabels()["app.kubernetes.io/name"] != selector["app.kubernetes.io/name"] {
			w.Errorf("ServiceMonitor %s selects by %v, and its Service has other labels", o.GetName(), selector)
		}
	case "APIService":
		w.needs(o, "Service", text(o.Object, "spec", "service", "namespace"), text(o.Object, "spec", "service", "name"))
	case "ValidatingWebhookConfiguration":
		for _, webhook := range list(w.T, o, "webhooks") {
			w.needs(o, "Service", text(webhook, "clientConfig", "service", "namespace"), text(webhook, "clientConfig", "service", "name"))
		}
	case "ValidatingAdmissionPolicyBinding":
		w.needs(o, "ValidatingAdmissionPolicy", "", text(o.Object, "spec", "policyName"))
	case "ValidatingAdmissionPolicy":
		for _, match := range account.FindAllStringSubmatch(fmt.Sprint(o.Object), -1) {
			w.needs(o, "ServiceAccount", match[1], match[2])
		}
	}
}

func (w *world) binding(o *unstructured.Unstructured) {
	w.Helper()
	kind, namespace := text(o.Object, "roleRef", "kind"), ""
	if kind == "Role" {
		namespace = o.GetNamespace()
	}
	w.needs(o, kind, namespace, text(o.Object, "roleRef", "name"))
	for _, subject := range list(w.T, o, "subjects") {
		if text(subject, "kind") == "ServiceAccount" {
			w.needs(o, "ServiceAccount", text(subject, "namespace"), text(subject, "name"))
		}
	}
}

func (w *world) workload(o *unstructured.Unstructured) {
	w.Helper()
	w.needs(o, "ServiceAccount", o.GetNamespace(), text(o.Object, "spec", "template", "spec", "serviceAccountName"))
	var volumes []string
	for _, volume := range list(w.T, o, "spec", "template", "spec", "volumes") {
		volumes = append(volumes, text(volume, "name"))
		if name := text(volume, "configMap", "name"); name != "" {
			w.needs(o, "ConfigMap", o.GetNamespace(), name)
		}
	}
	for _, container := range containers(w.T, o) {
		mounts, _ := container["volumeMounts"].([]any)
		for _, mount := range mounts {
			if name := text(mount.(map[string]any), "name"); !slices.Contains(volumes, name) {
				w.Errorf("%s mounts %s, and has %q", o.GetName(), name, volumes)
			}
		}
	}
}

// TestEveryReferenceLeadsSomewhere renders everything, in the namespace of the manifests and in another one.
func TestEveryReferenceLeadsSomewhere(t *testing.T) {
	for _, namespace := range []string{home, "ops"} {
		t.Run(namespace, func(t *testing.T) {
			v := values{"nodeAgent.namespace": "agents", "descheduler.options": values{"probe-namespace": "probes"}}
			for key, value := range everything {
				v[key] = value
			}
			monitors := "monitoring.coreos.com/v1/PodMonitor,monitoring.coreos.com/v1/ServiceMonitor"
			w := newWorld(t, render(t, namespace, v, "--api-versions", monitors))
			if len(w.objects) < 70 {
				t.Errorf("only %d objects were rendered", len(w.objects))
			}
			for _, o := range w.objects {
				w.check(o)
				switch o.GetNamespace() {
				case "", namespace, "kube-system", "default":
				default:
					w.needs(o, "Namespace", "", o.GetNamespace())
				}
				if all := fmt.Sprint(o.Object); namespace != home && strings.Contains(all, home) {
					t.Errorf("%s names %s although the release is in %s: %s", id(o), home, namespace, all)
				}
			}
		})
	}
}

// TestMonitorsAreLeftOutWhereTheirKindsAreMissing checks a cluster without Prometheus Operator, where Helm
// would otherwise fail.
func TestMonitorsAreLeftOutWhereTheirKindsAreMissing(t *testing.T) {
	count := func(v values, more ...string) (n map[string]int) {
		n = map[string]int{}
		for _, o := range render(t, home, v, more...) {
			if strings.HasSuffix(o.GetKind(), "Monitor") {
				n[o.GetKind()]++
			}
		}
		return n
	}
	off := values{"monitoring.enabled": false}
	for key, value := range everything {
		off[key] = value
	}
	for name, tc := range map[string]struct {
		got  map[string]int
		want string
	}{
		"no kind":                {count(everything), "map[]"},
		"PodMonitor alone":       {count(everything, "--api-versions", "monitoring.coreos.com/v1/PodMonitor"), "map[PodMonitor:4]"},
		"ServiceMonitor alone":   {count(everything, "--api-versions", "monitoring.coreos.com/v1/ServiceMonitor"), "map[ServiceMonitor:3]"},
		"PodMonitor, few parts":  {count(only(values{"autoscaler.enabled": true}), "--api-versions", "monitoring.coreos.com/v1/PodMonitor"), "map[PodMonitor:1]"},
		"PodMonitor, not wanted": {count(off, "--api-versions", "monitoring.coreos.com/v1/PodMonitor"), "map[]"},
	} {
		if got := fmt.Sprint(tc.got); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
