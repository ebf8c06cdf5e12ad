package constraint_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/sentences"
)

// beside returns why a pod cannot run on a host with other pods, or "".
func beside(t *testing.T, asks *corev1.Pod, host *constraint.Host, placed ...*corev1.Pod) string {
	t.Helper()
	c := constraint.NewCompilerFor(nil, append([]*corev1.Pod{asks}, placed...))
	tracker := constraint.NewTracker()
	at := tracker.AddHost(host)
	for _, p := range placed {
		tracker.Place(mustCompile(t, c, p), at)
	}
	demands := mustCompile(t, c, asks)
	if why := demands.Admits(host); why != "" {
		return why
	}
	return tracker.Check(demands, at)
}

// TestEachSentenceAboutAHostIsSaidWhereItIsTrueAndNotWhereItIsNot has all sentences of the package.
func TestEachSentenceAboutAHostIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	on := func(change func(*corev1.Pod), host *constraint.Host, placed ...*corev1.Pod) string {
		t.Helper()
		return beside(t, pod("web", change), host, placed...)
	}
	selecting := func(value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{zone: value} }
	}
	requiring := func(terms ...corev1.NodeSelectorTerm) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			affinityOf(p).NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}
		}
	}
	inZone := func(value string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zone, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}}
	}
	named := func(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = name } }
	tainted := func(effect corev1.TaintEffect) *constraint.Host {
		h := in("x", "a")
		h.Taints = []corev1.Taint{{Key: "own", Effect: effect}}
		return h
	}
	nothing := func(*corev1.Pod) {}
	a, nowhere := in("x", "a"), &constraint.Host{Name: "a"}
	spread := spreadOver(zone, 1, "web")
	needing := func(free int64) string {
		t.Helper()
		return mustCompile(t, constraint.NewCompiler(nil), pod("web")).Needing(2<<30, false).Admits(&constraint.Host{Disk: &constraint.Disk{Total: 4 << 30, Free: free << 30}})
	}
	// attaching returns why a pod with two volumes cannot run on a host, beside another one if it attaches any.
	attaching := func(leaves bool, host *constraint.Host, other ...constraint.Volumes) string {
		t.Helper()
		c := constraint.NewCompiler(nil)
		demands := mustCompile(t, c, pod("web")).Attaching([]constraint.Volumes{{Driver: "disk", Count: 2}}, leaves)
		tracker := constraint.NewTracker()
		at := tracker.AddHost(host)
		tracker.Place(mustCompile(t, c, pod("db")).Attaching(other, false), at)
		if why := demands.Admits(host); why != "" {
			return why
		}
		return tracker.Check(demands, at)
	}
	disks := func(most int64) *constraint.Host { return &constraint.Host{Attaches: map[string]int64{"disk": most}} }
	one := constraint.Volumes{Driver: "disk", Count: 1}
	// resident returns why a pod cannot run beside a DaemonSet's pod.
	resident := func(asks, daemon *corev1.Pod) string {
		t.Helper()
		c := constraint.NewCompiler(nil)
		r := c.Resident(mustCompile(t, c, daemon), "DaemonSet shop/proxy")
		return mustCompile(t, c, asks).Admits(&constraint.Host{Residents: []constraint.Resident{r}})
	}
	// filling returns why a pod that leaves its node and needs 2 of 4 GiB cannot run beside another one that needs some.
	filling := func(disk *constraint.Disk, other int64) string {
		t.Helper()
		c := constraint.NewCompiler(nil)
		demands, host := mustCompile(t, c, pod("web")).Needing(2<<30, true), &constraint.Host{Disk: disk}
		tracker := constraint.NewTracker()
		at := tracker.AddHost(host)
		tracker.Place(mustCompile(t, c, pod("db")).Needing(other<<30, true), at)
		if why := demands.Admits(host); why != "" {
			return why
		}
		return tracker.Check(demands, at)
	}
	gib := &constraint.Disk{Total: 4 << 30, Free: 4 << 30}
	unsupported := func(change func(*corev1.Pod)) string { return constraint.Unsupported(pod("web", change)) }
	mounting := func(source corev1.VolumeSource) string {
		return unsupported(func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}} })
	}
	none := mounting(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	sentences.Check(t, []string{"*.go"}, []sentences.Case{
		{"node name ", on(named("b"), a), on(named("a"), a)},
		{"untolerated taint ", on(nothing, tainted(corev1.TaintEffectNoExecute)), on(nothing, tainted(corev1.TaintEffectPreferNoSchedule))},
		{"node selector ", on(selecting("y"), a), on(selecting("x"), a)},
		{"node affinity ", on(requiring(inZone("y")), a), on(requiring(inZone("y"), inZone("x")), a)},
		{"node affinity without terms", on(requiring(corev1.NodeSelectorTerm{}), a), on(requiring(corev1.NodeSelectorTerm{}, inZone("y")), a)},
		{"insufficient ephemeral-storage: it needs %s of %s that are free", needing(1), needing(2)},
		{"it is unknown how much ephemeral storage there is", filling(nil, 0), filling(gib, 0)},
		{"insufficient ephemeral-storage beside other pods", filling(gib, 3), filling(gib, 2)},
		{"it is unknown how many volumes can be attached there", attaching(true, &constraint.Host{}), attaching(false, &constraint.Host{})},
		{"CSI driver ", attaching(true, &constraint.Host{Attaches: map[string]int64{}}), attaching(true, disks(2))},
		{" is missing", attaching(true, &constraint.Host{Attaches: map[string]int64{"files": 9}}), attaching(false, &constraint.Host{Attaches: map[string]int64{"files": 9}})},
		{"it has %d volumes of CSI driver %s, and %d can be attached", attaching(false, disks(1)), attaching(false, disks(2))},
		{"no more volumes of CSI driver ", attaching(false, disks(2), one), attaching(false, disks(3), one)},
		{" can be attached", attaching(false, disks(2), one), attaching(false, disks(2), constraint.Volumes{Driver: "files", Count: 1})},
		{"host port ", on(hostPort(80), a, pod("other", hostPort(80))), on(hostPort(80), a, pod("other", hostPort(81)))},
		{"pod affinity needs label ", on(near("db", zone), nowhere), on(near("db", zone), a)},
		{"pod affinity on ", on(near("db", zone), a), on(near("db", zone), a, pod("db"))},
		{"pod anti-affinity on ", on(awayFrom("db", zone), a, pod("db")), on(awayFrom("db", zone), a, pod("web"))},
		{"anti-affinity of a placed pod on ", on(nothing, a, pod("db", awayFrom("web", zone))), on(nothing, a, pod("db", awayFrom("db", zone)))},
		{"topology spread needs label ", on(spread, nowhere), on(spread, a)},
		{"topology spread over %s exceeds skew %d", spreadBeside(t, spread), on(spread, a, pod("web"))}, // the only domain has both the most and the fewest
		{" is taken by ", resident(pod("web", hostPort(80)), pod("proxy", hostPort(80))), resident(pod("web", hostPort(80)), pod("proxy", hostPort(81)))},
		{" keeps it away from ", resident(pod("web", awayFrom("proxy", hostname)), pod("proxy")), resident(pod("web", awayFrom("db", hostname)), pod("proxy"))},
		{"the pod anti-affinity of ", resident(pod("web"), pod("proxy", awayFrom("web", hostname))), resident(pod("web"), pod("proxy", awayFrom("db", hostname)))},
		{" keeps it away", resident(pod("web"), pod("proxy", awayFrom("web", hostname))), resident(pod("web"), pod("proxy", awayFrom("db", hostname)))},
		{"scheduling gate ", unsupported(func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "q"}} }), none},
		{"resource claim ", unsupported(func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }), none},
		{"unknown type", mounting(corev1.VolumeSource{Glusterfs: &corev1.GlusterfsVolumeSource{}}), mounting(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})},
	}, map[string]string{"must have one element": "an error about a pod that the API server does not accept"})
	if got := unsupported(fixtures.Gang("train")); got != "gang train" {
		t.Errorf("a pod of a gang is not supported because of %q", got)
	}
}

// spreadBeside returns why a second pod of an app cannot run in the zone that has one, while another zone has none.
func spreadBeside(t *testing.T, change func(*corev1.Pod)) string {
	t.Helper()
	c := constraint.NewCompiler(nil)
	tracker := constraint.NewTracker()
	at := tracker.AddHost(in("x", "a"))
	tracker.AddHost(in("y", "b"))
	demands := mustCompile(t, c, pod("web", change))
	tracker.Place(demands, at)
	return tracker.Check(demands, at)
}
