package cli

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit/testapi"
	"supercargo.dev/supercargo/test/kit/testwait"
)

const (
	lot   = "lot"   // the namespace of the pods
	tight = "tight" // a namespace whose quota allows no pods
)

// waitingPod is a pod that does not run, and what is said about it: each text of says is part of the explanation, and
// those that begin with "!" are not.
type waitingPod struct {
	name   string
	change func(*corev1.PodSpec)
	says   []string
}

// accepts is said of nodes on which a scheduler would place a pod.
const accepts = "would accept it now"

func labelled(key, value string) map[string]string { return map[string]string{key: value} }

// at selects the nodes of a pool.
func at(pool string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { s.NodeSelector = labelled("pool", pool) }
}

// asks sets a request.
func asks(name corev1.ResourceName, amount string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Containers[0].Resources.Requests = corev1.ResourceList{name: resource.MustParse(amount)}
		if strings.Contains(string(name), "/") {
			s.Containers[0].Resources.Limits = s.Containers[0].Resources.Requests
		}
	}
}

// mounts adds a volume claim.
func mounts(claim string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
	}
}

// devices adds a resource claim.
func devices(use corev1.PodResourceClaim) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { use.Name = "d"; s.ResourceClaims = []corev1.PodResourceClaim{use} }
}

func both(changes ...func(*corev1.PodSpec)) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		for _, c := range changes {
			c(s)
		}
	}
}

func port(s *corev1.PodSpec) {
	s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
}

// beside adds pod affinity, and apart pod anti-affinity, to pods of an app on the same node.
func beside(app string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(app)}}
	}
}

func apart(app string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(app)}}
	}
}

func terms(app string) []corev1.PodAffinityTerm {
	return []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: labelled("app", app)}}}
}

// spread adds a topology spread constraint over pods of an app.
func spread(app, key string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: labelled("app", app)},
		}}
	}
}

// affine requires a label of the node.
func affine(key, value string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}}},
		}}}
	}
}

