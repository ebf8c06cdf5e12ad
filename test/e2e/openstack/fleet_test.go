//go:build openstack

package openstack

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// The pods run for longer than the difference between the starts of their servers.
func TestAFleetGrowsForPodsAndShrinksToNothingWhenTheyEnd(t *testing.T) {
	t.Parallel()
	c := newCluster(newProject(t, 10), table7Prices())
	c.fleet(func(s *v1alpha1.NodeFleetSpec) { s.OpenStack.AvailabilityZones = []string{"roomy"} })
	c.pods("p", 3, "1500m", "1Gi", ends("90s"))
	c.run(3)
	if diff := cmp.Diff(map[string]int{"m3.small": 3}, c.nodes()); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	for _, s := range c.servers() {
		if s.Status != "ACTIVE" || !strings.HasPrefix(s.Name, "batch-") {
			t.Errorf("server %s is %s", s.Name, s.Status)
		}
	}
	c.left(0)
	c.eventually("the nodes go with their servers", func() string { return cmp.Diff(map[string]int{}, c.nodes()) })
	c.event("Released")
	c.has(v1alpha1.FleetReady, metav1.ConditionTrue, "Reconciled")
	c.has(v1alpha1.FleetDegraded, metav1.ConditionFalse, "MachinesReady")
}

func TestAFleetBuysTheNextBestWhenNoHostTakesTheBest(t *testing.T) { // not parallel: it needs the small host
	// The small host takes one of these, and costs less.
	c := newCluster(newProject(t, 10), "m1.medium@small,2,8,0.10\nm1.medium@roomy,2,8,0.1371\n")
	c.fleet(func(s *v1alpha1.NodeFleetSpec) {
		s.OpenStack.Flavors, s.OpenStack.AvailabilityZones = []string{"m1.medium"}, []string{"small", "roomy"}
	})
	c.pods("p", 1, "1500m", "6Gi")
	c.run(1)
	c.pods("q", 2, "1500m", "6Gi")
	c.run(3)
	c.eventually("one server is on the small host, two on the other", func() string {
		zones := map[string]int{}
		for _, s := range c.servers() {
			zones[s.AvailabilityZone+" "+s.Status]++
		}
		return cmp.Diff(map[string]int{"small ACTIVE": 1, "roomy ACTIVE": 2}, zones)
	})
	if note := c.event("MachineAbandoned"); !strings.Contains(note, " of flavor m1.medium@small: No valid host") {
		t.Errorf("the Event says %q", note)
	}
	if text := c.has(v1alpha1.FleetDegraded, metav1.ConditionTrue, "MachinesNotReady"); !strings.Contains(text, "m1.medium@small") {
		t.Errorf("the fleet is degraded for %q", text)
	}
}

func TestAServerThatNeverJoinsIsAbandoned(t *testing.T) {
	t.Parallel()
	c := newCluster(newProject(t, 10), table7Prices())
	c.mute("m3.small")
	c.fleet(func(s *v1alpha1.NodeFleetSpec) {
		s.OpenStack.Flavors = []string{"m3.small"}
		s.Scaling.JoinTimeout = duration("20s")
	})
	c.pods("p", 1, "1500m", "1Gi")
	note := c.event("MachineAbandoned")
	if !strings.Contains(note, " of flavor m3.small: ") || !strings.Contains(note, "no ready node within 20s: server batch-") {
		t.Errorf("the Event says %q", note)
	}
	c.left(0)
	c.has(v1alpha1.FleetDegraded, metav1.ConditionTrue, "MachinesNotReady")
	if diff := cmp.Diff(map[string]int{}, c.nodes()); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

// TestServersAreKnownWithoutProviderIDs has no cloud controller manager, so nodes have no provider IDs. The
// pods run for longer than servers may take to join, which is longer than Nova takes on a busy machine.
func TestServersAreKnownWithoutProviderIDs(t *testing.T) {
	for name, identify := range map[string]func(*corev1.Node, *servers.Server){"by system UUID": bySystemUUID, "by name and address": byNameAndAddress} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(newProject(t, 10), table7Prices())
			c.identifies(identify)
			c.fleet(func(s *v1alpha1.NodeFleetSpec) {
				s.OpenStack.Flavors = []string{"m3.small"}
				s.Scaling.JoinTimeout = duration("60s")
			})
			c.pods("p", 2, "1500m", "1Gi", ends("90s"))
			c.run(2)
			bought := map[string]bool{}
			for _, s := range c.servers() {
				bought[s.ID] = true
			}
			c.left(0) // once the pods have ended
			for _, e := range c.events() {
				if e.Reason == "MachineAbandoned" || e.Reason == "NodesUnidentified" {
					t.Errorf("Event %s: %s", e.Reason, e.Message)
				}
			}
			if len(bought) != 2 {
				t.Errorf("there were %d servers for two pods", len(bought))
			}
			var pods corev1.PodList
			c.try("list pods", c.List(t.Context(), &pods))
			for i := range pods.Items {
				if p := &pods.Items[i]; p.Status.Phase != corev1.PodSucceeded {
					t.Errorf("pod %s is %s, want it to have ended by itself", p.Name, p.Status.Phase)
				}
			}
			c.eventually("the nodes go with their servers", func() string { return cmp.Diff(map[string]int{}, c.nodes()) })
		})
	}
}

