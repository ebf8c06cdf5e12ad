package constraint_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/cluster/constraint"
)

func TestAdmitsNamesTheFirstThingInTheWay(t *testing.T) {
	gpu := corev1.Taint{Key: "gpu", Value: "true", Effect: corev1.TaintEffectNoSchedule}
	host := &constraint.Host{Name: "n1", Labels: map[string]string{zone: "a", "disk": "10"}, Taints: []corev1.Taint{
		{Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule}, gpu, {Key: "leaving", Effect: corev1.TaintEffectNoExecute},
	}}
	tolerant := func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} }
	tolerates := func(tolerations ...corev1.Toleration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Tolerations = tolerations }
	}
	selector := func(labels map[string]string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.NodeSelector = labels }
	}
	affinity := func(terms ...corev1.NodeSelectorTerm) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			affinityOf(p).NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}
		}
	}
	expression := func(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
	}
	steady := func(p *corev1.Pod) { p.Annotations = map[string]string{"supercargo.dev/interruptible": "false"} }
	spotHost := &constraint.Host{Name: "n1", Labels: map[string]string{"karpenter.sh/capacity-type": "spot"}}
	name := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
		{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"n2"}}}}
	tests := []struct {
		name    string
		demands []func(*corev1.Pod)
		host    *constraint.Host
		want    string
	}{
		{"no demands, no taints", nil, in("a", "n1"), ""},
		{"a taint nobody tolerates", nil, host, "untolerated taint gpu=true:NoSchedule"},
		{"the second taint", []func(*corev1.Pod){tolerates(corev1.Toleration{Key: "gpu", Value: "true"})}, host, "untolerated taint leaving:NoExecute"},
		{"a toleration of another value", []func(*corev1.Pod){tolerates(corev1.Toleration{Key: "gpu", Value: "no"})}, host, "untolerated taint gpu=true:NoSchedule"},
		{"a toleration of another effect", []func(*corev1.Pod){tolerates(corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})},
			host, "untolerated taint gpu=true:NoSchedule"},
		{"all taints tolerated", []func(*corev1.Pod){tolerant}, host, ""},
		{"a spot machine", nil, spotHost, ""},
		{"a spot machine, and the pod may not be interrupted", []func(*corev1.Pod){steady}, spotHost, "it may be interrupted, and the pod has annotation supercargo.dev/interruptible: \"false\""},
		{"a machine on demand, and the pod may not be interrupted", []func(*corev1.Pod){steady}, in("a", "n1"), ""},
		{"a cordoned host", nil, &constraint.Host{Name: "n1", Unschedulable: true}, "unschedulable"},
		{"a cordoned host, tolerated", []func(*corev1.Pod){tolerant}, &constraint.Host{Name: "n1", Unschedulable: true}, ""},
		{"another node's name", []func(*corev1.Pod){func(p *corev1.Pod) { p.Spec.NodeName = "n2" }}, in("a", "n1"), "node name n2"},
		{"a label of another value", []func(*corev1.Pod){selector(map[string]string{zone: "b"})}, in("a", "n1"), "node selector topology.kubernetes.io/zone=b"},
		{"the first label in the way by key", []func(*corev1.Pod){selector(map[string]string{"z": "1", "b": "1", zone: "a"})}, in("a", "n1"), "node selector b=1"},
		{"an affinity that does not hold", []func(*corev1.Pod){tolerant, affinity(expression(zone, corev1.NodeSelectorOpIn, "c", "b"))},
			host, "node affinity topology.kubernetes.io/zone in (b,c)"},
		{"one of two alternatives holds", []func(*corev1.Pod){tolerant, affinity(expression("disk", corev1.NodeSelectorOpGt, "15"), expression(zone, corev1.NodeSelectorOpExists))}, host, ""},
		{"no alternative holds", []func(*corev1.Pod){tolerant, affinity(expression("disk", corev1.NodeSelectorOpGt, "15"), name)},
			host, "node affinity disk>15 or metadata.name=n2"},
		{"no alternative at all", []func(*corev1.Pod){affinity(corev1.NodeSelectorTerm{})}, in("a", "n1"), "node affinity without terms"},
		{"a node's name by field", []func(*corev1.Pod){affinity(name)}, in("a", "n2"), ""},
		{"a node's name, a host without one", []func(*corev1.Pod){affinity(name)}, &constraint.Host{}, "node affinity metadata.name=n2"},
		{"any host name, a template", []func(*corev1.Pod){affinity(expression(hostname, corev1.NodeSelectorOpExists))}, &constraint.Host{}, ""},
		{"a certain host name, a template", []func(*corev1.Pod){selector(map[string]string{hostname: "n2"})}, &constraint.Host{Name: "template"}, "node selector kubernetes.io/hostname=n2"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p := mustCompile(t, constraint.NewCompiler(nil), pod("web", tc.demands...))
			if got := p.Admits(tc.host); got != tc.want {
				t.Errorf("Admits = %q, want %q", got, tc.want)
			}
		})
	}
}

