package chart

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	adapter "supercargo.dev/supercargo/autoscaler/adapter/app"
	descheduler "supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/internal/platform/operator"
)

// policies returns the rendered NetworkPolicies, by name.
func policies(t *testing.T, objects []*unstructured.Unstructured) map[string]*networkingv1.NetworkPolicy {
	t.Helper()
	found := map[string]*networkingv1.NetworkPolicy{}
	for _, o := range objects {
		if o.GetKind() != "NetworkPolicy" {
			continue
		}
		p := &networkingv1.NetworkPolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, p, true); err != nil {
			t.Fatalf("%s: %v", id(o), err)
		}
		found[p.Name] = p
	}
	return found
}

// guarded returns values with which every program in the pod network has a policy.
func guarded(more values) values {
	v := maps.Clone(everything)
	maps.Copy(v, more)
	return v
}

// listens returns the ports at which a program listens for other pods, from the arguments in the chart and
// its own defaults. It excludes ports on the loopback interface.
func listens(t *testing.T, program string, args []string) (ports []string) {
	t.Helper()
	flags := pflag.NewFlagSet(program, pflag.ContinueOnError)
	var addresses func() []string
	switch program {
	case "supercargo-autoscaler":
		var o operator.Options
		o.AddFlags(flags)
		flags.ParseErrorsAllowlist.UnknownFlags = true // flags of the metrics source
		addresses = func() []string { return []string{o.MetricsAddress, o.ProbeAddress} }
	case "supercargo-descheduler":
		o := descheduler.Defaults()
		o.AddFlags(flags)
		addresses = func() []string { return []string{o.MetricsAddress, o.ProbeAddress} }
	case "supercargo-evictions":
		o := descheduler.EvictionDefaults()
		o.AddEvictionFlags(flags)
		addresses = func() []string { return []string{o.MetricsAddress, o.ProbeAddress, o.Evictions.Address} }
	case "supercargo-metrics-adapter":
		o := adapter.Defaults()
		o.AddFlags(flags)
		addresses = func() []string { return []string{fmt.Sprintf(":%d", o.Server.SecureServing.BindPort), o.QueryAddress} }
	case "supercargo-dashboard":
		address := flags.String("address", "", "")
		flags.ParseErrorsAllowlist.UnknownFlags = true
		addresses = func() []string { return []string{*address} }
	case "supercargo-scheduler":
		return []string{"10259"} // of kube-scheduler, by default; see composed in hack/chartoptions
	default:
		t.Fatalf("at which ports does %s listen?", program)
	}
	if err := flags.Parse(args); err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	for _, address := range addresses() {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatalf("%s listens at %q: %v", program, address, err)
		}
		if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
			ports = append(ports, port)
		}
	}
	slices.Sort(ports)
	return ports
}

// TestPoliciesLetInWhatProgramsListenAt checks that exactly the ports are allowed at which the programs
// listen with the arguments in the chart.
func TestPoliciesLetInWhatProgramsListenAt(t *testing.T) {
	objects := render(t, home, guarded(nil))
	all := policies(t, objects)
	for _, o := range objects {
		if o.GetKind() != "Deployment" {
			continue
		}
		d := deployment(t, objects, o.GetName())
		container, p := d.Spec.Template.Spec.Containers[0], all[d.Name]
		if p == nil {
			t.Errorf("no policy is for %s", d.Name)
			continue
		}
		delete(all, d.Name)
		named := map[string]int32{}
		var declared []string
		for _, port := range container.Ports {
			named[port.Name] = port.ContainerPort
			declared = append(declared, fmt.Sprint(port.ContainerPort))
		}
		slices.Sort(declared)
		listened := listens(t, d.Name, container.Args)
		if diff := cmp.Diff(listened, declared); diff != "" {
			t.Errorf("%s listens at, and declares (-listens +declares):\n%s", d.Name, diff)
		}
		var let []string
		for _, rule := range p.Spec.Ingress {
			for _, port := range rule.Ports {
				let = append(let, fmt.Sprint(named[port.Port.String()]))
			}
		}
		slices.Sort(let)
		if diff := cmp.Diff(listened, let); diff != "" {
			t.Errorf("%s listens at, and its policy lets in (-listens +lets in):\n%s", d.Name, diff)
		}
	}
	for name := range all {
		t.Errorf("policy %s is for no Deployment", name)
	}
}

// TestKustomizeHasThePoliciesOfAllParts in one part, without those of a cloud, whose addresses are the user's.
func TestKustomizeHasThePoliciesOfAllParts(t *testing.T) {
	got := policies(t, built(t, "network"))
	want := policies(t, render(t, home, guarded(values{"autoscaler.openstack.enabled": false, "networkPolicy.egress.autoscaler": []any{}})))
	if diff := cmp.Diff(want, got); diff != "" || len(got) < 6 {
		t.Errorf("kustomize and Helm (-helm +kustomize):\n%s", diff)
	}
}

