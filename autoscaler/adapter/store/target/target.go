// Package target says what is scraped: the targets that are given, those that pods and
// Services announce by the usual annotations, and kubelets. It is pure; package discovery watches the
// cluster for it.
package target

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The annotations, on a pod or on a Service for its endpoints. All but the last are those
// that Prometheus' users know.
const (
	ScrapeAnnotation = "prometheus.io/scrape" // "true"
	PortAnnotation   = "prometheus.io/port"   // default: each TCP port that is declared
	PathAnnotation   = "prometheus.io/path"   // default: /metrics
	SchemeAnnotation = "prometheus.io/scheme" // http or https
	// IntervalAnnotation is how often, as a duration of a second or more.
	IntervalAnnotation = "supercargo.dev/scrape-interval"
)

// The jobs of what is discovered.
const (
	PodsJob     = "pods"
	ServicesJob = "services"
	KubeletsJob = "kubelets"
	MetersJob   = "node-meters"
)

// KubeletSeries are taken of what a kubelet shows: the CPU time of pods, one series each.
var KubeletSeries = []string{"pod_cpu_usage_seconds_total"}

// Job is what its targets have in common.
type Job struct {
	// Name is the label job of its series.
	Name string
	// HonorLabels lets the target's own labels win over those given here.
	HonorLabels bool
	// CAFile and InsecureSkipVerify are about how targets with https are known, and
	// BearerTokenFile is what they know us by.
	CAFile             string
	InsecureSkipVerify bool
	BearerTokenFile    string
	// ServerName is in their certificates in the place of their address; empty is that.
	ServerName string
	// Only are the metrics that are kept of what targets show; none keeps all.
	Only []string
}

// Target is one place to scrape.
type Target struct {
	// Job is the name of its job.
	Job string
	// Address is its host:port.
	Address string
	// Path and Scheme are where its metrics are; empty means /metrics and http.
	Path, Scheme string
	// Interval is how often it is scraped; 0 is as often as others.
	Interval time.Duration
	// Labels are given to its series.
	Labels map[string]string
	// Group is what it is a replica of: the Service, or what made the pod, such as a Deployment.
	// Empty: it stands alone.
	Group string
}

// Limits bound what is discovered.
type Limits struct {
	// Namespaces are those looked into; none is all.
	Namespaces []string
	// Most is how many targets there may be.
	Most int
	// MinInterval and MaxInterval are the bounds of what a target may ask for. What is
	// beyond is brought to the bound.
	MinInterval, MaxInterval time.Duration
}

// Found is what has been discovered.
type Found struct {
	// Targets are in the order of their address, each address and path once: the pod's own
	// annotations go before those of its Services.
	Targets []Target
	// Dropped is how many more there were than there may be.
	Dropped int
	// Faults say which annotations are not understood.
	Faults []string
}

func (l *Limits) has(namespace string) bool {
	return len(l.Namespaces) == 0 || slices.Contains(l.Namespaces, namespace)
}

// Discover returns the targets among pods that run and among the endpoints of Services. The
// arguments are not changed; their order does not matter.
func Discover(pods []*corev1.Pod, services []*corev1.Service, ends []*discoveryv1.EndpointSlice, limits Limits) Found {
	d := discovery{limits: limits, seen: map[string]bool{}}
	for _, pod := range ordered(pods, func(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }) {
		d.pod(pod)
	}
	byName := map[string]*corev1.Service{}
	for _, s := range services {
		byName[s.Namespace+"/"+s.Name] = s
	}
	for _, slice := range ordered(ends, func(s *discoveryv1.EndpointSlice) string { return s.Namespace + "/" + s.Name }) {
		if service := byName[slice.Namespace+"/"+slice.Labels[discoveryv1.LabelServiceName]]; service != nil {
			d.endpoints(service, slice)
		}
	}
	slices.SortFunc(d.found.Targets, func(a, b Target) int {
		return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Path, b.Path))
	})
	if most := limits.Most; len(d.found.Targets) > most {
		d.found.Dropped = len(d.found.Targets) - most
		d.found.Targets = d.found.Targets[:most]
	}
	slices.Sort(d.found.Faults)
	d.found.Faults = slices.Compact(d.found.Faults)
	return d.found
}

// Kubelets returns where the kubelets of nodes show what pods use, in the order of the nodes'
// names. Nodes that do not say where their kubelet is have none. The argument is not changed.
func Kubelets(nodes []*corev1.Node) []Target {
	var targets []Target
	for _, node := range ordered(nodes, func(n *corev1.Node) string { return n.Name }) {
		port, host := node.Status.DaemonEndpoints.KubeletEndpoint.Port, ""
		for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeInternalDNS, corev1.NodeHostName} {
			for _, a := range node.Status.Addresses {
				if host == "" && a.Type == kind {
					host = a.Address
				}
			}
		}
		if port > 0 && host != "" {
			targets = append(targets, Target{
				Job: KubeletsJob, Address: net.JoinHostPort(host, strconv.Itoa(int(port))), Path: "/metrics/resource", Scheme: "https",
				Labels: map[string]string{"node": node.Name},
			})
		}
	}
	return targets
}

// Meters returns the node meters: those pods of a namespace that run and whose label
// app.kubernetes.io/name is the given one, in the order of their names. The argument is not
// changed.
func Meters(pods []*corev1.Pod, namespace, name string, port int) []Target {
	var targets []Target
	for _, pod := range ordered(pods, func(p *corev1.Pod) string { return p.Name }) {
		if pod.Namespace != namespace || pod.Labels["app.kubernetes.io/name"] != name || pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" {
			continue
		}
		targets = append(targets, Target{
			Job: MetersJob, Address: net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(port)), Scheme: "https", Group: workload(pod),
			Labels: map[string]string{"namespace": pod.Namespace, "pod": pod.Name, "node": pod.Spec.NodeName},
		})
	}
	return targets
}