// lotPods are pods that do not run, one for each reason.
func lotPods() []waitingPod {
	missing, mine, unclassed := "absent", "device", "unclassed"
	return []waitingPod{
		{"cpu", asks("cpu", "64"), []string{
			"2  Insufficient cpu: one, preempted", "It requests 64 CPUs; of the 3 nodes with too little free, full has the most free: 4 of 4.",
			`What helps against "Insufficient cpu": lower requests`, "!" + accepts,
		}},
		{"memory", asks("memory", "900Gi"), []string{"Insufficient memory", "It requests 900 GiB of memory; of the 3 nodes with too little free, ", "!" + accepts}},
		{"disk", asks("ephemeral-storage", "900Gi"), []string{"Insufficient ephemeral-storage", "!" + accepts}},
		{"gpu", asks("example.com/gpu", "1"), []string{"Insufficient example.com/gpu", "!" + accepts}},
		{"selector", func(s *corev1.PodSpec) { s.NodeSelector = labelled("disk", "fast") }, []string{"node selector disk=fast", `What helps against "node(s) didn't match Pod's node affinity/selector": a node with the labels`, "!" + accepts}},
		{"affinity", affine("pool", "none"), []string{"node affinity pool in (none)", "!" + accepts}},
		{"taint", at("db"), []string{"untolerated taint dedicated=db:NoSchedule", "a toleration in the pod", "!" + accepts}},
		{"cordon", at("old"), []string{"unschedulable: old", "kubectl uncordon, if nobody drains the node", "!" + accepts}},
		{"class", at("batch"), []string{"accepts only batch pods", "!" + accepts}},
		{"full", at("full"), []string{"Too many pods", "nodes with free pod slots", "!" + accepts}},
		{"port", both(at("one"), port), []string{"host port", "another hostPort", "!" + accepts}},
		{"alone", beside("nobody"), []string{"pod affinity on kubernetes.io/hostname", "!" + accepts}},
		{"crowd", both(at("one"), apart("web")), []string{"pod anti-affinity on kubernetes.io/hostname", "!" + accepts}},
		{"skew", both(at("one"), spread("web", "slot")), []string{"topology spread needs label slot", "the topology key of the constraint as label of nodes", "!" + accepts}},

		{"claim", mounts(missing), []string{"volume claim absent does not exist", "!" + accepts}},
		{"classless", mounts("classless"), []string{"volume claim classless is not bound and names no StorageClass", "!" + accepts}},
		{"typo", mounts("typo"), []string{"its StorageClass typo does not exist", "!" + accepts}},
		{"now", mounts("now"), []string{"provisioner example.com/disks of StorageClass now must create its volume first", "!" + accepts}},
		{"late", both(at("one"), mounts("late")), []string{"node one, for which provisioner example.com/disks is to create the volume of claim late first", "!lower priority", "!" + accepts}},
		{"lost", mounts("lost"), []string{"volume claim lost is bound to volume gone, which does not exist", "!" + accepts}},
		{"zone", mounts("zone"), []string{"volume zone of claim zone is in another zone (its labels)", "!" + accepts}},
		{"tied", both(at("one"), mounts("tied")), []string{"volume tied of claim tied cannot be used there (its node affinity)", "!" + accepts}},
		{"local", mounts("local"), []string{"no free volume there for claim local", "!" + accepts}},
		{"nowhere", mounts("nowhere"), []string{"StorageClass nowhere creates no volumes there (allowedTopologies)", "!" + accepts}},
		{"second", mounts("sole"), []string{"volume claim sole has access mode ReadWriteOncePod, and pod lot/first uses it", "!" + accepts}},
		{"many", both(at("one"), mounts("disk-b")), []string{"node(s) exceed max volume count", "1 volume of CSI driver disks.example.com can be attached there, the pods there have 1, and this one has 1 more", "!its scheduler also checks", "!" + accepts}},
		{"ephemeral", func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "own", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claimSpec("now")}}}}}
		}, []string{"volume claim ephemeral-own exists but was not created for the pod's ephemeral volume", "!" + accepts}},

		{"device", devices(corev1.PodResourceClaim{ResourceClaimName: &missing}), []string{"ResourceClaim absent does not exist", "!" + accepts}},
		{"template", devices(corev1.PodResourceClaim{ResourceClaimTemplateName: &missing}), []string{"ResourceClaimTemplate absent does not exist", "!" + accepts}},
		{"unclassed", devices(corev1.PodResourceClaim{ResourceClaimName: &unclassed}), []string{"DeviceClass absent.example.com, which ResourceClaim unclassed requests, does not exist", "!" + accepts}},
		{"undriven", devices(corev1.PodResourceClaim{ResourceClaimName: &mine}), []string{"cannot allocate all claims", "its scheduler also checks the devices of nodes", "kubectl get resourceslices", "!" + accepts}},

		{"gated", func(s *corev1.PodSpec) { s.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}} }, []string{
			"no scheduler handles it before these scheduling gates are removed", "example.com/quota", "NodeFleet all", "!There is no NodeFleet", "!" + accepts,
		}},
		{"unserved", func(s *corev1.PodSpec) { s.SchedulerName = "nobody" }, []string{"scheduler nobody has not reported on it", "no other pod has this schedulerName", "!" + accepts}},
		{"ghost", func(s *corev1.PodSpec) { s.NodeName = "ghost" }, []string{"created with spec.nodeName ghost: no scheduler handles it", "node ghost does not exist", "!bound it"}},
		{"named", func(s *corev1.PodSpec) { s.NodeName = "one" }, []string{"created with spec.nodeName one: no scheduler handles it", "!bound it", "!does not exist"}},
		{"important", both(at("preempted"), asks("cpu", "3"), func(s *corev1.PodSpec) { s.PriorityClassName = "high" }), []string{
			"It is nominated to node preempted: pods of lower priority leave it to make room: lot/victim",
		}},
	}
}