// at places an app's pod on a host.
type at struct {
	host int
	pod  *corev1.Pod
}

func TestCheckSaysWhatOtherPodsKeepAPodFrom(t *testing.T) {
	namespaces := map[string]map[string]string{"shop": {"team": "shop"}, "other": {"team": "other"}}
	elsewhere := func(p *corev1.Pod) { p.Namespace = "other" }
	version := func(v string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Labels["version"] = v } }
	sameVersion := func(term *corev1.PodAffinityTerm) { term.MatchLabelKeys = []string{"version"} }
	madeAsVersion1 := func(term *corev1.PodAffinityTerm) {
		term.LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "version", Operator: metav1.LabelSelectorOpIn, Values: []string{"1"}}}
	}
	otherVersion := func(term *corev1.PodAffinityTerm) { term.MismatchLabelKeys = []string{"version"} }
	allNamespaces := func(term *corev1.PodAffinityTerm) { term.NamespaceSelector = &metav1.LabelSelector{} }
	teamOther := func(term *corev1.PodAffinityTerm) {
		term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "other"}}
	}
	everybody := func(term *corev1.PodAffinityTerm) { term.LabelSelector = &metav1.LabelSelector{} }
	nobody := func(term *corev1.PodAffinityTerm) { term.LabelSelector = nil }
	minDomains := func(n int32) func(*corev1.TopologySpreadConstraint) {
		return func(in *corev1.TopologySpreadConstraint) { in.MinDomains = &n }
	}
	anyNode := func(in *corev1.TopologySpreadConstraint) {
		in.NodeAffinityPolicy = new(corev1.NodeInclusionPolicyIgnore)
	}
	untainted := func(in *corev1.TopologySpreadConstraint) { in.NodeTaintsPolicy = new(corev1.NodeInclusionPolicyHonor) }
	byVersion := func(in *corev1.TopologySpreadConstraint) { in.MatchLabelKeys = []string{"version"} }
	zoneA := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{zone: "a"} }
	// Three hosts: two in zone a, one in zone b. Some cases have a fourth one without a zone.
	hosts := []*constraint.Host{in("a", "a1"), in("a", "a2"), in("b", "b1")}
	nowhere := &constraint.Host{Name: "x", Labels: map[string]string{hostname: "x"}}
	tainted := in("c", "c1")
	tainted.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}

	const (
		apartByHost = "pod anti-affinity on kubernetes.io/hostname"
		apartByZone = "pod anti-affinity on topology.kubernetes.io/zone"
		keptByHost  = "anti-affinity of a placed pod on kubernetes.io/hostname"
		nearByZone  = "pod affinity on topology.kubernetes.io/zone"
		nearByHost  = "pod affinity on kubernetes.io/hostname"
		needsZone   = "pod affinity needs label topology.kubernetes.io/zone"
		skewed      = "topology spread over topology.kubernetes.io/zone exceeds skew 1"
		spreadZone  = "topology spread needs label topology.kubernetes.io/zone"
	)
	tests := []struct {
		name   string
		more   *constraint.Host
		placed []at
		pod    *corev1.Pod
		want   []string // by host
	}{
		{"anti-affinity keeps to hosts without the others", nil, []at{{0, pod("web")}}, pod("db", awayFrom("web", hostname)), []string{apartByHost, "", ""}},
		{"anti-affinity by zone", nil, []at{{0, pod("web")}}, pod("db", awayFrom("web", zone)), []string{apartByZone, apartByZone, ""}},
		{"anti-affinity does not mind a host without the key", nowhere, []at{{3, pod("web")}}, pod("db", awayFrom("web", zone)), []string{"", "", "", ""}},
		{"placed pods keep others away", nil, []at{{1, pod("db", awayFrom("web", hostname))}}, pod("web"), []string{"", keptByHost, ""}},
		{"anti-affinity is about the pod's own namespace", nil, []at{{0, pod("web", elsewhere)}}, pod("db", awayFrom("web", hostname)), []string{"", "", ""}},
		{"an empty namespace selector takes in all", nil, []at{{0, pod("web", elsewhere)}}, pod("db", awayFrom("web", hostname, allNamespaces)), []string{apartByHost, "", ""}},
		{"a namespace selector takes in what it matches, not the own", nil, []at{{0, pod("web", elsewhere)}, {1, pod("web")}},
			pod("db", awayFrom("web", hostname, teamOther)), []string{apartByHost, "", ""}},
		{"an empty selector matches all pods", nil, []at{{2, pod("cache")}}, pod("db", awayFrom("", hostname, everybody)), []string{"", "", apartByHost}},
		{"a nil selector matches none", nil, []at{{2, pod("cache")}}, pod("db", awayFrom("", hostname, nobody)), []string{"", "", ""}},
		{"matchLabelKeys keep to the own version", nil, []at{{0, pod("web", version("1"))}, {1, pod("web", version("2"))}},
			pod("web", version("2"), awayFrom("web", hostname, sameVersion)), []string{"", apartByHost, ""}},
		{"mismatchLabelKeys keep to the other versions", nil, []at{{0, pod("web", version("1"))}, {1, pod("web", version("2"))}},
			pod("web", version("2"), awayFrom("web", hostname, otherVersion)), []string{apartByHost, "", ""}},

		{"a version merged when the pod was made stays, whatever its label says now", nil, []at{{0, pod("web", version("1"))}, {1, pod("web", version("2"))}},
			pod("web", version("2"), awayFrom("web", hostname, sameVersion, madeAsVersion1)), []string{apartByHost, "", ""}},

		{"affinity wants company", nil, []at{{0, pod("web")}}, pod("db", near("web", zone)), []string{"", "", nearByZone}},
		{"affinity wants one pod that matches all terms", nil, []at{{0, pod("web")}, {0, pod("cache")}},
			pod("db", near("web", hostname), near("cache", hostname)), []string{nearByHost, nearByHost, nearByHost}},
		{"affinity to nobody yet is refused", nil, nil, pod("db", near("web", zone)), []string{nearByZone, nearByZone, nearByZone}},
		{"the first of a group may go anywhere that has the key", nowhere, nil, pod("web", near("web", zone)), []string{"", "", "", needsZone}},
		{"the second of a group follows the first", nil, []at{{2, pod("web")}}, pod("web", near("web", zone)), []string{nearByZone, nearByZone, ""}},
		{"a group whose only pod is on a host without the key starts again", nowhere, []at{{3, pod("web")}}, pod("web", near("web", zone)), []string{"", "", "", needsZone}},
		{"a nil selector wants company that cannot be", nil, []at{{0, pod("web")}}, pod("web", near("", zone, nobody)), []string{nearByZone, nearByZone, nearByZone}},

		{"spread holds a zone back that is ahead", nil, []at{{0, pod("web")}}, pod("web", spreadOver(zone, 1, "web")), []string{skewed, skewed, ""}},
		{"spread of a pod that does not count itself", nil, []at{{0, pod("web")}}, pod("db", spreadOver(zone, 1, "web")), []string{"", "", ""}},
		{"spread needs the key", nowhere, nil, pod("web", spreadOver(zone, 1, "web")), []string{"", "", "", spreadZone}},
		{"spread does not count pods of other namespaces", nil, []at{{0, pod("web", elsewhere)}}, pod("web", spreadOver(zone, 1, "web")), []string{"", "", ""}},
		{"a zone the pod may not use does not hold it back", nil, []at{{0, pod("web")}}, pod("web", zoneA, spreadOver(zone, 1, "web")), []string{"", "", ""}},
		{"unless node affinity is to be ignored", nil, []at{{0, pod("web")}}, pod("web", zoneA, spreadOver(zone, 1, "web", anyNode)), []string{skewed, skewed, ""}},
		{"a tainted zone holds it back", tainted, []at{{0, pod("web")}, {2, pod("web")}}, pod("web", spreadOver(zone, 1, "web")), []string{skewed, skewed, skewed, ""}},
		{"unless taints are to be honoured", tainted, []at{{0, pod("web")}, {2, pod("web")}}, pod("web", spreadOver(zone, 1, "web", untainted)), []string{"", "", "", ""}},
		{"fewer domains than minDomains count as empty ones", nil, []at{{0, pod("web")}, {2, pod("web")}}, pod("web", spreadOver(zone, 1, "web", minDomains(3))), []string{skewed, skewed, skewed}},
		{"as many domains as minDomains do not", nil, []at{{0, pod("web")}, {2, pod("web")}}, pod("web", spreadOver(zone, 1, "web", minDomains(2))), []string{"", "", ""}},
		{"a zone without hosts holds nobody back", nil, []at{{0, pod("web")}, {2, pod("web")}}, pod("web", spreadOver(zone, 1, "web")), []string{"", "", ""}},
		{"spread by version", nil, []at{{0, pod("web", version("1"))}}, pod("web", version("2"), spreadOver(zone, 1, "web", byVersion)), []string{"", "", ""}},

		{"a host port is taken once", nil, []at{{1, pod("web", hostPort(80))}}, pod("db", hostPort(80)), []string{"", "host port 80/TCP", ""}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c, tracker := constraint.NewCompiler(namespaces), constraint.NewTracker()
			for _, h := range hosts {
				tracker.AddHost(h)
			}
			if tc.more != nil {
				tracker.AddHost(tc.more)
			}
			for _, p := range tc.placed {
				tracker.Place(mustCompile(t, c, p.pod), p.host)
			}
			got := make([]string, len(tc.want))
			for host := range got {
				got[host] = tracker.Check(mustCompile(t, c, tc.pod), host)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("answers by host (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHostPortsClash(t *testing.T) {
	type port = corev1.ContainerPort
	tests := []struct {
		name         string
		taken, asked port
		want         string
	}{
		{"the same port", port{HostPort: 80}, port{HostPort: 80, Protocol: corev1.ProtocolTCP, HostIP: "0.0.0.0"}, "host port 80/TCP"},
		{"another port", port{HostPort: 80}, port{HostPort: 81}, ""},
		{"another protocol", port{HostPort: 80}, port{HostPort: 80, Protocol: corev1.ProtocolUDP}, ""},
		{"one address of all taken", port{HostPort: 80}, port{HostPort: 80, HostIP: "10.0.0.1"}, "host port 10.0.0.1:80/TCP"},
		{"all addresses of which one is taken", port{HostPort: 80, HostIP: "10.0.0.1"}, port{HostPort: 80}, "host port 80/TCP"},
		{"another address", port{HostPort: 80, HostIP: "10.0.0.1"}, port{HostPort: 80, HostIP: "10.0.0.2"}, ""},
		{"a port of the container alone", port{HostPort: 80}, port{ContainerPort: 80}, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			with := func(in port) func(*corev1.Pod) {
				return func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []port{in} }
			}
			c, tracker := constraint.NewCompiler(nil), constraint.NewTracker()
			host := tracker.AddHost(in("a", "a1"))
			taken := mustCompile(t, c, pod("web", with(tc.taken)))
			tracker.Place(taken, host)
			asked := mustCompile(t, c, pod("db", with(tc.asked)))
			if got := tracker.Check(asked, host); got != tc.want {
				t.Errorf("Check = %q, want %q", got, tc.want)
			}
			tracker.Unplace(taken, host)
			if got := tracker.Check(asked, host); got != "" {
				t.Errorf("Check = %q after the other has left", got)
			}
		})
	}
}

// TestAPortIsFreeOnlyWhenItsLastHolderLeaves removes pods from a host that were placed there despite a port conflict.
func TestAPortIsFreeOnlyWhenItsLastHolderLeaves(t *testing.T) {
	c, tracker := constraint.NewCompiler(nil), constraint.NewTracker()
	host := tracker.AddHost(in("a", "a1"))
	web, other := mustCompile(t, c, pod("web", hostPort(80))), mustCompile(t, c, pod("db", hostPort(443)))
	for _, p := range []*constraint.Pod{other, web, web} {
		tracker.Place(p, host)
	}
	for _, want := range []string{"host port 80/TCP", ""} {
		tracker.Unplace(web, host)
		if got := tracker.Check(web, host); got != want {
			t.Errorf("Check = %q, want %q", got, want)
		}
		if got, want := tracker.Check(other, host), "host port 443/TCP"; got != want {
			t.Errorf("the other port: Check = %q, want %q", got, want)
		}
	}
}

// TestSpreadConstraintsThatCountOtherHostsAreKeptApart tests pairs of pods in one tracker whose constraints differ only
// in the hosts that they count.
func TestSpreadConstraintsThatCountOtherHostsAreKeptApart(t *testing.T) {
	const skewed = "topology spread over topology.kubernetes.io/zone exceeds skew 1"
	honor := func(in *corev1.TopologySpreadConstraint) {
		in.NodeTaintsPolicy = new(corev1.NodeInclusionPolicyHonor)
		in.NodeAffinityPolicy = new(corev1.NodeInclusionPolicyIgnore)
	}
	tolerant := func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} }
	tainted := in("b", "b1")
	tainted.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	racked := in("a", "a1")
	racked.Labels[rack] = "1"
	tests := []struct {
		name           string
		a, b           *constraint.Host
		wide, narrow   *corev1.Pod
		reason, second string // why the first and the second pod may not be placed on a
	}{
		{"tolerations", in("a", "a1"), tainted, pod("web", tolerant, spreadOver(zone, 1, "web", honor)), pod("web", spreadOver(zone, 1, "web", honor)), skewed, ""},
		{"node selectors", in("a", "a1"), in("b", "b1"), pod("web", spreadOver(zone, 1, "web")),
			pod("web", spreadOver(zone, 1, "web"), func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{zone: "a"} }), skewed, ""},
		{"the keys of other constraints", racked, in("b", "b1"), pod("web", spreadOver(zone, 1, "web")),
			pod("web", spreadOver(zone, 1, "web"), spreadOver(rack, 9, "web")), skewed, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c, tracker := constraint.NewCompiler(nil), constraint.NewTracker()
			a := tracker.AddHost(tc.a)
			tracker.AddHost(tc.b)
			wide, narrow := mustCompile(t, c, tc.wide), mustCompile(t, c, tc.narrow)
			tracker.Place(wide, a)
			if diff := cmp.Diff([]string{tc.reason, tc.second}, []string{tracker.Check(wide, a), tracker.Check(narrow, a)}); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMisuseOfATrackerPanics(t *testing.T) {
	c := constraint.NewCompiler(nil)
	web := mustCompile(t, c, pod("web"))
	stranger := mustCompile(t, constraint.NewCompiler(nil), pod("web"))
	tests := []struct {
		name   string
		misuse func(*constraint.Tracker)
	}{
		{"a pod of another compiler", func(t *constraint.Tracker) { t.Place(web, 0); t.Check(stranger, 0) }},
		{"a pod that is not there", func(t *constraint.Tracker) { t.Unplace(web, 0) }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tracker := constraint.NewTracker()
			tracker.AddHost(in("a", "a1"))
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			tc.misuse(tracker)
		})
	}
}

