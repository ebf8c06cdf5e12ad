// Package target defines the scrape targets: configured ones, pods and Services with the usual
// annotations, kubelets, and node meters. It is pure; package discover watches the cluster for it.
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

// The annotations of a pod, or of a Service for its endpoints. All but the last are conventions of
// Prometheus.
const (
	ScrapeAnnotation = "prometheus.io/scrape" // "true"
	PortAnnotation   = "prometheus.io/port"   // default: each declared TCP port
	PathAnnotation   = "prometheus.io/path"   // default: /metrics
	SchemeAnnotation = "prometheus.io/scheme" // http or https
	// IntervalAnnotation is the scrape interval, a duration of a second or more.
	IntervalAnnotation = "supercargo.dev/scrape-interval"
)

// The jobs of discovered targets.
const (
	PodsJob     = "pods"
	ServicesJob = "services"
	KubeletsJob = "kubelets"
	MetersJob   = "node-meters"
)

// KubeletSeries are the metrics that are kept of a kubelet: the CPU time of pods, one series each.
var KubeletSeries = []string{"pod_cpu_usage_seconds_total"}

// Job is the settings that its targets share.
type Job struct {
	// Name is the value of the label job of its series.
	Name string
	// HonorLabels specifies that labels of the target take precedence over labels added here.
	HonorLabels bool
	// CAFile and InsecureSkipVerify configure how the certificates of https targets are verified,
	// and BearerTokenFile contains the token to authenticate with.
	CAFile             string
	InsecureSkipVerify bool
	BearerTokenFile    string
	// ServerName is the name in their certificates; empty means their address.
	ServerName string
	// Only are the names of the metrics to keep; empty keeps all.
	Only []string
}

// Target is a scrape target.
type Target struct {
	// Job is the name of its job.
	Job string
	// Address is its host:port.
	Address string
	// Path and Scheme are those of its metrics; empty means /metrics and http.
	Path, Scheme string
	// Interval is its scrape interval; 0 means the default.
	Interval time.Duration
	// Labels are added to its series.
	Labels map[string]string
	// Group identifies the targets that are replicas of each other: the Service, or the workload of
	// the pod, such as a Deployment. Empty means that it has no other replicas.
	Group string
}

// Limits limit discovery.
type Limits struct {
	// Namespaces are the namespaces to search; empty means all.
	Namespaces []string
	// Most is the maximum number of targets.
	Most int
	// MinInterval and MaxInterval are the limits of the interval annotation. Values beyond a limit
	// are set to it.
	MinInterval, MaxInterval time.Duration
}

// Found is the result of discovery.
type Found struct {
	// Targets are sorted by address, with each address and path once: a pod's own annotations take
	// precedence over those of its Services.
	Targets []Target
	// Dropped is the number of targets beyond the limit.
	Dropped int
	// Faults describe invalid annotations.
	Faults []string
}

func (l *Limits) has(namespace string) bool {
	return len(l.Namespaces) == 0 || slices.Contains(l.Namespaces, namespace)
}

// Discover returns the targets among running pods and the endpoints of Services. It does not modify
// its arguments; their order does not matter. Cost: O(n log n).
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

// Kubelets returns the targets of kubelets, sorted by the names of their nodes. It omits nodes
// without an address or port of the kubelet. It does not modify its argument.
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

// Meters returns the node meters: the running pods of a namespace with the given label
// app.kubernetes.io/name, sorted by name. It does not modify its argument.
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

// ordered returns the objects sorted by name.
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

// workload returns the controller of a pod, which is the Deployment instead of its ReplicaSet;
// empty for a pod without a controller.
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

// endpoints adds the targets of a Service in one of its EndpointSlices.
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

// read returns the target settings in the annotations of an object; false if it cannot be scraped.
func (d *discovery) read(object string, annotations map[string]string) (Target, bool) {
	fault := func(name, want string) {
		d.found.Faults = append(d.found.Faults, fmt.Sprintf("%s: annotation %s is %q, must be %s", object, name, annotations[name], want))
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
			return t, true // it is scraped at the default interval
		}
		t.Interval = min(max(interval.Truncate(time.Millisecond), d.limits.MinInterval), d.limits.MaxInterval)
	}
	return t, true
}

// ports returns the port in the annotations, if any. [discovery.read] has validated it.
func (d *discovery) ports(annotations map[string]string) []int32 {
	port, err := strconv.ParseUint(annotations[PortAnnotation], 10, 16)
	if err != nil {
		return nil
	}
	return []int32{int32(port)}
}

// add adds a target for each port that is not a target yet.
func (d *discovery) add(t Target, ip string, ports []int32) {
	for _, port := range ports {
		t.Address = net.JoinHostPort(ip, strconv.Itoa(int(port)))
		if key := t.Address + t.Path; !d.seen[key] {
			d.seen[key] = true
			d.found.Targets = append(d.found.Targets, t)
		}
	}
}