func claimSpec(class string) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}
}

// stores are the claims, volumes and classes that the pods need.
func stores() (all []client.Object) {
	claim := func(name, class string, change ...func(*corev1.PersistentVolumeClaim)) {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: lot, Name: name}, Spec: claimSpec(class)}
		for _, f := range change {
			f(c)
		}
		all = append(all, c)
	}
	// bound makes a claim and a volume that are bound to each other. With a volume that is gone it only makes the claim.
	bound := func(name, volume string, exists bool, modes corev1.PersistentVolumeAccessMode, change func(*corev1.PersistentVolume)) {
		claim(name, "", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.VolumeName, c.Spec.AccessModes = volume, []corev1.PersistentVolumeAccessMode{modes}
			if !exists {
				c.Annotations = labelled("pv.kubernetes.io/bind-completed", "yes")
			}
		})
		if !exists {
			return
		}
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume}}
		v.Spec.Capacity, v.Spec.AccessModes = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, []corev1.PersistentVolumeAccessMode{modes}
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: lot, Name: name}
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "disks.example.com", VolumeHandle: volume}
		change(v)
		all = append(all, v)
	}
	storageClass := func(name, provisioner string, mode storagev1.VolumeBindingMode, zones ...string) {
		c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
		if len(zones) > 0 {
			c.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelTopologyZone, Values: zones}}}}
		}
		all = append(all, c)
	}
	storageClass("now", "example.com/disks", storagev1.VolumeBindingImmediate)
	storageClass("late", "example.com/disks", storagev1.VolumeBindingWaitForFirstConsumer)
	storageClass("nowhere", "example.com/disks", storagev1.VolumeBindingWaitForFirstConsumer, "moon")
	storageClass("local", "kubernetes.io/no-provisioner", storagev1.VolumeBindingWaitForFirstConsumer)
	for _, name := range []string{"now", "late", "nowhere", "local", "typo"} {
		claim(name, name)
	}
	claim("classless", "")
	claim("ephemeral-own", "now")
	plain := func(*corev1.PersistentVolume) {}
	bound("lost", "gone", false, corev1.ReadWriteOnce, plain)
	bound("zone", "zone", true, corev1.ReadWriteOnce, func(v *corev1.PersistentVolume) { v.Labels = labelled(corev1.LabelTopologyZone, "moon") })
	bound("tied", "tied", true, corev1.ReadWriteOnce, func(v *corev1.PersistentVolume) {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "pool", Operator: corev1.NodeSelectorOpIn, Values: []string{"none"}}},
		}}}}
	})
	bound("sole", "sole", true, corev1.ReadWriteOncePod, plain)
	bound("disk-a", "disk-a", true, corev1.ReadWriteOnce, plain)
	bound("disk-b", "disk-b", true, corev1.ReadWriteOnce, plain)
	device := func(name, class string) {
		c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: lot, Name: name}}
		c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class}}}
		all = append(all, c)
	}
	device("device", "gpu.example.com")
	device("unclassed", "absent.example.com")
	return append(all, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu.example.com"}})
}

// podOf returns a pod without priority, of an app of its name.
func podOf(name string, change func(*corev1.PodSpec), app string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: lot, Name: name, Labels: labelled("app", app)}}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "none"}}
	p.Spec.TerminationGracePeriodSeconds = new(int64(600))
	change(&p.Spec)
	return p
}