// TestEveryMachineOfATemplateIsADomain adds one template without a hostname label three times.
func TestEveryMachineOfATemplateIsADomain(t *testing.T) {
	template := &constraint.Host{Name: "m1.large", Labels: map[string]string{zone: "a"}}
	c := constraint.NewCompiler(nil)
	loner := mustCompile(t, c, pod("web", awayFrom("web", hostname)))
	even := mustCompile(t, c, pod("db", spreadOver(hostname, 1, "db")))
	tracker := constraint.NewTracker()
	first, second, third := tracker.AddHost(template), tracker.AddHost(template), tracker.AddHost(template)
	tracker.Place(loner, first)
	tracker.Place(even, first)
	for host, want := range map[int][]string{
		first:  {"pod anti-affinity on kubernetes.io/hostname", "topology spread over kubernetes.io/hostname exceeds skew 1"},
		second: {"", ""},
		third:  {"", ""},
	} {
		if diff := cmp.Diff(want, []string{tracker.Check(loner, host), tracker.Check(even, host)}); diff != "" {
			t.Errorf("host %d (-want +got):\n%s", host, diff)
		}
	}
	tracker.RemoveHost(first)
	again := tracker.AddHost(template)
	if got := tracker.Check(loner, again); got != "" {
		t.Errorf("a new machine inherits the pods of a removed one: %s", got)
	}
}