// destinations returns a policy's egress rules, one line each: destinations and ports.
func destinations(p *networkingv1.NetworkPolicy) (lines []string) {
	for _, rule := range p.Spec.Egress {
		to, ports := "anywhere", "any port"
		if len(rule.To) > 0 {
			var peers []string
			for _, peer := range rule.To {
				switch {
				case peer.IPBlock != nil:
					peers = append(peers, peer.IPBlock.CIDR)
				case peer.NamespaceSelector != nil && len(peer.NamespaceSelector.MatchLabels) == 0 && peer.PodSelector == nil:
					peers = append(peers, "all pods")
				case peer.PodSelector != nil && peer.NamespaceSelector == nil:
					peers = append(peers, peer.PodSelector.MatchLabels["app.kubernetes.io/name"])
				default:
					peers = append(peers, fmt.Sprintf("%+v", peer))
				}
			}
			to = strings.Join(peers, ", ")
		}
		if len(rule.Ports) > 0 {
			var all []string
			for _, port := range rule.Ports {
				protocol := ""
				if port.Protocol != nil && *port.Protocol == corev1.ProtocolUDP {
					protocol = "/udp"
				}
				all = append(all, port.Port.String()+protocol)
			}
			ports = strings.Join(all, " ")
		}
		lines = append(lines, to+": "+ports)
	}
	return lines
}

// TestPoliciesLetProgramsReachWhatTheyUse checks that the egress rules allow nothing else.
func TestPoliciesLetProgramsReachWhatTheyUse(t *testing.T) {
	const dns, server = "anywhere: 53/udp 53", "anywhere: 443 6443"
	alone := only(values{"autoscaler.enabled": true, "networkPolicy.enabled": true})
	told := guarded(values{
		"networkPolicy.apiServer": values{"cidrs": []any{"198.51.100.7/32"}, "ports": []any{6443}}, "networkPolicy.metricsFrom": []any{values{"namespaceSelector": values{"matchLabels": values{"a": "b"}}}},
		"networkPolicy.egress.scheduler": cloud,
	})
	for _, tc := range []struct {
		name   string
		values values
		want   map[string][]string
	}{
		{"everything", guarded(nil), map[string][]string{
			"supercargo-autoscaler":      {dns, server, "supercargo-metrics-adapter: https", "all pods: any port", "192.0.2.0/24: any port"},
			"supercargo-descheduler":     {dns, server, "anywhere: 8086"},
			"supercargo-evictions":       {dns, server},
			"supercargo-metrics-adapter": {dns, server, "all pods: any port", "anywhere: 10250", "anywhere: 8086"},
			"supercargo-dashboard":       {dns, server},
			"supercargo-scheduler":       {dns, server},
		}},
		{"nothing but what reports", nil, map[string][]string{"supercargo-autoscaler": {dns, server}, "supercargo-descheduler": {dns, server}}},
		{"switched off", values{"networkPolicy.enabled": false}, map[string][]string{}},
		{"the autoscaler alone", alone, map[string][]string{"supercargo-autoscaler": {dns, server}}},
		{"with addresses", told, map[string][]string{
			"supercargo-autoscaler":      {dns, "198.51.100.7/32: 6443", "supercargo-metrics-adapter: https", "all pods: any port", "192.0.2.0/24: any port"},
			"supercargo-descheduler":     {dns, "198.51.100.7/32: 6443", "anywhere: 8086"},
			"supercargo-evictions":       {dns, "198.51.100.7/32: 6443"},
			"supercargo-metrics-adapter": {dns, "198.51.100.7/32: 6443", "all pods: any port", "anywhere: 10250", "anywhere: 8086"},
			"supercargo-dashboard":       {dns, "198.51.100.7/32: 6443"},
			"supercargo-scheduler":       {dns, "198.51.100.7/32: 6443", "192.0.2.0/24: any port"},
		}},
	} {
		got := map[string][]string{}
		for name, p := range policies(t, render(t, home, tc.values)) {
			got[name] = destinations(p)
			if !slices.Equal(p.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}) {
				t.Errorf("%s: %s is about %v", tc.name, name, p.Spec.PolicyTypes)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	for _, rule := range policies(t, render(t, home, told))["supercargo-evictions"].Spec.Ingress {
		want := map[string]string{"probes": "[]", "metrics": "a=b", "evictions": "198.51.100.7/32"}[rule.Ports[0].Port.String()]
		if got := fmt.Sprint(rule.From); want == "a=b" && (len(rule.From) != 1 || rule.From[0].NamespaceSelector.MatchLabels["a"] != "b") || want == "[]" && got != want ||
			strings.Contains(want, "/") && (len(rule.From) != 1 || rule.From[0].IPBlock.CIDR != want) {
			t.Errorf("port %s is open to %s, want %s", rule.Ports[0].Port, got, want)
		}
	}
}