// TestEachPodThatDoesNotRunIsToldWhy holds what is said of pods of all reasons against a real control plane, on which no
// kubelet runs.
func TestEachPodThatDoesNotRunIsToldWhy(t *testing.T) {
	node := func(pool string, change ...func(*playground.NodeSpec)) playground.NodeSpec {
		n := playground.NodeSpec{Name: pool, CPU: "4", Memory: "8Gi", Labels: map[string]string{"pool": pool, corev1.LabelTopologyZone: "earth"}}
		for _, f := range change {
			f(&n)
		}
		return n
	}
	s := siteWith(t, playground.Options{NoKwok: true, Nodes: []playground.NodeSpec{
		node("one"), node("old"), node("preempted"), node("full", func(n *playground.NodeSpec) { n.Pods = 1 }),
		node("db", func(n *playground.NodeSpec) {
			n.Taints = []corev1.Taint{{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}}
		}),
		node("batch", func(n *playground.NodeSpec) { n.Labels[v1alpha1.LabelClass] = "batch" }),
	}})
	var old corev1.Node
	testapi.Get(t, s.Client, client.ObjectKey{Name: "old"}, &old)
	old.Spec.Unschedulable = true
	if err := s.Client.Update(t.Context(), &old); err != nil {
		t.Fatal(err)
	}
	fleet := &v1alpha1.NodeFleet{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: quick()}
	fleet.Spec.ClusterAPI = &v1alpha1.ClusterAPIFlavors{Namespace: "default", Selector: &metav1.LabelSelector{}}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: tight, Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}}
	for _, name := range []string{lot, tight} {
		create(t, s.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		testwait.Until(t, patience, "pods can be made in "+name, func() string {
			if err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{}); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	create(t, s.Client, fleet, quota, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000})
	create(t, s.Client, stores()...)
	create(t, s.Client, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
		{Name: "disks.example.com", NodeID: "one", Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(1))}},
	}}})
	// These have nodes, so that others have none.
	placed := []*corev1.Pod{
		podOf("full-up", at("full"), "x"), podOf("porter", both(at("one"), port), "x"), podOf("web", at("one"), "web"), podOf("victim", both(at("preempted"), asks("cpu", "3")), "x"),
		podOf("first", both(at("preempted"), mounts("sole")), "x"), podOf("mounter", both(at("one"), mounts("disk-a")), "x"),
	}
	for _, p := range placed {
		create(t, s.Client, p)
	}
	for _, p := range placed {
		testwait.Until(t, patience, "pod "+p.Name+" has a node", func() string {
			var now corev1.Pod
			testapi.Get(t, s.Client, client.ObjectKeyFromObject(p), &now)
			if now.Spec.NodeName == "" {
				return fmt.Sprint(now.Status.Conditions)
			}
			return ""
		})
	}
	pods := lotPods()
	for i := range pods {
		create(t, s.Client, podOf(pods[i].name, pods[i].change, "x"))
	}
	refused := deployment("web", 1, "1")
	refused.Namespace = tight
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: tight, Name: "load"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}}}
	create(t, s.Client, refused, job)
	kubeconfig := s.KubeconfigPath()
	t.Run("a pod of a DaemonSet", func(t *testing.T) { ofADaemonSet(t, s.Client, kubeconfig) })
	for _, p := range pods {
		t.Run(p.name, func(t *testing.T) { told(t, kubeconfig, p) })
	}
	t.Run("a pod on a node that does not exist", func(t *testing.T) {
		create(t, s.Client, podOf("orphan", func(s *corev1.PodSpec) { s.NodeName = "gone" }, "x"))
		listed := regexp.MustCompile("\nPods on a node that does not exist: no kubelet runs them, and kube-controller-manager deletes such pods\\.\n" +
			`POD +NODE +STATUS\n(lot/.*\n)*lot/orphan +gone +`) // besides it there may be a pod of an earlier case
		testwait.Until(t, patience, "it is listed", func() string {
			code, out, stderr := supercargo("explain", "pods", "-n", lot, "--kubeconfig", kubeconfig)
			if code != exitOK || !listed.MatchString(out) {
				return out + stderr
			}
			return ""
		})
	})
	t.Run("a fleet on which no autoscaler has reported", func(t *testing.T) {
		const want = "NodeFleet all, class Any, mode Act\nThe autoscaler has not reported on it yet. Check that it is running.\n"
		if code, out, stderr := supercargo("explain", "nodefleet/all", "--kubeconfig", kubeconfig); code != exitOK || out != want {
			t.Errorf("exit code %d:\n%s%s", code, out, stderr)
		}
	})
	t.Run("pods that are never created", func(t *testing.T) { neverCreated(t, kubeconfig) })
	t.Run("a list of another namespace", func(t *testing.T) {
		if code, out, _ := supercargo("explain", "pods", "-n", "default", "--kubeconfig", kubeconfig); code != exitOK || !strings.Contains(out, "No pod without a node in namespace default. Pods without a node in other namespaces: ") {
			t.Errorf("exit code %d:\n%s", code, out)
		}
	})
}