// TestANewZoneMakesSpreadStricter shows why a planner adds hosts before it fills them.
func TestANewZoneMakesSpreadStricter(t *testing.T) {
	c, tracker := constraint.NewCompiler(nil), constraint.NewTracker()
	web := mustCompile(t, c, pod("web", spreadOver(zone, 1, "web")))
	a := tracker.AddHost(in("a", "a1"))
	for range 3 {
		if got := tracker.Check(web, a); got != "" {
			t.Fatalf("the only zone refuses: %s", got)
		}
		tracker.Place(web, a)
	}
	b := tracker.AddHost(in("b", "b1"))
	for i := range 3 {
		if tracker.Check(web, a) == "" || tracker.Check(web, b) != "" {
			t.Errorf("with 3 pods in a and %d in b: a says %q, b says %q", i, tracker.Check(web, a), tracker.Check(web, b))
		}
		tracker.Place(web, b)
	}
	if got := tracker.Check(web, a); got != "" {
		t.Errorf("level zones refuse: %s", got)
	}
	tracker.RemoveHost(b)
	if got := tracker.Check(web, a); got != "" {
		t.Errorf("the zone is gone and still holds pods back: %s", got)
	}
}

func TestEqualDemandsAreTheSamePod(t *testing.T) {
	toleration := func(key string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists}
	}
	tests := []struct {
		name string
		a, b *corev1.Pod
		same bool
	}{
		{"two of a kind", pod("web"), pod("web"), true},
		{"names do not matter", pod("web"), pod("web", func(p *corev1.Pod) { p.Name, p.UID = "other", "other" }), true},
		{"labels do", pod("web"), pod("db"), false},
		{"namespaces do", pod("web"), pod("web", func(p *corev1.Pod) { p.Namespace = "other" }), false},
		{"soft demands do not matter", pod("web"), pod("web", softSpread(zone, "web")), true},
		{"order of tolerations", pod("web", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{toleration("a"), toleration("b")} }),
			pod("web", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{toleration("b"), toleration("a")} }), true},
		{"order of terms", pod("web", awayFrom("web", zone), awayFrom("db", zone)), pod("web", awayFrom("db", zone), awayFrom("web", zone)), true},
		{"topology keys", pod("web", awayFrom("web", zone)), pod("web", awayFrom("web", hostname)), false},
		{"topology keys of affinity", pod("web", near("web", zone)), pod("web", near("web", hostname)), false},
		{"affinity is not anti-affinity", pod("web", awayFrom("web", zone)), pod("web", near("web", zone)), false},
		{"max skew", pod("web", spreadOver(zone, 1, "web")), pod("web", spreadOver(zone, 2, "web")), false},
		{"ports", pod("web", hostPort(80)), pod("web", hostPort(81)), false},
		{"a node's name", pod("web"), pod("web", func(p *corev1.Pod) { p.Spec.NodeName = "n1" }), false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := constraint.NewCompiler(nil)
			a, b := mustCompile(t, c, tc.a), mustCompile(t, c, tc.b)
			if (a == b) != tc.same || (a.Key() == b.Key()) != tc.same {
				t.Errorf("same pod: %v, same key: %v, want %v", a == b, a.Key() == b.Key(), tc.same)
			}
		})
	}
}

