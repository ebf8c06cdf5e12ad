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
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/platform/kinds"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
	"supercargo.dev/supercargo/test/fixtures"
)

// clusterOf reads a cluster with two nodes and other objects, of which the user may not list some kinds.
func clusterOf(t *testing.T, forbidden func(client.ObjectList) bool, objects ...client.Object) *Cluster {
	t.Helper()
	scheme, err := kinds.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, fixtures.Node("a", 2000, 8<<30), fixtures.Node("b", 2000, 8<<30))
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			if forbidden != nil && forbidden(list) {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", nil)
			}
			if events, is := list.(*corev1.EventList); is {
				return listEvents(ctx, c, events, o)
			}
			return c.List(ctx, list, o...)
		},
	}).Build()
	read, err := Read(t.Context(), c, noon)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// listEvents selects Events by their fields, as the API server does.
func listEvents(ctx context.Context, c client.Client, list *corev1.EventList, o []client.ListOption) error {
	var options client.ListOptions
	options.ApplyOptions(o)
	selector := options.FieldSelector
	options.FieldSelector = nil
	err := c.List(ctx, list, &options)
	list.Items = slices.DeleteFunc(list.Items, func(e corev1.Event) bool {
		return selector != nil && !selector.Matches(fields.Set{"involvedObject.kind": e.InvolvedObject.Kind, "involvedObject.name": e.InvolvedObject.Name, "reason": e.Reason})
	})
	return err
}

// textOf returns what is printed about a pod of a cluster.
func textOf(t *testing.T, read *Cluster, pod *corev1.Pod) string {
	t.Helper()
	var text strings.Builder
	if err := read.Pod(t.Context(), pod).Write(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// says checks that a text contains some texts and lacks others, which begin with "!".
func says(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if lacks, is := strings.CutPrefix(w, "!"); is == strings.Contains(text, lacks) {
			t.Errorf("want %q in\n%s", w, text)
		}
	}
}

// reported sets what the scheduler reports.
func reported(message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { unschedulable(p); p.Status.Conditions[0].Message = message }
}

func claimed(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
	}
}

// late returns a claim that is bound when a pod needs it, and its class.
func late(change ...func(*corev1.PersistentVolumeClaim)) []client.Object {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", Annotations: map[string]string{}}}
	claim.Spec.StorageClassName = new("late")
	for _, f := range change {
		f(claim)
	}
	return []client.Object{claim, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Provisioner: "csi.example.com", VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)}}
}

func chosen(c *corev1.PersistentVolumeClaim) {
	c.Annotations["volume.kubernetes.io/selected-node"] = "a"
	c.Annotations["volume.kubernetes.io/storage-provisioner"] = "csi.example.com"
}

// TestANominatedPodSaysForWhatItWaits checks that preemption is asserted only where pods are preempted.
func TestANominatedPodSaysForWhatItWaits(t *testing.T) {
	nominated := func(node string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.NominatedNodeName = node }
	}
	const preempts = "lower priority"
	t.Run("its volume is created first", func(t *testing.T) {
		pod := fixtures.Pod("p", 100, 1<<20, claimed("data"), nominated("a"))
		says(t, textOf(t, clusterOf(t, nil, append(late(chosen), pod)...), pod),
			"It is nominated to node a, for which provisioner csi.example.com is to create the volume of claim data first.", "!"+preempts, "!has not reported")
	})
	t.Run("a version that nominates no node for that", func(t *testing.T) {
		pod := fixtures.Pod("p", 100, 1<<20, claimed("data"))
		says(t, textOf(t, clusterOf(t, nil, append(late(chosen), pod)...), pod),
			"A scheduler has chosen node a, for which provisioner csi.example.com is to create the volume of claim data first.", "!has not reported")
	})
	t.Run("others are preempted", func(t *testing.T) {
		pod := fixtures.Pod("p", 100, 1<<20, nominated("a"), unschedulable, func(p *corev1.Pod) { p.Spec.Priority = new(int32(10)) })
		victim := fixtures.Pod("victim", 100, 1<<20, func(p *corev1.Pod) {
			p.UID, p.Spec.NodeName, p.DeletionTimestamp, p.Finalizers = "v", "a", &metav1.Time{Time: noon}, []string{"example.com/wait"}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}
		})
		other := fixtures.Pod("other", 100, 1<<20, func(p *corev1.Pod) { p.UID, p.Spec.NodeName = "o", "a" })
		says(t, textOf(t, clusterOf(t, nil, pod, victim, other), pod), "pods of lower priority leave it to make room: default/victim.")
	})
	t.Run("nothing is known", func(t *testing.T) {
		pod := fixtures.Pod("p", 100, 1<<20, nominated("b"))
		says(t, textOf(t, clusterOf(t, nil, pod), pod), "It is nominated to node b.", "!"+preempts)
	})
	t.Run("the node is gone", func(t *testing.T) {
		pod := fixtures.Pod("p", 100, 1<<20, nominated("gone"))
		says(t, textOf(t, clusterOf(t, nil, pod), pod), "It is nominated to node gone, which does not exist.")
	})
}

