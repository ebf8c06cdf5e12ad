package explain

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetobserve"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/platform/kinds"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/sentences"
)

// TestEachSentenceIsSaidWhereItIsTrueAndNotWhereItIsNot has all sentences of the package.
func TestEachSentenceIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	all := slices.Concat(aboutPendingPods(t), aboutClaims(t), aboutFleetsOfPods(t), aboutOrders(t), aboutPlacedPods(t), aboutNodes(t), aboutLists(t), aboutObjects(t), aboutMigrations(t), aboutEnergy(t))
	sentences.Check(t, []string{"*.go"}, all, map[string]string{
		" pods, the first is ": "part of an Event of the autoscaler, which is read",
		"POD\tFROM\tTO\tNEW POD\tPHASE\tFROZEN\tDUMP\tSHIP\tRESTORE\tBYTES": "a header",
		"ZONE\tENERGY COSTS\t": "a header", "\nNODE\tMACHINE TYPE\tSCORE\tENERGY J\tRUNTIME S\tTRUST\t%sNOTE\n": "a header",
		"\nCATEGORY\tCPU\tMEMORY\tSOURCE\tUSED CPU\tUSED MEMORY\tRUNTIME\tENDED\tNOTE": "a header",
		"\nFLAVOR\tINIT TIME\tNODE\tIMAGE\tCONNECT\tWORKERS":                           "a header",
		"CONTROLLER\tTIMES\tLAST AT\tWHY":                                              "a header",
		"POD\tPENDING FOR\tWHY":                                                        "a header", "WHAT IS DONE": "a header", "\nPOD\tMAY LEAVE BY\tOR WHY NOT": "a header",
	})
}

// given changes what is known of a cluster.
type given func(in *WhyInput, w *world.World)

// input returns what is known about a pod in a cluster with two nodes.
func input(pod *corev1.Pod, all ...given) *WhyInput {
	w := &world.World{Nodes: map[string]*corev1.Node{"a": fixtures.Node("a", 2000, 8<<30), "b": fixtures.Node("b", 2000, 8<<30)}, Pods: []*corev1.Pod{pod}}
	in := &WhyInput{Now: noon, Pod: pod}
	for _, g := range all {
		g(in, w)
	}
	in.View = world.NewView(w, noon, runtimes.NewLearner())
	return in
}

// say returns what is printed about a pod.
func say(t *testing.T, pod *corev1.Pod, all ...given) string {
	t.Helper()
	var b strings.Builder
	if err := NewWhy(input(pod, all...)).Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// notRead says that the user may not list some kinds.
func notRead(kinds ...string) given {
	return func(in *WhyInput, w *world.World) {
		w.Unread(kinds...)
		in.Unread = map[string]string{}
		for _, kind := range kinds {
			in.Unread[kind] = mayNotList
		}
	}
}

// fleets adds a fleet of which only the status is known, or its machines too.
func fleets(f *v1alpha1.NodeFleet, machines ...provider.Machine) given {
	return func(in *WhyInput, _ *world.World) {
		input := FleetInput{Fleet: f, Machines: machines}
		if machines == nil {
			input.Unread = "Read from the status."
		}
		in.Fleets = append(in.Fleets, input)
	}
}

// offering adds a fleet of one flavor, whose labels and taints are known.
func offering(milliCPU int64) given {
	return func(in *WhyInput, w *world.World) {
		flavor := provider.Flavor{Name: "offered", Size: packing.Size{MilliCPU: milliCPU, MemoryBytes: 8 << 30}, MaxPods: 110, Max: 5, HasPrice: true, MicroDollarsPerHour: 1, Labels: map[string]string{corev1.LabelTopologyZone: "z"}}
		f := fleetOfTwo()
		offers, _ := fleetobserve.Offers(w, f, &provider.Inventory{Flavors: []provider.Flavor{flavor}}, &fleetobserve.Prices{}, noon)
		in.Fleets = append(in.Fleets, FleetInput{Fleet: f, Offers: offers})
	}
}

// withOthers lets a pod only into the zone of a pod with label app=other.
func withOthers(p *corev1.Pod) {
	p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}},
	}}}}
}

// otherRuns adds a pod with label app=other on node a, which is in the zone of the flavor of [offering].
func otherRuns(_ *WhyInput, w *world.World) {
	w.Nodes["a"].Labels[corev1.LabelTopologyZone] = "z"
	w.Pods = append(w.Pods, fixtures.Pod("other", 100, 1<<20, func(p *corev1.Pod) { p.Spec.NodeName, p.Labels = "a", map[string]string{"app": "other"} }))
}

func others(pods ...*corev1.Pod) given {
	return func(_ *WhyInput, w *world.World) {
		w.Pods = append(w.Pods, pods...)
	}
}

// pending returns a pod that fits on both nodes.
func pending(change ...func(*corev1.Pod)) *corev1.Pod {
	return fixtures.Pod("p", 100, 1<<20, change...)
}

func deleted(p *corev1.Pod) {
	p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: noon}, []string{"example.com/wait"}
}

func gatedBy(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: name}} }
}

func nominatedTo(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.NominatedNodeName = node }
}

// daemonOn returns a pending pod of a DaemonSet for a node.
func daemonOn(node string, change ...func(*corev1.Pod)) *corev1.Pod {
	return pending(append([]func(*corev1.Pod){unschedulable, func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", Controller: new(true)}}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}},
		}}}}
	}}, change...)...)
}

