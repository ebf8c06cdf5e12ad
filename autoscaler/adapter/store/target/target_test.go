package target

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

var limits = Limits{Most: 100, MinInterval: time.Second, MaxInterval: 30 * time.Second}

// pod returns a running pod with one TCP port, 8080, and annotations.
func pod(name, ip string, annotations ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: pairs(annotations)}}
	p.Spec.NodeName = "n1"
	p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{
		{ContainerPort: 8080}, {ContainerPort: 53, Protocol: corev1.ProtocolUDP}}}}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip}
	return p
}

func pairs(list []string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(list); i += 2 {
		m[list[i]] = list[i+1]
	}
	return m
}

func TestPodsAreScrapedAsTheirAnnotationsSay(t *testing.T) {
	on := []string{ScrapeAnnotation, "true"}
	plain := Target{Job: PodsJob, Address: "10.0.0.1:8080", Labels: map[string]string{"namespace": "shop", "pod": "web", "node": "n1"}}
	with := func(change func(*Target)) []Target {
		t := plain
		change(&t)
		return []Target{t}
	}
	for _, c := range []struct {
		name  string
		pod   *corev1.Pod
		want  []Target
		fault string
	}{
		{"nothing said", pod("web", "10.0.0.1"), nil, ""},
		{"not wanted", pod("web", "10.0.0.1", ScrapeAnnotation, "false"), nil, ""},
		{"each declared TCP port", pod("web", "10.0.0.1", on...), []Target{plain}, ""},
		{"a port", pod("web", "10.0.0.1", append(on, PortAnnotation, "9100")...), with(func(t *Target) { t.Address = "10.0.0.1:9100" }), ""},
		{"IPv6", pod("web", "fd00::1", append(on, PortAnnotation, "9100")...), with(func(t *Target) { t.Address = "[fd00::1]:9100" }), ""},
		{"a path", pod("web", "10.0.0.1", append(on, PathAnnotation, "stats")...), with(func(t *Target) { t.Path = "/stats" }), ""},
		{"https", pod("web", "10.0.0.1", append(on, SchemeAnnotation, "https")...), with(func(t *Target) { t.Scheme = "https" }), ""},
		{"each second", pod("web", "10.0.0.1", append(on, IntervalAnnotation, "1s")...), with(func(t *Target) { t.Interval = time.Second }), ""},
		{"more often than may be", pod("web", "10.0.0.1", append(on, IntervalAnnotation, "10ms")...), with(func(t *Target) { t.Interval = time.Second }), ""},
		{"more rarely than may be", pod("web", "10.0.0.1", append(on, IntervalAnnotation, "1h")...), with(func(t *Target) { t.Interval = 30 * time.Second }), ""},
		{"no interval", pod("web", "10.0.0.1", append(on, IntervalAnnotation, "often")...), []Target{plain}, `pod shop/web: annotation supercargo.dev/scrape-interval is "often"`},
		{"no port", pod("web", "10.0.0.1", append(on, PortAnnotation, "http")...), nil, "prometheus.io/port"},
		{"port 0", pod("web", "10.0.0.1", append(on, PortAnnotation, "0")...), nil, "prometheus.io/port"},
		{"a port too high", pod("web", "10.0.0.1", append(on, PortAnnotation, "65536")...), nil, "prometheus.io/port"},
		{"no scheme", pod("web", "10.0.0.1", append(on, SchemeAnnotation, "ftp")...), nil, "prometheus.io/scheme"},
		{"no address", pod("web", "", on...), nil, ""},
	} {
		found := Discover([]*corev1.Pod{c.pod}, nil, nil, limits)
		if diff := cmp.Diff(c.want, found.Targets); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if (c.fault == "") != (len(found.Faults) == 0) || !strings.Contains(strings.Join(found.Faults, ""), c.fault) {
			t.Errorf("%s: faults %q, want %q", c.name, found.Faults, c.fault)
		}
	}
	ended := pod("web", "10.0.0.1", on...)
	ended.Status.Phase = corev1.PodSucceeded
	if found := Discover([]*corev1.Pod{ended}, nil, nil, limits); len(found.Targets) != 0 {
		t.Errorf("a pod that has ended is scraped: %v", found.Targets)
	}
}

func TestOnlyTheNamespacesThatAreGivenAreRead(t *testing.T) {
	services, ends := endpoints([]string{ScrapeAnnotation, "true"}, discoveryv1.Endpoint{Addresses: []string{"10.0.0.2"}})
	pods := []*corev1.Pod{pod("web", "10.0.0.1", ScrapeAnnotation, "true")}
	for namespace, want := range map[string]int{"shop": 2, "other": 0} {
		bound := limits
		bound.Namespaces = []string{namespace}
		if got := len(Discover(pods, services, ends, bound).Targets); got != want {
			t.Errorf("of namespace %s there are %d targets, want %d", namespace, got, want)
		}
	}
}

// endpoints returns a Service with annotations and its EndpointSlice.
func endpoints(annotations []string, list ...discoveryv1.Endpoint) ([]*corev1.Service, []*discoveryv1.EndpointSlice) {
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: pairs(annotations)}
	return []*corev1.Service{{ObjectMeta: meta}}, []*discoveryv1.EndpointSlice{{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: "web-abc", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: list, Ports: []discoveryv1.EndpointPort{{Port: ptr.To(int32(8080))}},
	}}
}