// TestNoNodeAcceptsAPodWhoseClaimsKeepItFromAll checks pods for which nodes have room.
func TestNoNodeAcceptsAPodWhoseClaimsKeepItFromAll(t *testing.T) {
	uses := func(name string, template bool) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			use := corev1.PodResourceClaim{Name: "gpu", ResourceClaimName: &name}
			if template {
				use.ResourceClaimName, use.ResourceClaimTemplateName = nil, &name
			}
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{use}
		}
	}
	device := func(name string, change ...func(*resourcev1.ResourceClaim)) *resourcev1.ResourceClaim {
		c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com"}}}
		for _, f := range change {
			f(c)
		}
		return c
	}
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu.example.com"}}
	const accepts = "would accept it now"
	for _, tc := range []struct {
		name    string
		pod     func(*corev1.Pod)
		objects []client.Object
		want    []string
	}{
		{"nothing keeps it", func(*corev1.Pod) {}, nil, []string{"2  " + accepts}},
		{"a volume claim that is missing", claimed("nope"), nil, []string{"volume claim nope does not exist", "2  would not exclude it, apart from the above", "!" + accepts}},
		{"a volume that is still to be created", claimed("data"), late(), []string{"its scheduler also checks how many volumes a node can attach, the free capacity of storage", "!" + accepts}},
		{"a resource claim that is missing", uses("nope", false), nil, []string{"ResourceClaim nope does not exist", "!" + accepts}},
		{"a template that is missing", uses("nope", true), nil, []string{"ResourceClaimTemplate nope does not exist", "!" + accepts}},
		{"a claim that is to be made from its template", uses("template", true), []client.Object{
			&resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "template"}},
		}, []string{"resource claim gpu of the pod does not exist yet", "!" + accepts}},
		{"a class that is missing", uses("mine", false), []client.Object{device("mine")}, []string{"DeviceClass gpu.example.com, which ResourceClaim mine requests, does not exist", "!" + accepts}},
		{"devices that no command can compare", uses("mine", false), []client.Object{device("mine"), class}, []string{"its scheduler also checks the devices of nodes", "!" + accepts, "!does not exist"}},
		{"a claim in full use", uses("mine", false), []client.Object{class, device("mine", func(c *resourcev1.ResourceClaim) {
			c.Status.Allocation = &resourcev1.AllocationResult{}
			c.Status.ReservedFor = make([]resourcev1.ResourceClaimConsumerReference, mostReserved)
		})}, []string{"ResourceClaim mine is in use by 256 pods"}},
		{"a scheduler of somebody else", func(p *corev1.Pod) { p.Spec.SchedulerName = "volcano" }, nil, []string{"its scheduler also checks the rules of scheduler volcano", "!" + accepts}},
		{"a pod that is being deleted", func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: noon}, []string{"example.com/wait"}
		}, nil, []string{"it is being deleted, so no scheduler handles it", "!" + accepts}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := fixtures.Pod("p", 100, 1<<20, unschedulable, tc.pod)
			says(t, textOf(t, clusterOf(t, nil, append(tc.objects, pod)...), pod), tc.want...)
		})
	}
}