func of(scheduler string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.SchedulerName = scheduler }
}

func aboutPendingPods(t *testing.T) []sentences.Case {
	plain := say(t, pending(unschedulable))
	held := say(t, pending(of("volcano")))
	gated := say(t, pending(gatedBy("example.com/quota"), func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated, Message: "Scheduling is blocked due to non-empty scheduling gates"}}
	}))
	none, two := pending(unschedulable, reported("no nodes available to schedule pods")), pending(unschedulable, reported("0/2 nodes are available: 1 Insufficient cpu, 1 Too many pods. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."))
	other := func(change ...func(*corev1.Pod)) given {
		return others(fixtures.Pod("other", 100, 1<<20, append([]func(*corev1.Pod){of("volcano")}, change...)...))
	}
	static := func(p *corev1.Pod) {
		p.Spec.NodeName, p.Annotations = "a", map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	}
	victim := func(priority int32) given {
		return others(fixtures.Pod("victim", 100, 1<<20, deleted, func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.Priority = "a", &priority
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}
		}))
	}
	important := func(p *corev1.Pod) { p.Spec.Priority = new(int32(5)) }
	selecting := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}},
		}}}}
	}
	devices := func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("mine")}}
	}
	unreadDevices := func(in *WhyInput, _ *world.World) { in.Devices = &Devices{Unread: "forbidden"} }
	placed := say(t, running())
	return []sentences.Case{
		{"Pod %s: %s, scheduler %s\n", plain, saysOf(t, aNode(t))},
		{"Not read, and not considered below: %s\n", say(t, pending(unschedulable), notRead("Jobs")), plain},
		{"the user may not list them", say(t, pending(unschedulable), notRead("Jobs")), plain},
		{"\nWhy is it pending? For %v.\n", plain, placed},
		{"  The nodes now:\n", plain, gated},
		{"  The nodes now:\n", plain, say(t, daemonOn("a"))},
		{"  Its DaemonSet made it for one node, and it can run on no other. That node now:\n", say(t, daemonOn("a")), plain},
		{"its DaemonSet made it for node %s, which does not exist: kube-controller-manager deletes such pods", say(t, daemonOn("gone")), say(t, daemonOn("a"))},
		{"  Its scheduler reports (%s): %s\n", say(t, none), gated},
		{"  Its scheduler reports for %s:\n", plain, say(t, none)},
		{"  and for preemption: %s\n", say(t, two), plain},
		{"  What helps against %q: %s.\n", say(t, two), plain},
		{"  What helps: %s.\n", plain, say(t, two)},
		{"it is being deleted, so no scheduler handles it", say(t, pending(unschedulable, deleted)), plain},
		{"no scheduler handles it before these scheduling gates are removed, each by the controller that has set it: %s", gated, plain},
		{"scheduler %s has not reported on it (it has set no condition PodScheduled)", held, say(t, pending(of("volcano"), unschedulable))},
		{"; with this schedulerName, %s %s a node or such a condition", say(t, pending(of("volcano")), other(unschedulable)), say(t, pending(of("volcano")), other(static))},
		{"other pod", say(t, pending(of("volcano")), other(unschedulable)), plain},
		{", nor on the %s with this schedulerName: check that such a scheduler runs", say(t, pending(of("volcano")), other()), held},
		{", and no other pod has this schedulerName: check that such a scheduler runs", say(t, pending(of("volcano")), other(static)), say(t, pending(of("volcano")), other())},
		{"It is nominated to node %s, which does not exist.", say(t, pending(nominatedTo("gone"))), say(t, pending(nominatedTo("a")))},
		{"It is nominated to node %s", say(t, pending(nominatedTo("a"))), plain},
		{"%s: pods of lower priority leave it to make room: %s.", say(t, pending(nominatedTo("a"), important), victim(1)), say(t, pending(nominatedTo("a"), important), victim(5))},
		{"would accept it now", plain, say(t, pending(unschedulable, of("volcano")))},
		{"excluded by nothing that is checked here; its scheduler also checks ", say(t, pending(unschedulable, of("volcano"))), plain},
		{"would not exclude it, apart from the above", say(t, pending()), plain},
		{"excluded by nothing that is checked here, apart from the above; its scheduler also checks ", held, say(t, pending())},
		{"the rules of scheduler %s", held, plain},
		{"its volume claims", say(t, pending(unschedulable, claimed("data")), notRead(claims)), say(t, pending(unschedulable), notRead(claims))},
		{"its resource claims (%s)", say(t, pending(unschedulable, devices), unreadDevices), say(t, pending(unschedulable))},
		{"affinity to pods of namespaces that are selected by labels", say(t, pending(unschedulable, selecting), notRead(namespaces)), say(t, pending(unschedulable, selecting))},
		{"There is no NodeFleet, so Supercargo buys no machine for it.", plain, say(t, pending(unschedulable), notRead(nodeFleets))},
		{"Whether a NodeFleet buys a machine for it is unknown: NodeFleets could not be read.", say(t, pending(unschedulable), notRead(nodeFleets)), plain},
		{" and %d more", say(t, pending(unschedulable), func(_ *WhyInput, w *world.World) {
			for _, name := range []string{"c", "d", "e", "f"} {
				w.Nodes[name] = fixtures.Node(name, 2000, 8<<30)
			}
		}), plain},
	}
}