// ofADaemonSet has a DaemonSet whose pod does not fit on the only node that it is for.
func ofADaemonSet(t *testing.T, c client.Client, kubeconfig string) {
	t.Helper()
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: lot, Name: "agent"}, Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labelled("app", "agent")}}}
	set.Spec.Template.Labels, set.Spec.Template.Spec = labelled("app", "agent"), podOf("agent", both(at("one"), asks("cpu", "5")), "agent").Spec
	create(t, c, set)
	var pods corev1.PodList
	testwait.Until(t, patience, "its pod is there", func() string {
		if err := c.List(t.Context(), &pods, client.InNamespace(lot), client.MatchingLabels{"app": "agent"}); err != nil {
			return err.Error()
		}
		if len(pods.Items) != 1 {
			return fmt.Sprint(len(pods.Items), " pods")
		}
		return ""
	})
	name := pods.Items[0].Name
	told(t, kubeconfig, waitingPod{name, nil, []string{
		`What helps against "Insufficient cpu": fewer other pods on its node, a higher priority than theirs (priorityClassName in the DaemonSet), or lower requests in the DaemonSet.`,
		"Its DaemonSet made it for one node, and it can run on no other. That node now:\n     1  Insufficient cpu: one\n  It requests 5 CPUs; node one has 4 of 4 free.\n",
		"!metadata.name", "!larger nodes",
	}})
	if code, out, stderr := supercargo("explain", "pods", "-n", lot, "--kubeconfig", kubeconfig); code != exitOK || !strings.Contains(out, "Node one has too little free CPU") {
		t.Errorf("exit code %d:\n%s%s", code, out, stderr)
	}
}

// told waits until the explanation of a pod has all the texts, and checks that it lacks the others.
func told(t *testing.T, kubeconfig string, p waitingPod) {
	t.Helper()
	var out string
	testwait.Until(t, patience, "pod "+p.name+" is explained", func() string {
		code, stdout, stderr := supercargo("explain", "pod", p.name, "-n", lot, "--kubeconfig", kubeconfig)
		if code != exitOK {
			return stderr
		}
		out = stdout
		for _, want := range p.says {
			if !strings.HasPrefix(want, "!") && !strings.Contains(out, want) {
				return fmt.Sprintf("want %q in\n%s", want, out)
			}
		}
		return ""
	})
	for _, want := range p.says {
		if wrong, is := strings.CutPrefix(want, "!"); is && strings.Contains(out, wrong) {
			t.Errorf("it says %q:\n%s", wrong, out)
		}
	}
}

// neverCreated checks what is said of controllers whose pods a quota refuses.
func neverCreated(t *testing.T, kubeconfig string) {
	t.Helper()
	testwait.Until(t, patience, "both controllers are listed", func() string {
		code, out, stderr := supercargo("explain", "pods", "-n", tight, "--kubeconfig", kubeconfig)
		for _, want := range []string{"ReplicaSet tight/web-", "Job tight/load", "exceeded quota: none"} {
			if code != exitOK || !strings.Contains(out, want) {
				return fmt.Sprintf("want %q in\n%s%s", want, out, stderr)
			}
		}
		return ""
	})
	if code, _, stderr := supercargo("explain", "pod", "load-x7k2p", "-n", tight, "--kubeconfig", kubeconfig); code != exitFailed || !strings.Contains(stderr, "Job tight/load could not create a pod at") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