// TestASchedulerThatNobodyRunsIsDoubted checks what other pods of the schedulerName show.
func TestASchedulerThatNobodyRunsIsDoubted(t *testing.T) {
	of := func(name string, change ...func(*corev1.Pod)) *corev1.Pod {
		return fixtures.Pod(name, 100, 1<<20, append(change, func(p *corev1.Pod) { p.UID, p.Spec.SchedulerName = "uid-"+p.UID, "volcano" })...)
	}
	const accepts = "!would accept it now"
	says(t, textOf(t, clusterOf(t, nil, of("p")), of("p")), "no other pod has this schedulerName: check that such a scheduler runs", accepts)
	says(t, textOf(t, clusterOf(t, nil, of("p"), of("q")), of("p")), "nor on the 1 other pod with this schedulerName", accepts)
	says(t, textOf(t, clusterOf(t, nil, of("p"), of("q", unschedulable)), of("p")), "with this schedulerName, 1 other pod has a node or such a condition", "!check that")
}

// TestWhatCouldNotBeReadIsSaidAndNotGuessed checks that missing rights make no claim, budget or fleet missing.
func TestWhatCouldNotBeReadIsSaidAndNotGuessed(t *testing.T) {
	pod := fixtures.Pod("p", 100, 1<<20, claimed("data"), unschedulable)
	read := clusterOf(t, func(list client.ObjectList) bool {
		switch list.(type) {
		case *corev1.PersistentVolumeClaimList, *v1alpha1.NodeFleetList:
			return true
		}
		return false
	}, pod)
	says(t, textOf(t, read, pod),
		"Not read, and not considered below: NodeFleets: the user may not list them; PersistentVolumeClaims: the user may not list them",
		"its scheduler also checks its volume claims", "NodeFleets could not be read", "!does not exist", "!There is no NodeFleet", "!would accept it now")
}

// TestAPodWithoutAnEventAboutItsBindingSaysOnlyWhatItShows checks that no scheduler is said to have bound it.
func TestAPodWithoutAnEventAboutItsBindingSaysOnlyWhatItShows(t *testing.T) {
	on := func(node string, change ...func(*corev1.Pod)) *corev1.Pod {
		return fixtures.Pod("p", 100, 1<<20, append(change, func(p *corev1.Pod) { p.Spec.NodeName = node })...)
	}
	bound := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	}
	static := func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		in   WhyInput
		want []string
	}{
		{"created for a node that does not exist", on("ghost"), WhyInput{}, []string{"created with spec.nodeName ghost: no scheduler handles it", "node ghost does not exist", "!bound it"}},
		{"created for a node", on("a"), WhyInput{}, []string{"created with spec.nodeName a: no scheduler handles it", "!does not exist"}},
		{"bound long ago", on("a", bound), WhyInput{}, []string{"no Event about its binding is left", "!bound it"}},
		{"bound, and nobody may read Events", on("a", bound), WhyInput{NoEvents: true}, []string{"Events of the pod could not be read", "!is left"}},
		{"static", on("a", static), WhyInput{}, []string{"the kubelet of the node runs it from a file"}},
		{"bound just now", on("a", bound), WhyInput{Events: []corev1.Event{{Reason: "Scheduled", Message: "Successfully assigned default/p to a"}}}, []string{"Successfully assigned", "!Event about its binding"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := tc.in
			in.Now, in.Pod = noon, tc.pod
			in.View = world.NewView(&world.World{Nodes: map[string]*corev1.Node{"a": fixtures.Node("a", 2000, 8<<30)}, Pods: []*corev1.Pod{tc.pod}}, noon, runtimes.NewLearner())
			var text strings.Builder
			if err := NewWhy(&in).Write(&text); err != nil {
				t.Fatal(err)
			}
			says(t, text.String(), tc.want...)
		})
	}
}

// TestADaemonSetPodHasNoObstacle checks a pod in kube-system, which no budget selects.
func TestADaemonSetPodHasNoObstacle(t *testing.T) {
	pod := running(func(p *corev1.Pod) { p.Namespace, p.OwnerReferences[0].Kind = metav1.NamespaceSystem, "DaemonSet" })
	why := explained(t, pod, nil)
	if len(why.Moving.Obstacles) > 0 || len(why.Moving.Ways) > 0 || !strings.Contains(why.Moving.Held, "does not keep the node from being emptied") {
		t.Errorf("%+v; want no obstacle and no way, and that it does not keep the node", why.Moving)
	}
}