// aboutClaims has the claims of a pod, which are read.
func aboutClaims(t *testing.T) []sentences.Case {
	about := func(pod *corev1.Pod, objects ...client.Object) string {
		t.Helper()
		return textOf(t, clusterOf(t, nil, append(objects, pod)...), pod)
	}
	using := func(use corev1.PodResourceClaim, made ...corev1.PodResourceClaimStatus) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			use.Name = "gpu"
			p.Spec.ResourceClaims, p.Status.ResourceClaimStatuses = []corev1.PodResourceClaim{use}, made
		}
	}
	named, templated := using(corev1.PodResourceClaim{ResourceClaimName: new("mine")}), using(corev1.PodResourceClaim{ResourceClaimTemplateName: new("t")})
	made := using(corev1.PodResourceClaim{ResourceClaimTemplateName: new("t")}, corev1.PodResourceClaimStatus{Name: "gpu", ResourceClaimName: new("mine")})
	claim := func(change ...func(*resourcev1.ResourceClaim)) *resourcev1.ResourceClaim {
		c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine"}}
		c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com"}}}
		for _, f := range change {
			f(c)
		}
		return c
	}
	ownedBy := func(uid string) func(*resourcev1.ResourceClaim) {
		return func(c *resourcev1.ResourceClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: uid, UID: pending().UID, Controller: new(true)}}
			if uid != "p" {
				c.OwnerReferences[0].UID = "other"
			}
		}
	}
	leaving := func(c *resourcev1.ResourceClaim) {
		c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: noon}, []string{"example.com/wait"}
	}
	users := func(n int) func(*resourcev1.ResourceClaim) {
		return func(c *resourcev1.ResourceClaim) {
			c.Status.Allocation, c.Status.ReservedFor = &resourcev1.AllocationResult{}, make([]resourcev1.ResourceClaimConsumerReference, n)
		}
	}
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu.example.com"}}
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "t"}}
	known := about(pending(unschedulable, named), class, claim())
	nobodys := func(c *corev1.PersistentVolumeClaim) {
		chosen(c)
		delete(c.Annotations, "volume.kubernetes.io/storage-provisioner")
	}
	waits, nobody := about(pending(claimed("data")), late(chosen)...), about(pending(claimed("data")), late(nobodys)...)
	return []sentences.Case{
		{"ResourceClaimTemplate %s does not exist: create it, or correct the name in the pod", about(pending(unschedulable, templated)), about(pending(unschedulable, templated), template)},
		{"resource claim %s of the pod does not exist yet: kube-controller-manager creates it", about(pending(unschedulable, templated), template), about(pending(unschedulable, made), template, class, claim(ownedBy("p")))},
		{"ResourceClaim %s does not exist: create it, or correct the name in the pod", about(pending(unschedulable, named)), known},
		{"ResourceClaim %s was created for another pod", about(pending(unschedulable, made), template, class, claim(ownedBy("q"))), about(pending(unschedulable, made), template, class, claim(ownedBy("p")))},
		{"ResourceClaim %s is being deleted", about(pending(unschedulable, named), class, claim(leaving)), known},
		{"ResourceClaim %s is in use by %d pods, which is the maximum", about(pending(unschedulable, named), class, claim(users(mostReserved))), about(pending(unschedulable, named), class, claim(users(mostReserved-1)))},
		{"DeviceClass %s, which ResourceClaim %s requests, does not exist: it usually comes with the driver of the devices", about(pending(unschedulable, named), claim()), known},
		{"A scheduler has chosen node ", waits, about(pending(claimed("data"), nominatedTo("a")), late(chosen)...)},
		{"%s, for which the volume of claim %s is to be created first.", nobody, waits},
		{"%s, for which provisioner %s is to create the volume of claim %s first.", waits, nobody},
	}
}

// bought returns a fleet whose last decision orders machines for pods.
func bought(mode v1alpha1.FleetMode, pods int32, names ...string) func(*v1alpha1.NodeFleet) {
	return func(f *v1alpha1.NodeFleet) {
		f.Spec.Mode = mode
		f.Status.LastDecision = &v1alpha1.FleetDecision{Time: metav1.NewTime(noon.Add(-30 * time.Second)), Mode: mode, Buys: []v1alpha1.DecidedPurchase{{
			Flavor: "large", Count: 1, Pods: pods, Reason: "cheapest", Machines: []v1alpha1.DecidedMachines{{Count: 1, Pods: pods, PodNames: names}},
		}}}
	}
}