func TestAServerWhoseNodeSaysNothingIsKept(t *testing.T) {
	t.Parallel()
	c := newCluster(newProject(t, 10), table7Prices())
	c.identifies(byNothing)
	c.fleet(func(s *v1alpha1.NodeFleetSpec) {
		s.OpenStack.Flavors = []string{"m3.small"}
		s.Scaling.JoinTimeout = duration("60s")
	})
	c.pods("p", 1, "1500m", "1Gi")
	c.run(1)
	c.has(v1alpha1.FleetDegraded, metav1.ConditionTrue, "NodesUnidentified")
	all := c.servers()
	if len(all) != 1 {
		t.Fatalf("there are %d servers, want 1", len(all))
	}
	if note := c.event("NodesUnidentified"); !strings.Contains(note, "node-"+all[0].ID[:8]) || !strings.Contains(note, "openstack:///"+all[0].ID) {
		t.Errorf("the Event says %q", note)
	}
	node := &corev1.Node{}
	c.try("read the node", c.Get(t.Context(), client.ObjectKey{Name: "node-" + all[0].ID[:8]}, node))
	before := node.DeepCopy()
	byProviderID(node, &all[0])
	c.try("identify the node", c.Patch(t.Context(), node, client.MergeFrom(before)))
	c.has(v1alpha1.FleetDegraded, metav1.ConditionFalse, "MachinesReady")
	c.run(1)
}

func TestAFleetContinuesWhenItsQuotaIsRaised(t *testing.T) {
	t.Parallel()
	c := newCluster(newProject(t, 1), table7Prices())
	c.fleet(func(s *v1alpha1.NodeFleetSpec) { s.OpenStack.Flavors = []string{"m3.small"} })
	c.pods("p", 2, "1500m", "1Gi")
	c.run(1)
	text := c.has(v1alpha1.FleetLimited, metav1.ConditionTrue, "LimitReached")
	if !strings.Contains(text, "limit of the cloud project on machines") {
		t.Errorf("the fleet is limited by %q", text)
	}
	c.event("LimitReached")
	if n := len(c.servers()); n != 1 {
		t.Errorf("there are %d servers, want 1", n)
	}
	c.setQuota(2)
	c.run(2)
	c.has(v1alpha1.FleetLimited, metav1.ConditionFalse, "WithinLimits")
}

func TestAFleetSaysWhatToPutRightAndContinuesWhenItIs(t *testing.T) {
	t.Parallel()
	c := newCluster(newProject(t, 5), table7Prices())
	const wrong = "hush-this-is-not-it"
	c.credentials(wrong)
	c.fleet(func(s *v1alpha1.NodeFleetSpec) { s.OpenStack.Flavors = []string{"m3.small", "m9.huge"} })
	c.pods("p", 1, "1500m", "1Gi")
	for _, kind := range []struct {
		name   string
		status metav1.ConditionStatus
	}{{v1alpha1.FleetReady, metav1.ConditionFalse}, {v1alpha1.FleetDegraded, metav1.ConditionTrue}} {
		text := c.has(kind.name, kind.status, "CredentialsRefused")
		if !strings.Contains(text, "Secret "+home+"/cloud") || !strings.Contains(text, "Correct them") {
			t.Errorf("condition %s says %q", kind.name, text)
		}
	}
	c.event("CredentialsRefused")

	c.credentials(userPassword)
	c.run(1) // on the remaining flavor
	text := c.has(v1alpha1.FleetDegraded, metav1.ConditionTrue, "FlavorsUnavailable")
	if !strings.Contains(text, `the project has access to no flavor "m9.huge"`) {
		t.Errorf("the fleet is degraded for %q", text)
	}
	c.has(v1alpha1.FleetReady, metav1.ConditionTrue, "Reconciled")
	if note := c.event("FlavorsUnavailable"); !strings.Contains(note, "correct the name") {
		t.Errorf("the Event says %q", note)
	}

	c.change(func(s *v1alpha1.NodeFleetSpec) { s.OpenStack.Flavors = []string{"m3.small"} })
	c.has(v1alpha1.FleetDegraded, metav1.ConditionFalse, "MachinesReady")
}

// table7Prices returns the prices of all flavors.
func table7Prices() string {
	var text strings.Builder
	for _, f := range table7 {
		fmt.Fprintf(&text, "%s,%d,%d,%s\n", f.name, f.cpus, f.gib, f.price)
	}
	return text.String()
}

// ends makes a pod end by itself after a runtime.
func ends(runtime string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations = map[string]string{v1alpha1.AnnotationRuntime: runtime}
		p.Labels = map[string]string{v1alpha1.LabelClass: "batch"}
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
}

// nodes returns the number of nodes of each flavor.
func (c *cluster) nodes() map[string]int {
	c.Helper()
	found := map[string]int{}
	var all corev1.NodeList
	c.try("list nodes", c.List(c.Context(), &all))
	for i := range all.Items {
		found[all.Items[i].Labels[v1alpha1.LabelMachineType]]++
	}
	return found
}

// run waits until the wanted number of pods are running or have ended.
func (c *cluster) run(want int) {
	c.Helper()
	c.eventually(fmt.Sprintf("%d pods run", want), func() string {
		var all corev1.PodList
		c.try("list pods", c.List(c.Context(), &all))
		n := 0
		for i := range all.Items {
			if slices.Contains([]corev1.PodPhase{corev1.PodRunning, corev1.PodSucceeded}, all.Items[i].Status.Phase) {
				n++
			}
		}
		if n != want {
			return fmt.Sprintf("%d do", n)
		}
		return ""
	})
}