func TestTheAdviceAboutABudgetFitsItsField(t *testing.T) {
	zero := intstr.FromInt32(0)
	why := explained(t, running(func(p *corev1.Pod) {
		p.Annotations = map[string]string{v1alpha1.AnnotationMigration: v1alpha1.MigrationRestart}
	}), nil, func(w *world.World) {
		w.Budgets = []policyv1.PodDisruptionBudget{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &zero, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		}}
	})
	if len(why.Moving.Obstacles) != 1 || !strings.Contains(why.Moving.Obstacles[0].Advice, "a higher maxUnavailable") {
		t.Errorf("%+v; want the budget, and advice about maxUnavailable", why.Moving.Obstacles)
	}
}

// TestAListOfPendingPodsSaysWhereItLooked checks the empty list and one with pods elsewhere.
func TestAListOfPendingPodsSaysWhereItLooked(t *testing.T) {
	elsewhere := func(name string) *corev1.Pod {
		return fixtures.Pod(name, 100, 1<<20, func(p *corev1.Pod) { p.Namespace = "jobs" })
	}
	read := clusterOf(t, nil, elsewhere("one"), elsewhere("two"))
	list := func(namespace string) string {
		var text strings.Builder
		if err := read.Pending(t.Context(), namespace).Write(&text); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	says(t, list("default"), "No pod without a node in namespace default. Pods without a node in other namespaces: 2; -A lists them.")
	says(t, list("jobs"), "jobs/one", "jobs/two", "!-A")
	says(t, list(""), "jobs/one", "!-A")
}

// TestAMachineThatHasJoinedIsNotStarting checks the machines of an order one by one.
func TestAMachineThatHasJoinedIsNotStarting(t *testing.T) {
	at := noon.Add(-30 * time.Second)
	ready := func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	machine := func(name, node string) provider.Machine {
		return provider.Machine{Name: name, Flavor: "large", Node: node, Ordered: at}
	}
	for _, tc := range []struct {
		name     string
		machines []provider.Machine
		inFlight int32
		doing    string
		says     string
	}{
		{"one has joined, one has not", []provider.Machine{machine("m1", "joined"), machine("m2", "")}, 1, Ordered, "joined since: joined; expected to accept pods"},
		{"both have", []provider.Machine{machine("m1", "joined"), machine("m2", "joined2")}, 0, Joined, "joined since: joined, joined2; no machine of this order is starting any more"},
		{"the node of one is not ready", []provider.Machine{machine("m1", "joined"), machine("m2", "late")}, 1, Ordered, "joined since: joined; expected"},
		{"one has failed", []provider.Machine{machine("m1", "joined"), {Name: "m2", Flavor: "large", Ordered: at, Failed: "no quota"}}, 0, Joined, "no machine of this order is starting any more"},
		{"the provider does not know one yet", []provider.Machine{machine("m1", "joined")}, 1, Ordered, "expected to accept pods"},
		{"an older one is not of the order", []provider.Machine{{Name: "old", Flavor: "large", Node: "joined", Ordered: at.Add(-time.Hour)}}, 2, Ordered, "expected to accept pods"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := fixtures.Pod("p", 4000, 1<<30, unschedulable)
			f := fleetOfTwo(func(f *v1alpha1.NodeFleet) {
				f.Status.InFlight = tc.inFlight
				f.Status.LastDecision = &v1alpha1.FleetDecision{Time: metav1.NewTime(at), Mode: v1alpha1.FleetAct, Buys: []v1alpha1.DecidedPurchase{{
					Flavor: "large", Count: 2, Pods: 2, Reason: "cheapest", Machines: []v1alpha1.DecidedMachines{{Count: 2, Pods: 2, PodNames: []string{"default/p", "default/q"}}},
				}}}
			})
			w := &world.World{Pods: []*corev1.Pod{pod}, Nodes: map[string]*corev1.Node{
				"joined": fixtures.Node("joined", 2000, 8<<30, ready), "joined2": fixtures.Node("joined2", 2000, 8<<30, ready), "late": fixtures.Node("late", 2000, 8<<30),
			}}
			got := NewWhy(&WhyInput{Now: noon, Pod: pod, View: world.NewView(w, noon, runtimes.NewLearner()), Fleets: []FleetInput{{Fleet: f, Machines: tc.machines}}}).Pending.Fleets[0]
			if got.Doing != tc.doing || !strings.Contains(got.Because, tc.says) {
				t.Errorf("it is doing %s: %s\nwant %s: …%s…", got.Doing, got.Because, tc.doing, tc.says)
			}
		})
	}
}