func conditioned(kind string, is metav1.ConditionStatus) func(*v1alpha1.NodeFleet) {
	return func(f *v1alpha1.NodeFleet) {
		f.Status.Conditions = slices.DeleteFunc(f.Status.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
		f.Status.Conditions = append(f.Status.Conditions, metav1.Condition{Type: kind, Status: is, Reason: "Because", Message: "of this"})
	}
}

func inFlight(n int32) func(*v1alpha1.NodeFleet) {
	return func(f *v1alpha1.NodeFleet) { f.Status.InFlight = n }
}

func flavor(change func(*v1alpha1.FlavorStatus)) func(*v1alpha1.NodeFleet) {
	return func(f *v1alpha1.NodeFleet) { change(&f.Status.Flavors[1]) }
}

// aboutFleetsOfPods has what fleets do for a pod that needs the flavor large.
func aboutFleetsOfPods(t *testing.T) []sentences.Case {
	large := func(change ...func(*corev1.Pod)) *corev1.Pod {
		return fixtures.Pod("p", 4000, 1<<30, append([]func(*corev1.Pod){unschedulable}, change...)...)
	}
	does := func(change ...func(*v1alpha1.NodeFleet)) string {
		t.Helper()
		return say(t, large(), fleets(fleetOfTwo(change...)))
	}
	passes := func(change ...func(*corev1.Pod)) string {
		t.Helper()
		return say(t, large(change...), fleets(fleetOfTwo()))
	}
	plain := does()
	daemon := passes(func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Controller: new(true)}}
	})
	deferred := func(f *v1alpha1.NodeFleet) {
		f.Status.Deferral = &v1alpha1.FleetDeferral{Reason: "1 pod waits", Pods: 1, PodNames: []string{"default/p"}, SavesDollars: "0.5", RoomTime: metav1.NewTime(noon.Add(time.Minute)), BuyTime: metav1.NewTime(noon.Add(time.Hour))}
	}
	observes := func(f *v1alpha1.NodeFleet) { f.Spec.Mode = v1alpha1.FleetObserve }
	enough := func(f *v1alpha1.NodeFleet) {
		f.Status.Conditions = append(f.Status.Conditions, metav1.Condition{Type: v1alpha1.FleetLimited, Status: metav1.ConditionFalse, Reason: v1alpha1.FleetReasonEnoughOnOrder, Message: "m"})
	}
	gathers := func(f *v1alpha1.NodeFleet) { f.Spec.Scaling.BatchMax.Duration = time.Hour }
	older := func(f *v1alpha1.NodeFleet) {
		bought(v1alpha1.FleetAct, 1, "default/q")(f)
		f.Status.LastDecision.Time = metav1.NewTime(noon.Add(-time.Hour))
	}
	another, unlisted := does(bought(v1alpha1.FleetAct, 1, "default/q")), does(bought(v1alpha1.FleetAct, 3, "default/q"))
	ordered := does(bought(v1alpha1.FleetAct, 1, "default/p"), inFlight(1))
	full := does(flavor(func(s *v1alpha1.FlavorStatus) { s.Machines = s.Max }))
	event := func(message string) string {
		t.Helper()
		return say(t, large(), fleets(fleetOfTwo()), func(in *WhyInput, _ *world.World) {
			in.Fleets[0].Events = []corev1.Event{{Reason: "NoMachineFits", Message: message, LastTimestamp: metav1.NewTime(noon)}}
		})
	}
	// An Event about a pod of the same name in a namespace whose name ends alike is not about this pod.
	for message, is := range map[string]bool{"default/p: too large": true, "2 pods, the first is default/p: too large": true, "my-default/p: too large": false, "2 pods, the first is my-default/p: too large": false} {
		if got := strings.Contains(event(message), "    too large.\n"); got != is {
			t.Errorf("the Event %q is said to be about the pod: %t", message, got)
		}
	}
	leaving := func(in *WhyInput, _ *world.World) {
		in.Fleets = append(in.Fleets, FleetInput{Fleet: fleetOfTwo(), Unread: "Read from the status.", Left: map[string]string{"default/p": "NodePool web fits it, too."}})
	}
	return []sentences.Case{
		{"  NodeFleet %s, class %s, mode %s: %s\n", plain, say(t, large())},
		{"    Its flavors:\n", plain, daemon},
		{"would accept it", say(t, large(), offering(4000)), say(t, large(), offering(3000))},
		{"excluded by nothing that its status has", plain, say(t, large(), offering(4000))},
		{"not with the pods that are on nodes now: ", say(t, large(withOthers), offering(4000)), say(t, large(withOthers), otherRuns, offering(4000))},
		{"no machine is bought for a pod of a DaemonSet or a static pod", daemon, plain},
		{"no machine is bought for a pod that is being deleted", passes(deleted), plain},
		{"no machine is planned for it: scheduling gate ", passes(gatedBy("q"), func(p *corev1.Pod) { p.Status.Conditions = nil }), plain},
		{"a Migration created the pod, and no machines are bought for migrations", passes(func(p *corev1.Pod) { p.Labels[v1alpha1.LabelMigration] = "m" }), plain},
		{"no machine is bought for a pod that has a node in view: it is nominated to one, or a Migration reserves room for it", passes(nominatedTo("a")), passes(nominatedTo("gone"))},
		{"no scheduler has reported it as unschedulable, and before that no machine is planned for it", passes(func(p *corev1.Pod) { p.Status.Conditions = nil }), plain},
		{"no machine is planned for it: ", passes(claimed("nope")), say(t, large(claimed("nope")), fleets(fleetOfTwo()), notRead(claims))},
		{"whether a machine is planned for it is unknown: ", say(t, large(claimed("nope")), fleets(fleetOfTwo()), notRead(claims)), say(t, large(claimed("nope")), fleets(fleetOfTwo()), notRead(classes))},
		{"its price is unknown", does(flavor(func(s *v1alpha1.FlavorStatus) { s.PricePerHour = "" })), plain},
		{"quota: it has its maximum of ", full, plain},
		{"no machine of its flavors can be bought for the pod now", full, plain},
		{"%s; room is expected at %s, and a machine is bought at %s at the latest; waiting saves $%s", does(deferred), does(deferred, observes)},
		{"it changes nothing now, and would wait for room: %s; room is expected at %s; waiting would save $%s", does(deferred, conditioned(v1alpha1.ConditionPaused, metav1.ConditionTrue)), does(deferred)},
		{"waits for room to become free", does(deferred), does(deferred, observes)},
		{"leaves it to another buyer of machines", say(t, large(), leaving), plain},
		{"the autoscaler has not processed the fleet yet: check that it is running", does(func(f *v1alpha1.NodeFleet) { f.Status.Conditions = nil }), plain},
		{"the fleet is on hold (%s): %s", does(conditioned(v1alpha1.FleetReady, metav1.ConditionFalse)), plain},
		{"a limit is reached: ", does(conditioned(v1alpha1.FleetLimited, metav1.ConditionTrue)), does(conditioned(v1alpha1.FleetLimited, metav1.ConditionFalse))},
		{"the fleet waits for machines on order: ", does(enough), does(conditioned(v1alpha1.FleetLimited, metav1.ConditionFalse))},
		{"the fleet waits for up to %v for more pods, to plan machines for all of them together (spec.scaling.batchMax)", does(gathers), plain},
		{"waits for more pods", does(gathers), plain},
		{"the fleet has recorded no decision yet", plain, another},
		{"the fleet's last decision lists %d of %s, and this one is not among them", unlisted, another},
		{"its last decision does not list the pod", unlisted, another},
		{"the fleet's last decision, at %s, is older than the time since which the pod is unschedulable", does(older), another},
		{"the fleet's last decision does not name it", another, unlisted},
		{"; machines of the fleet without a ready node: %d", does(bought(v1alpha1.FleetAct, 1, "default/q"), inFlight(1)), another},
		{"whether a machine is starting for the pod is not recorded", does(bought(v1alpha1.FleetAct, 1, "default/q"), inFlight(1)), another},
		// A quota that an earlier order for the pod has used up does not show that nothing is done.
		{"does nothing for it", full, does(flavor(func(s *v1alpha1.FlavorStatus) { s.Machines = s.Max }), inFlight(1))},
		{"%d of flavor %s for this pod", ordered, does(bought(v1alpha1.FleetAct, 2, "default/p"))},
		{"%d of flavor %s for %s, including this one", does(bought(v1alpha1.FleetAct, 2, "default/p")), ordered},
		{"in mode Act it would have bought %s at %s: %s", does(bought(v1alpha1.FleetObserve, 1, "default/p")), ordered},
		{"would buy a machine", does(bought(v1alpha1.FleetObserve, 1, "default/p")), ordered},
	}
}