// TestASuccessorIsNotBound compiles the successor of a running pod.
func TestASuccessorIsNotBound(t *testing.T) {
	c := constraint.NewCompiler(nil)
	pending := mustCompile(t, c, pod("web"))
	successor, err := c.CompileSuccessor(pod("web", func(p *corev1.Pod) { p.Spec.NodeName = "n1" }))
	if err != nil {
		t.Fatal(err)
	}
	if successor != pending {
		t.Error("the successor of a running pod is not what a pending one is")
	}
}

// TestLabelsNobodyAsksAboutDoNotTellPodsApart compiles two pods of a StatefulSet, which differ in a label that no
// selector uses.
func TestLabelsNobodyAsksAboutDoNotTellPodsApart(t *testing.T) {
	ordinal := func(n string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Labels["ordinal"] = n } }
	pods := []*corev1.Pod{pod("db", ordinal("0")), pod("db", ordinal("1")), pod("web", awayFrom("db", hostname))}
	c := constraint.NewCompilerFor(nil, pods)
	if mustCompile(t, c, pods[0]) != mustCompile(t, c, pods[1]) {
		t.Error("two pods differ by a label that no demand mentions")
	}
	if mustCompile(t, c, pods[0]) == mustCompile(t, c, pod("cache")) {
		t.Error("two pods are the same in spite of a label that a demand mentions")
	}
	asks := func(p *corev1.Pod) {
		spreadOver(zone, 1, "db", func(in *corev1.TopologySpreadConstraint) { in.MatchLabelKeys = []string{"ordinal"} })(p)
	}
	if _, err := c.Compile(pod("db", asks)); err == nil || !strings.Contains(err.Error(), "[ordinal]") {
		t.Errorf("a demand about a label that was dropped: error %v, want one that names it", err)
	}
}