func TestTheReadyEndpointsOfAServiceAreScraped(t *testing.T) {
	services, ends := endpoints([]string{ScrapeAnnotation, "true"},
		discoveryv1.Endpoint{Addresses: []string{"10.0.0.2"}, NodeName: ptr.To("n2"), TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "b"}},
		discoveryv1.Endpoint{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}},
		discoveryv1.Endpoint{Addresses: []string{"10.0.0.3"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}},
	)
	want := []Target{
		{Job: ServicesJob, Address: "10.0.0.1:8080", Group: "Service shop/web", Labels: map[string]string{"namespace": "shop", "service": "web"}},
		{Job: ServicesJob, Address: "10.0.0.2:8080", Group: "Service shop/web", Labels: map[string]string{"namespace": "shop", "service": "web", "node": "n2", "pod": "b"}},
	}
	if diff := cmp.Diff(want, Discover(nil, services, ends, limits).Targets); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	services[0].Annotations = nil
	if found := Discover(nil, services, ends, limits); len(found.Targets) != 0 {
		t.Errorf("a Service that says nothing is scraped: %v", found.Targets)
	}
	if found := Discover(nil, nil, ends, limits); len(found.Targets) != 0 {
		t.Errorf("endpoints of no Service are scraped: %v", found.Targets)
	}
}

func TestAPodBehindAServiceIsScrapedOnce(t *testing.T) {
	services, ends := endpoints([]string{ScrapeAnnotation, "true"}, discoveryv1.Endpoint{Addresses: []string{"10.0.0.1"}})
	found := Discover([]*corev1.Pod{pod("web", "10.0.0.1", ScrapeAnnotation, "true")}, services, ends, limits)
	if len(found.Targets) != 1 || found.Targets[0].Job != PodsJob {
		t.Errorf("it is scraped as %v, want once, as its own annotations say", found.Targets)
	}
}

// TestNoMoreIsScrapedThanMayBeWhateverTheOrder: the targets do not depend on the order of the pods.
func TestNoMoreIsScrapedThanMayBeWhateverTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, most := rapid.IntRange(0, 20).Draw(t, "pods"), rapid.IntRange(0, 20).Draw(t, "most")
		var pods []*corev1.Pod
		for i := range n {
			pods = append(pods, pod(fmt.Sprint("web-", i), fmt.Sprint("10.0.0.", i), ScrapeAnnotation, "true"))
		}
		bound := limits
		bound.Most = most
		first := Discover(pods, nil, nil, bound)
		shuffled := slices.Clone(pods)
		rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)).Shuffle(n, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if diff := cmp.Diff(first, Discover(shuffled, nil, nil, bound)); diff != "" {
			t.Errorf("in another order (-first +second):\n%s", diff)
		}
		if len(first.Targets) != min(n, most) || first.Dropped != max(0, n-most) {
			t.Errorf("of %d with at most %d, %d are scraped and %d are not", n, most, len(first.Targets), first.Dropped)
		}
	})
}

func TestKubeletsAreScrapedWhereTheirNodesSayThatTheyAre(t *testing.T) {
	node := func(name string, port int32, addresses ...corev1.NodeAddress) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Addresses, n.Status.DaemonEndpoints.KubeletEndpoint.Port = addresses, port
		return n
	}
	at := func(kind corev1.NodeAddressType, address string) corev1.NodeAddress {
		return corev1.NodeAddress{Type: kind, Address: address}
	}
	of := func(name, address string) Target {
		return Target{Job: KubeletsJob, Address: address, Path: "/metrics/resource", Scheme: "https", Labels: map[string]string{"node": name}}
	}
	got := Kubelets([]*corev1.Node{
		node("six", 10250, at(corev1.NodeHostName, "six"), at(corev1.NodeInternalIP, "fd00::6")),
		node("four", 10250, at(corev1.NodeExternalIP, "192.0.2.4"), at(corev1.NodeInternalIP, "10.0.0.4"), at(corev1.NodeInternalIP, "fd00::4")),
		node("named", 443, at(corev1.NodeHostName, "named.example")),
		node("nowhere", 10250, at(corev1.NodeExternalIP, "192.0.2.5")),
		node("silent", 0, at(corev1.NodeInternalIP, "10.0.0.5")),
	})
	want := []Target{of("four", "10.0.0.4:10250"), of("named", "named.example:443"), of("six", "[fd00::6]:10250")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPodsOfAllRevisionsOfADeploymentAreReplicasOfIt(t *testing.T) {
	for _, c := range []struct{ name, kind, owner, revision, want string }{
		{"of a revision", "ReplicaSet", "web-5d9f", "5d9f", "Deployment shop/web"},
		{"of the next", "ReplicaSet", "web-77c6", "77c6", "Deployment shop/web"},
		{"of a ReplicaSet of its own", "ReplicaSet", "web-5d9f", "", "ReplicaSet shop/web-5d9f"},
		{"of a ReplicaSet that was adopted", "ReplicaSet", "web", "5d9f", "ReplicaSet shop/web"},
		{"of a StatefulSet", "StatefulSet", "web", "", "StatefulSet shop/web"},
		{"of what is named like a revision", "StatefulSet", "web-5d9f", "5d9f", "StatefulSet shop/web-5d9f"},
		{"of nobody", "", "", "", ""},
	} {
		p := pod("web-1", "10.0.0.1", ScrapeAnnotation, "true")
		if c.kind != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "Other", Name: "other"}, {Kind: c.kind, Name: c.owner, Controller: ptr.To(true)}}
		}
		if c.revision != "" {
			p.Labels = map[string]string{"pod-template-hash": c.revision}
		}
		if found := Discover([]*corev1.Pod{p}, nil, nil, limits).Targets; len(found) != 1 || found[0].Group != c.want {
			t.Errorf("a pod %s: %+v, want it of %q", c.name, found, c.want)
		}
	}
}