// aboutOrders has the machines that a fleet has ordered for a pod.
func aboutOrders(t *testing.T) []sentences.Case {
	at := noon.Add(-30 * time.Second)
	has := func(in []provider.Machine, change ...func(*v1alpha1.NodeFleet)) string {
		t.Helper()
		f := fleetOfTwo(append([]func(*v1alpha1.NodeFleet){bought(v1alpha1.FleetAct, 1, "default/p"), inFlight(1)}, change...)...)
		return say(t, fixtures.Pod("p", 4000, 1<<30, unschedulable), fleets(f, in...), func(_ *WhyInput, w *world.World) {
			w.Nodes["joined"] = fixtures.Node("joined", 2000, 8<<30, func(n *corev1.Node) {
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			})
			w.Nodes["unready"] = fixtures.Node("unready", 2000, 8<<30)
		})
	}
	machine := func(node string, change ...func(*provider.Machine)) provider.Machine {
		m := provider.Machine{Name: "m", Flavor: "large", Node: node, Ordered: at}
		for _, f := range change {
			f(&m)
		}
		return m
	}
	measured := func(f *v1alpha1.NodeFleet) { f.Status.LastDecision.Measured = &v1alpha1.Outcome{} }
	slow := func(f *v1alpha1.NodeFleet) { f.Spec.Scaling.ExpectedLag.Duration = time.Second }
	older := func(m *provider.Machine) { m.Ordered = at.Add(-time.Hour) }
	starting, joined := has([]provider.Machine{machine("")}), has([]provider.Machine{machine("joined")}, inFlight(0))
	cases := []sentences.Case{
		{"machines were ordered at %s, %s: %s", starting, has([]provider.Machine{machine("")}, bought(v1alpha1.FleetObserve, 1, "default/p"))},
		{"; joined since: %s", joined, starting},
		{"; no machine of this order is starting any more", joined, starting},
		{"no machine for it is starting any more", joined, starting},
		{"; expected to accept pods at %s, %v ago", has([]provider.Machine{machine("")}, slow), starting},
		{"; expected to accept pods at %s", starting, joined},
		{", expected at ", listOf(t, starting), listOf(t, joined)},
	}
	// A machine that has joined is not starting, whatever happens to its node and to other machines later.
	for _, said := range []string{
		joined,
		has([]provider.Machine{machine("unready")}, measured),
		has(nil, measured), // only the status is known
		has([]provider.Machine{machine("joined"), machine("", older)}),
		has([]provider.Machine{machine("", older)}, measured),
		has([]provider.Machine{machine("", older)}), // the machine of the order is gone, and the older one is in flight
		has([]provider.Machine{machine("", func(m *provider.Machine) { m.Failed = "no quota" })}),
	} {
		cases = append(cases, sentences.Case{"a machine is starting", starting, said})
	}
	return cases
}