// TestAFleetSaysWhyItDoesNotConsiderAPod checks pods for which no machine is planned.
func TestAFleetSaysWhyItDoesNotConsiderAPod(t *testing.T) {
	for _, tc := range []struct {
		name string
		pod  func(*corev1.Pod)
		want string
	}{
		{"of a DaemonSet", func(p *corev1.Pod) {
			unschedulable(p)
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Controller: new(true)}}
		}, "a pod of a DaemonSet"},
		{"being deleted", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }, "that is being deleted"},
		{"gated", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}} }, "scheduling gate example.com/quota"},
		{"nominated", func(p *corev1.Pod) { unschedulable(p); p.Status.NominatedNodeName = "a" }, "that has a node in view"},
		{"not reported", func(*corev1.Pod) {}, "no scheduler has reported it as unschedulable"},
		{"of a Migration", func(p *corev1.Pod) { unschedulable(p); p.Labels[v1alpha1.LabelMigration] = "m" }, "a Migration created the pod"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := explained(t, fixtures.Pod("p", 100, 1<<20, tc.pod), fleetOfTwo()).Pending.Fleets[0]; got.Doing != Nothing || !strings.Contains(got.Because, tc.want) {
				t.Errorf("it is doing %s: %s\nwant %q", got.Doing, got.Because, tc.want)
			}
		})
	}
}

func TestControllersWhosePodsAreRefusedAreListed(t *testing.T) {
	event := func(kind, name, message string, after time.Duration, count int32) corev1.Event {
		return corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: "shop", Name: name}, Reason: "FailedCreate", Message: message, Count: count,
			LastTimestamp: metav1.NewTime(noon.Add(after)),
		}
	}
	all := refusedPods([]corev1.Event{
		event("ReplicaSet", "web-5d", "exceeded quota: later", time.Minute, 3), event("ReplicaSet", "web-5d", "exceeded quota: earlier", 0, 2),
		event("Job", "load", "denied the request", 2*time.Minute, 1), {Reason: "Scheduled"},
	})
	var text strings.Builder
	if err := (PendingPods{Namespace: "shop", Refused: all}).Write(&text); err != nil {
		t.Fatal(err)
	}
	says(t, text.String(), "Pods that could not be created", "Job shop/load", "ReplicaSet shop/web-5d", "5", "exceeded quota: later", "!earlier")
	if len(all) != 2 || all[0].Controller != "Job shop/load" {
		t.Errorf("%+v; want the latest first", all)
	}
	says(t, NeverCreated(all, "web"), "ReplicaSet shop/web-5d could not create a pod at 2026-11-26 12:01:00 UTC: exceeded quota: later")
	says(t, NeverCreated(all, "load-x7k2p"), "Job shop/load could not create a pod")
	if got := NeverCreated(all, "other"); got != "" {
		t.Errorf("of another pod: %q", got)
	}
}

// TestTheAnswersOfTheSchedulersReasonsAreSaid checks one reason and several.
func TestTheAnswersOfTheSchedulersReasonsAreSaid(t *testing.T) {
	pod := fixtures.Pod("p", 4000, 1<<20, reported("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) exceed max volume count. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."))
	says(t, textOf(t, clusterOf(t, nil, pod), pod), `What helps against "Insufficient cpu": lower requests`, `What helps against "node(s) exceed max volume count": nodes with fewer attached volumes`)
	pod = fixtures.Pod("p", 4000, 1<<20, reported(`0/2 nodes are available: persistentvolumeclaim "nope" not found. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.`))
	says(t, textOf(t, clusterOf(t, nil, pod), pod), "What helps: a claim of that name that is not being deleted, or another name in the pod.\n", "!what the claim waits for")
}