func TestCompileNamesTheFieldsItCannotParse(t *testing.T) {
	odd := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}}
	tests := []struct {
		name   string
		demand func(*corev1.Pod)
		want   []string
	}{
		{"node affinity operator and value", func(p *corev1.Pod) {
			affinityOf(p).NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "Near"}, {Key: "b", Operator: corev1.NodeSelectorOpGt, Values: []string{"x"}}},
					MatchFields:      []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"a", "b"}}},
				}},
			}}
		}, []string{
			"nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator",
			"nodeSelectorTerms[0].matchExpressions[1]", "nodeSelectorTerms[0].matchFields[0].values",
		}},
		{"affinity selector", near("", zone, func(t *corev1.PodAffinityTerm) { t.LabelSelector = odd }),
			[]string{"spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector"}},
		{"anti-affinity namespace selector", func(p *corev1.Pod) {
			awayFrom("web", zone)(p)
			awayFrom("web", zone, func(t *corev1.PodAffinityTerm) { t.NamespaceSelector = odd })(p)
		}, []string{"spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[1].namespaceSelector"}},
		{"spread selector", spreadOver(zone, 1, "", func(in *corev1.TopologySpreadConstraint) { in.LabelSelector = odd }),
			[]string{"spec.topologySpreadConstraints[0].labelSelector"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := constraint.NewCompiler(nil).Compile(pod("web", tc.demand))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range append(tc.want, "pod shop/web") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not name %s", err, want)
				}
			}
		})
	}
}