// listOf returns the last column of a list with the pod of a text about it: the list says the same of the first fleet.
func listOf(t *testing.T, text string) string {
	t.Helper()
	doing := Ordered
	if strings.Contains(text, fleetVerbs[Joined]) {
		doing = Joined
	}
	w := FleetWhy{Fleet: "all", Doing: doing, Flavor: "large"}
	if doing == Ordered {
		w.ExpectedTime = &noon
	}
	var b strings.Builder
	if err := (PendingPods{Pods: []Why{{Name: "default/p", Pending: &Pending{Fleets: []FleetWhy{w}}}}}).Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func aboutPlacedPods(t *testing.T) []sentences.Case {
	about := func(change ...func(*corev1.Pod)) string { t.Helper(); return say(t, running(change...)) }
	with := func(all ...given) string { t.Helper(); return say(t, running(), all...) }
	on := func(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
	bound := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	}
	static := func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }
	moved := func(labels map[string]string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Annotations, p.Labels = map[string]string{v1alpha1.AnnotationMigrationName: "m"}, labels
		}
	}
	finishes := func(p *corev1.Pod) {
		p.Annotations = map[string]string{v1alpha1.AnnotationExpectedFinish: noon.Add(time.Hour).Format(time.RFC3339)}
		p.Labels[v1alpha1.LabelClass] = "batch"
	}
	selecting := func(host string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: host} }
	}
	restarts := func(p *corev1.Pod) {
		p.Annotations = map[string]string{v1alpha1.AnnotationMigration: v1alpha1.MigrationRestart}
	}
	spent := func(allowed int32) given {
		return func(_ *WhyInput, w *world.World) {
			w.Budgets = []policyv1.PodDisruptionBudget{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
				Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
			}}
		}
	}
	made := func(ago time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(noon.Add(-ago)) }
	}
	noEvents := func(in *WhyInput, _ *world.World) { in.NoEvents = true }
	fleet := fleetOfTwo(bought(v1alpha1.FleetAct, 1, "default/p"))
	plain := with()
	succeeded := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	hosted := func(p *corev1.Pod) { p.Spec.HostNetwork = true }
	starting := func(p *corev1.Pod) { p.Spec.Containers[0].StartupProbe = &corev1.Probe{} }
	once := about(func(p *corev1.Pod) { p.OwnerReferences = nil; restarts(p) })
	scores, _, _ := strings.Cut(noScores, "for a while")
	return []sentences.Case{
		{"\nWhy is it on node %s?\n", plain, say(t, pending())},
		{scores, plain, say(t, pending())},
		{`for a while; its log then has a line "Plugin scored node for pod" for each plugin and node, and "Calculated node's final score for pod".`, plain, say(t, pending())},
		{"Migration %s is moving it there", about(moved(map[string]string{v1alpha1.LabelMigration: "m"})), about(moved(nil))},
		{"Migration %s moved it there", about(moved(nil)), about(moved(map[string]string{v1alpha1.LabelMigration: "m"}))},
		{"node %s does not exist: no kubelet runs the pod, and kube-controller-manager deletes pods of missing nodes", about(on("gone")), plain},
		{"its nodeSelector names the node", about(selecting("a")), about(selecting("b"))},
		{"NodeFleet %s ordered machines of flavor %s at %s for %s, including this one: %s", say(t, running(made(time.Hour)), fleets(fleet)), say(t, running(made(0)), fleets(fleet))},
		{"it is a static pod: the kubelet of the node runs it from a file, and no scheduler handles it", about(static), plain},
		{"it was created with spec.nodeName %s: no scheduler handles it", plain, about(bound)},
		{"the Events of the pod could not be read, so who chose the node is unknown", say(t, running(bound), noEvents), about(bound)},
		{"no Event about its binding is left (the API server keeps Events for an hour by default), so who chose the node is unknown", about(bound), say(t, running(bound), noEvents)},
		{"  It is expected to end at %s.\n", about(finishes), about(finishes, succeeded)},
		{"\nWhat would move it?\n", plain, about(succeeded)},
		{"it belongs on its node: a DaemonSet or the kubelet runs it there; it does not keep the node from being emptied", about(func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "DaemonSet" }), plain},
		{"whether a PodDisruptionBudget holds it is unknown: PodDisruptionBudgets could not be read", with(notRead(budgets)), plain},
		{"  It may leave by: %s.\n", about(restarts), plain},
		{"  It is not moved: %s.\n", plain, about(restarts)},
		{"  Its state cannot be moved, so an eviction loses it: %s: %s.\n", movedBy(t, hosted), movedBy(t, starting)},
		{"  Its state cannot be moved yet, and the eviction webhook waits until this has passed: %s: %s.\n", movedBy(t, starting), movedBy(t, hosted)},
		{"another obstacle remains", say(t, running(func(p *corev1.Pod) {
			p.Annotations = map[string]string{v1alpha1.AnnotationMigration: v1alpha1.MigrationRestart, "karpenter.sh/do-not-disrupt": "true"}
		}), spent(0)), once},
		{"without it, the pod could leave by: ", say(t, running(restarts), spent(0)), say(t, running(restarts), spent(1))},
		{"  Obstacle: %s. What helps: %s; %s.\n", once, about(restarts)},
	}
}