// TestWhatAFleetRecordedAboutAnotherPodOfTheNameIsNotSaid checks a pod that is younger than the decision that names it.
func TestWhatAFleetRecordedAboutAnotherPodOfTheNameIsNotSaid(t *testing.T) {
	at := metav1.NewTime(noon.Add(-time.Minute))
	f := fleetOfTwo(func(f *v1alpha1.NodeFleet) {
		f.Status.LastDecision = &v1alpha1.FleetDecision{Time: at, Mode: v1alpha1.FleetAct, Buys: []v1alpha1.DecidedPurchase{{
			Flavor: "large", Count: 1, Pods: 2, Reason: "cheapest", Machines: []v1alpha1.DecidedMachines{{Count: 1, Pods: 2, PodNames: []string{"default/p"}}},
		}}}
	})
	for _, tc := range []struct {
		made time.Duration
		want string
	}{
		{-time.Hour, "NodeFleet all ordered machines of flavor large at 2026-11-26 11:59:00 UTC for 2 pods, including this one: cheapest"},
		{0, "!ordered machines"},
	} {
		pod := running(func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(noon.Add(tc.made)) })
		says(t, strings.Join(explained(t, pod, f).Placement.Because, "\n"), tc.want)
	}
}

// TestWhatKeepsAPodIsNotGuessed checks a user who may list neither budgets nor fleets.
func TestWhatKeepsAPodIsNotGuessed(t *testing.T) {
	pod := running(func(p *corev1.Pod) {
		p.Annotations = map[string]string{v1alpha1.AnnotationMigration: v1alpha1.MigrationRestart}
	})
	read := clusterOf(t, func(list client.ObjectList) bool {
		switch list.(type) {
		case *policyv1.PodDisruptionBudgetList, *v1alpha1.NodeFleetList:
			return true
		}
		return false
	}, pod)
	says(t, textOf(t, read, pod), "But whether a PodDisruptionBudget holds it is unknown", "Whether the node belongs to a NodeFleet is unknown", "!belongs to no NodeFleet")
	says(t, textOf(t, clusterOf(t, nil, pod), pod), "The node belongs to no NodeFleet", "!is unknown: PodDis")
	labelled := explained(t, pod, nil, func(w *world.World) { w.Nodes["a"].Labels[v1alpha1.LabelFleet] = "gone" })
	says(t, labelled.Moving.NodeStays, "has the label of NodeFleet gone, which does not exist")
}

// TestAClaimOfAnotherPodOrOneThatLeavesKeepsAPodFromAllNodes checks what the API server cannot be made to hold for long.
func TestAClaimOfAnotherPodOrOneThatLeavesKeepsAPodFromAllNodes(t *testing.T) {
	pod := fixtures.Pod("p", 100, 1<<20, func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("t")}}
		p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: new("mine")}}
	})
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
	d := &Devices{Claims: map[string]*resourcev1.ResourceClaim{"mine": claim}}
	says(t, d.blocks(pod), "ResourceClaim mine was created for another pod")
	claim.OwnerReferences = []metav1.OwnerReference{{UID: pod.UID, Controller: new(true)}}
	if got := d.blocks(pod); got != "" {
		t.Errorf("a claim of its own: %q", got)
	}
	claim.DeletionTimestamp = &metav1.Time{Time: noon}
	says(t, d.blocks(pod), "ResourceClaim mine is being deleted")
	d.Unread = "forbidden"
	if got := d.blocks(pod); got != "" {
		t.Errorf("what was not read is said: %q", got)
	}
}

// TestNodesThatCannotTakeAPodAreNotSaidToBeMissing has a pod that asks to be moved with its state, and other nodes that have no
// agent or are cordoned.
func TestNodesThatCannotTakeAPodAreNotSaidToBeMissing(t *testing.T) {
	pod := fixtures.MovablePod("p", "able-a", func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationCheckpoint })
	cordoned := fixtures.AbleNode("able-b")
	cordoned.Spec.Unschedulable = true
	text := textOf(t, clusterOf(t, nil, pod, fixtures.OwnerJob(pod), fixtures.AbleNode("able-a"), cordoned), pod)
	says(t, text, "no other node is ready, accepts pods and has an agent that has reported", "!there is no other node")
}