// TestATerminatingPodCountsForAllButTopologySpread checks counters that exist before the pod is placed and those that
// are made later, and that the pod can be removed again.
func TestATerminatingPodCountsForAllButTopologySpread(t *testing.T) {
	c := constraint.NewCompiler(nil)
	compile := func(change func(*corev1.Pod)) *constraint.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"app": "web"}}}
		change(p)
		compiled, err := c.Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		return compiled
	}
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	spread := compile(func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: web}}
	})
	apart := compile(func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: web}}}}
	})
	leaving := compile(func(*corev1.Pod) {}).Terminating()
	if leaving != compile(func(*corev1.Pod) {}).Terminating() {
		t.Error("equal pods that terminate differ")
	}
	for _, early := range []bool{true, false} {
		tracker := constraint.NewTracker()
		a := tracker.AddHost(&constraint.Host{Name: "a", Labels: map[string]string{corev1.LabelHostname: "a"}})
		tracker.AddHost(&constraint.Host{Name: "b", Labels: map[string]string{corev1.LabelHostname: "b"}})
		if early {
			tracker.Expect(spread, apart)
		}
		tracker.Place(leaving, a)
		tracker.Place(leaving, a)
		if got := tracker.Check(spread, a); got != "" {
			t.Errorf("counters made early %v: spread is refused by %q", early, got)
		}
		if tracker.Check(apart, a) == "" {
			t.Errorf("counters made early %v: anti-affinity does not see it", early)
		}
		tracker.Unplace(leaving, a)
		tracker.Unplace(leaving, a)
		if got := tracker.Check(apart, a); got != "" {
			t.Errorf("counters made early %v: after it has left, anti-affinity is refused by %q", early, got)
		}
	}
}

// TestPodsThatMayNotBeInterruptedAreOfTheirOwnKind: pods that were compiled before are looked up by all that is written in them.
func TestPodsThatMayNotBeInterruptedAreOfTheirOwnKind(t *testing.T) {
	c := constraint.NewCompiler(nil)
	of := func(annotations map[string]string) *constraint.Pod {
		return mustCompile(t, c, pod("web", func(p *corev1.Pod) { p.Annotations = annotations }))
	}
	plain, steady := of(nil), of(map[string]string{"supercargo.dev/interruptible": "false"})
	if plain.Key() == steady.Key() || plain.StaticKey() == steady.StaticKey() {
		t.Error("a pod that may not be interrupted has the constraints of one that may")
	}
	if of(map[string]string{"supercargo.dev/interruptible": "true"}) != plain {
		t.Error("a pod that says that it may be interrupted differs from one that says nothing")
	}
}