// movedBy returns what is said about a pod of a Job that its node's agent can move, with a change.
func movedBy(t *testing.T, change func(*corev1.Pod)) string {
	t.Helper()
	pod := fixtures.MovablePod("p", "able-a", change)
	return textOf(t, clusterOf(t, nil, pod, fixtures.OwnerJob(pod), fixtures.AbleNode("able-a"), fixtures.AbleNode("able-b")), pod)
}

// aboutNodes has what happens to the node of a pod.
func aboutNodes(t *testing.T) []sentences.Case {
	node := func(change func(*corev1.Node), all ...given) string {
		t.Helper()
		return NewWhy(input(running(), append(all, func(_ *WhyInput, w *world.World) { change(w.Nodes["a"]) })...)).Moving.NodeStays
	}
	label := func(fleet string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels[v1alpha1.LabelFleet] = fleet }
	}
	marked := func(owner, times string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Annotations = map[string]string{v1alpha1.AnnotationDraining: owner + times} }
	}
	const since, until = "/2026-11-26T11:00:00Z", "/2026-11-26T13:00:00Z"
	nothing, cordoned := func(*corev1.Node) {}, func(n *corev1.Node) { n.Spec.Unschedulable = true }
	kept := fleetOfTwo(func(f *v1alpha1.NodeFleet) {
		f.Status.Kept = []v1alpha1.KeptMachine{{Node: "a", Reason: "it would cost more"}}
	})
	releases := fleetOfTwo(func(f *v1alpha1.NodeFleet) {
		f.Status.LastDecision = &v1alpha1.FleetDecision{Mode: v1alpha1.FleetObserve, Releases: []v1alpha1.DecidedRelease{{Node: "a", Reason: "it is empty"}}}
	})
	machine := func(leaving bool) given {
		return fleets(fleetOfTwo(), provider.Machine{Name: "m", Node: "a", Leaving: leaving})
	}
	onANodeThat := func(change func(*corev1.Node)) string { return say(t, running(), onNode(change)) }
	plain, owned := node(nothing), node(label("all"), fleets(fleetOfTwo()))
	return []sentences.Case{
		{"the node does not exist", NewWhy(input(running(func(p *corev1.Pod) { p.Spec.NodeName = "gone" }))).Moving.NodeStays, plain},
		{"the descheduler", node(marked(drain.Descheduler, since)), node(marked("all", since), fleets(fleetOfTwo()))},
		{"%s has been emptying the node since %s", node(marked("all", since), fleets(fleetOfTwo())), node(marked("all", "/soon"), fleets(fleetOfTwo()))},
		{" is emptying the node", node(marked("all", "/soon"), fleets(fleetOfTwo())), node(marked("gone", "/soon"), fleets(fleetOfTwo()))},
		{", and expects the last pod to have left at ", node(marked("all", since+until), fleets(fleetOfTwo())), node(marked("all", since), fleets(fleetOfTwo()))},
		{"the node is marked as being emptied by NodeFleet %s, which does not exist", node(marked("gone", since)), node(marked("gone", since), notRead(nodeFleets))},
		{"NodeFleet %s is releasing the machine of the node", node(cordoned, machine(true)), node(cordoned, machine(false))},
		{"the node is cordoned, but not by Supercargo", node(cordoned), node(cordoned, machine(true))},
		{"whether the node belongs to a NodeFleet is unknown: NodeFleets could not be read", node(nothing, notRead(nodeFleets)), plain},
		{"the node has the label of NodeFleet %s, which does not exist", node(label("gone")), owned},
		{"the node has no label of a NodeFleet, and whether it is a machine of NodeFleet %s is unknown: its machines could not be read", node(nothing, fleets(fleetOfTwo())), node(nothing, fleets(fleetOfTwo(), provider.Machine{Node: "b"}))},
		{"the node belongs to no NodeFleet; supercargo explain consolidation shows what the descheduler does with such nodes", plain, owned},
		{"NodeFleet %s keeps the node, which is under-used or empty: %s", node(label("all"), fleets(kept)), owned},
		{"NodeFleet %s decided at %s, mode %s, to release the node: %s", node(label("all"), fleets(releases)), owned},
		{"NodeFleet %s owns the node, and is not emptying it: consolidation policy %s", owned, node(label("all"), fleets(kept))},
		{"its deletion was requested at %s", onANodeThat(isDeleted), onANodeThat(notReady)},
		{"; it exists until these finalizers are removed: ", onANodeThat(isDeleted), onANodeThat(notReady)},
		{"it has not been ready since %s (%s)", onANodeThat(notReady), onANodeThat(isDeleted)},
		{"it has taint %s, which cluster-autoscaler sets on nodes that it is about to delete", onANodeThat(toBeDeleted), onANodeThat(notReady)},
	}
}

// onNode changes node a.
func onNode(change func(*corev1.Node)) given {
	return func(_ *WhyInput, w *world.World) { change(w.Nodes["a"]) }
}