// ordered returns the objects in the order of their names.
func ordered[T any](objects []T, name func(T) string) []T {
	return slices.SortedFunc(slices.Values(objects), func(a, b T) int { return cmp.Compare(name(a), name(b)) })
}

type discovery struct {
	limits Limits
	found  Found
	seen   map[string]bool // address and path
}

// pod adds the targets of a pod.
func (d *discovery) pod(pod *corev1.Pod) {
	if !d.limits.has(pod.Namespace) || pod.Annotations[ScrapeAnnotation] != "true" || pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" {
		return
	}
	at, ok := d.read("pod "+pod.Namespace+"/"+pod.Name, pod.Annotations)
	if !ok {
		return
	}
	at.Job, at.Group = PodsJob, workload(pod)
	at.Labels = map[string]string{"namespace": pod.Namespace, "pod": pod.Name, "node": pod.Spec.NodeName}
	ports := d.ports(pod.Annotations)
	if len(ports) == 0 {
		for _, c := range pod.Spec.Containers {
			for _, p := range c.Ports {
				if p.Protocol == corev1.ProtocolTCP || p.Protocol == "" {
					ports = append(ports, p.ContainerPort)
				}
			}
		}
	}
	d.add(at, pod.Status.PodIP, ports)
}

// workload names what made a pod, the Deployment and not the ReplicaSet of one of its
// revisions; empty for a pod that nobody made.
func workload(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return ""
	}
	kind, name := owner.Kind, owner.Name
	if revision := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; kind == "ReplicaSet" && revision != "" {
		if deployment, ok := strings.CutSuffix(name, "-"+revision); ok {
			kind, name = "Deployment", deployment
		}
	}
	return kind + " " + pod.Namespace + "/" + name
}

// endpoints adds the targets of a Service that are in one of its slices.
func (d *discovery) endpoints(service *corev1.Service, slice *discoveryv1.EndpointSlice) {
	if !d.limits.has(service.Namespace) || service.Annotations[ScrapeAnnotation] != "true" || slice.AddressType == discoveryv1.AddressTypeFQDN {
		return
	}
	at, ok := d.read("Service "+service.Namespace+"/"+service.Name, service.Annotations)
	if !ok {
		return
	}
	at.Job, at.Group = ServicesJob, "Service "+service.Namespace+"/"+service.Name
	ports := d.ports(service.Annotations)
	if len(ports) == 0 {
		for _, p := range slice.Ports {
			if p.Port != nil && (p.Protocol == nil || *p.Protocol == corev1.ProtocolTCP) {
				ports = append(ports, *p.Port)
			}
		}
	}
	for _, e := range slice.Endpoints {
		if e.Conditions.Ready != nil && !*e.Conditions.Ready || len(e.Addresses) == 0 {
			continue
		}
		at.Labels = map[string]string{"namespace": service.Namespace, "service": service.Name}
		if e.NodeName != nil {
			at.Labels["node"] = *e.NodeName
		}
		if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
			at.Labels["pod"] = e.TargetRef.Name
		}
		d.add(at, e.Addresses[0], ports)
	}
}

// read returns what annotations say of the targets of an object; not ok if it cannot be
// scraped.
func (d *discovery) read(object string, annotations map[string]string) (Target, bool) {
	fault := func(name, want string) {
		d.found.Faults = append(d.found.Faults, fmt.Sprintf("%s: annotation %s is %q: want %s", object, name, annotations[name], want))
	}
	t := Target{Path: annotations[PathAnnotation], Scheme: annotations[SchemeAnnotation]}
	if t.Path != "" && !strings.HasPrefix(t.Path, "/") {
		t.Path = "/" + t.Path
	}
	if text, given := annotations[PortAnnotation]; given {
		if port, err := strconv.ParseUint(text, 10, 16); err != nil || port == 0 {
			fault(PortAnnotation, "a port")
			return t, false
		}
	}
	if t.Scheme != "" && t.Scheme != "http" && t.Scheme != "https" {
		fault(SchemeAnnotation, "http or https")
		return t, false
	}
	if text, given := annotations[IntervalAnnotation]; given {
		interval, err := time.ParseDuration(text)
		if err != nil || interval <= 0 {
			fault(IntervalAnnotation, "a duration such as 1s")
			return t, true // it can be scraped as others are
		}
		t.Interval = min(max(interval.Truncate(time.Millisecond), d.limits.MinInterval), d.limits.MaxInterval)
	}
	return t, true
}

// ports returns the port that annotations name, if they do. [discovery.read] has seen that
// it is one.
func (d *discovery) ports(annotations map[string]string) []int32 {
	port, err := strconv.ParseUint(annotations[PortAnnotation], 10, 16)
	if err != nil {
		return nil
	}
	return []int32{int32(port)}
}

// add adds a target for each port that is not one already.
func (d *discovery) add(t Target, ip string, ports []int32) {
	for _, port := range ports {
		t.Address = net.JoinHostPort(ip, strconv.Itoa(int(port)))
		if key := t.Address + t.Path; !d.seen[key] {
			d.seen[key] = true
			d.found.Targets = append(d.found.Targets, t)
		}
	}
}