// aNodeThat returns what is printed about node a after a change.
func aNodeThat(t *testing.T, change func(*corev1.Node)) string {
	t.Helper()
	return saysOf(t, NewNodeWhy(input(fixtures.Pod("pending", 100, 1<<20), onNode(change)), "a"))
}

func notReady(n *corev1.Node) {
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))}}
}

func isDeleted(n *corev1.Node) {
	n.DeletionTimestamp, n.Finalizers = &metav1.Time{Time: noon}, []string{"example.com/hold"}
}

func toBeDeleted(n *corev1.Node) {
	n.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Value: "1", Effect: corev1.TaintEffectNoSchedule}}
}

// finalized deletes a pod with 30 s of grace, which a finalizer keeps.
func finalized(p *corev1.Pod) {
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.Finalizers = &metav1.Time{Time: noon}, new(int64(30)), []string{"example.com/hold"}
}

// aNode returns what is printed about node a, with some pods.
func aNode(t *testing.T, pods ...*corev1.Pod) NodeWhy {
	t.Helper()
	return NewNodeWhy(input(fixtures.Pod("pending", 100, 1<<20), others(pods...)), "a")
}

func saysOf(t *testing.T, why NodeWhy) string {
	t.Helper()
	var b strings.Builder
	if err := why.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// aboutLists has the lists of pods, and what depends on how the cluster was read.
func aboutLists(t *testing.T) []sentences.Case {
	elsewhere := fixtures.Pod("q", 100, 1<<20, func(p *corev1.Pod) { p.Namespace = "jobs" })
	failed := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "jobs", Name: "e"}, Reason: failedCreate, Message: "exceeded quota", LastTimestamp: metav1.NewTime(noon),
		InvolvedObject: corev1.ObjectReference{Kind: "Job", Namespace: "jobs", Name: "load"},
	}
	list := func(namespace string, objects ...client.Object) string {
		t.Helper()
		var b strings.Builder
		if err := clusterOf(t, nil, objects...).Pending(t.Context(), namespace).Write(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	on := func(node string) *corev1.Pod {
		return running(func(p *corev1.Pod) { p.Spec.NodeName = node })
	}
	refused := refusedPods([]corev1.Event{*failed})
	fleet := fleetOfTwo(func(f *v1alpha1.NodeFleet) { f.Spec.Provider = v1alpha1.FleetOpenStack })
	pod := pending(unschedulable)
	openStack := textOf(t, clusterOf(t, nil, pod, fleet), pod)
	return []sentences.Case{
		{"\nPods on a node that does not exist: no kubelet runs them, and kube-controller-manager deletes such pods.", list("default", on("gone")), list("default", on("a"))},
		{"No pod without a node %s.%s\n", list("default", elsewhere), list("jobs", elsewhere)},
		{"in namespace ", list("default", elsewhere), list("")},
		{"in any namespace", list(""), list("default", elsewhere)},
		{" Pods without a node in other namespaces: %d; -A lists them.", list("default", elsewhere), list("jobs", elsewhere)},
		{"\nPods that could not be created, by the Events of their controllers:", list("jobs", elsewhere, failed), list("jobs", elsewhere)},
		{"\nFor each of them: %s\n", list("jobs", elsewhere), listOf(t, "")},
		{"; %s could not create a pod at %s: %s", NeverCreated(refused, "load-0"), NeverCreated(refused, "other")},
		{"No pod would have to leave it.", saysOf(t, aNode(t, fixtures.Pod("coming", 100, 1<<20, nominatedTo("a")))), saysOf(t, aNode(t, running()))},
		{"Its flavors were read from its status, which has no labels, taints and zones of machines: ", openStack, say(t, pod, fleets(fleet))},
		{"\nWhere would it take the least energy?\n", energyOf(t), say(t, running())},
	}
}

// TestAnEventOrAMigrationOfAnEarlierPodOfTheNameIsNotTold checks what a StatefulSet makes usual.
func TestAnEventOrAMigrationOfAnEarlierPodOfTheNameIsNotTold(t *testing.T) {
	pod := running()
	for uid, is := range map[types.UID]bool{pod.UID: true, "earlier": false} {
		event := &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}, Reason: "Scheduled", Message: "Successfully assigned default/p to a", LastTimestamp: metav1.NewTime(noon),
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p", UID: uid},
		}
		migration := &v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"}, Spec: v1alpha1.MigrationSpec{PodName: "p", PodUID: string(uid)}}
		text := textOf(t, clusterOf(t, nil, pod, event, migration), pod)
		if strings.Contains(text, "Successfully assigned") != is || strings.Contains(text, "Migration m") != is {
			t.Errorf("of a pod with UID %s it says\n%s", uid, text)
		}
	}
}

// TestAMigrationKindThatCannotBeReadIsNotSaidToBeAbsent checks an error that is neither about rights nor about the kind.
func TestAMigrationKindThatCannotBeReadIsNotSaidToBeAbsent(t *testing.T) {
	scheme, err := kinds.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			if _, is := list.(*v1alpha1.MigrationList); is {
				return apierrors.NewServerTimeout(schema.GroupResource{Resource: "migrations"}, "list", 1)
			}
			return c.List(ctx, list, o...)
		},
	}).Build()
	if _, err := Read(t.Context(), c, noon); err == nil || !strings.Contains(err.Error(), "list Migrations") {
		t.Errorf("%v; want the error", err)
	}
}
