package nodeclaims

import (
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// While the NodeClass is not ready, machines are released and none is bought.
func TestAFleetBuysNothingWhileItsNodeClassIsNotReady(t *testing.T) {
	t.Parallel()
	b := newBench(t, "unready")
	b.install()
	class := b.class()
	b.karpenter()
	b.prices("small,2,4,0.10")
	ever := b.claimsEver()
	b.fleet()
	b.autoscale()
	b.pods("p", 1, "1900m", "1Gi")
	b.Runs(1)

	b.ready(class, metav1.ConditionFalse)
	if says := b.has(v1alpha1.FleetDegraded, metav1.ConditionTrue, v1alpha1.FleetReasonFlavorsUnavailable); !strings.Contains(says, "KWOKNodeClass unready is not ready: the network is missing") {
		t.Errorf("Degraded says %q", says)
	}
	b.removePods()
	b.becomes(map[string]int{})
	b.pods("q", 1, "1900m", "1Gi")
	b.wait(1)
	b.says("there are no flavors to buy") // it has decided about the pod
	if names := ever(); len(names) != 1 {
		t.Errorf("NodeClaims %q were created, want one", names)
	}
	b.ready(class, metav1.ConditionTrue)
	b.Runs(1)
	b.has(v1alpha1.FleetDegraded, metav1.ConditionFalse, v1alpha1.FleetReasonMachinesReady)
	b.removePods()
	b.becomes(map[string]int{})
}

// Karpenter deletes a NodeClaim whose NodeClass is no longer ready, without an Event.
func TestAFleetSaysWhichNodeClassWasNotReadyForItsNodeClaim(t *testing.T) {
	b := newBench(t, "notready")
	b.install()
	class := b.class()
	o := b.ownKarpenter()
	b.prices("small,2,4,0.10", "dear,2,4,0.11")
	ever := b.claimsEver()
	b.fleet()
	b.autoscale()
	b.pods("p", 1, "1900m", "1Gi")
	b.orders("small")
	b.ready(class, metav1.ConditionFalse)
	b.runs(o)
	b.HasEvent("NodeFleet", b.Space, v1alpha1.FleetReasonMachineAbandoned, "KWOKNodeClass notready is not ready: the network is missing")
	b.has(v1alpha1.FleetDegraded, metav1.ConditionTrue, v1alpha1.FleetReasonFlavorsUnavailable)
	b.ready(class, metav1.ConditionTrue)
	b.Runs(1)
	b.becomes(map[string]int{"dear": 1}) // the other one is in back-off
	if names := ever(); len(names) != 2 {
		t.Errorf("NodeClaims %q were created, want two", names)
	}
	b.removePods()
	b.becomes(map[string]int{})
}

// The reference is to the NodeClass of a cloud whose provider is not installed.
func TestAFleetBuysNothingForANodeClassOfAnUnknownCloud(t *testing.T) {
	t.Parallel()
	b := newBench(t, "unknown")
	b.install()
	b.class()
	b.karpenter()
	b.prices("small,2,4,0.10")
	ever := b.claimsEver()
	known := v1alpha1.KarpenterNodeClass{}
	b.fleet(func(s *v1alpha1.NodeFleetSpec) {
		known = s.Karpenter.NodeClassRef
		s.Karpenter.NodeClassRef = v1alpha1.KarpenterNodeClass{Group: "karpenter.k8s.gcp", Kind: "GCENodeClass", Name: "default"}
	})
	b.autoscale()
	b.pods("p", 1, "1900m", "1Gi")

	const says = "the cluster has no kind GCENodeClass of group karpenter.k8s.gcp: install the provider of Karpenter that it belongs to, or correct the reference"
	if text := b.has(v1alpha1.FleetDegraded, metav1.ConditionTrue, v1alpha1.FleetReasonFlavorsUnavailable); !strings.Contains(text, says) {
		t.Errorf("Degraded says %q", text)
	}
	b.wait(1)
	b.says("there are no flavors to buy")
	if names := ever(); len(names) != 0 {
		t.Errorf("NodeClaims %q were created, want none", names)
	}
	b.change(func(s *v1alpha1.NodeFleetSpec) { s.Karpenter.NodeClassRef = known })
	b.Runs(1)
	b.removePods()
	b.becomes(map[string]int{})
}

// The kind of the NodeClass is installed, and Karpenter is that of another cloud: it leaves the NodeClaim untouched. When
// the reference is corrected, the fleet continues at once, and removes the NodeClaim that will never be a machine.
func TestAFleetWaitsWhenKarpenterIsOfAnotherCloudThanItsNodeClass(t *testing.T) {
	t.Parallel()
	b := newBench(t, "foreign")
	b.install()
	aws := providers[1]
	b.install(b.packed(filepath.Join("../../data/karpenter", aws.folder, "nodeclasses.yaml.gz"))...)
	foreign := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(aws.class, "\t", " ")), &foreign.Object); err != nil {
		t.Fatal(err)
	}
	b.Make(foreign)
	b.class()
	b.karpenter()
	b.prices("small,2,4,0.10")
	ever := b.claimsEver()
	known := v1alpha1.KarpenterNodeClass{}
	b.fleet(func(s *v1alpha1.NodeFleetSpec) {
		known = s.Karpenter.NodeClassRef
		kind := foreign.GroupVersionKind()
		s.Karpenter.NodeClassRef = v1alpha1.KarpenterNodeClass{Group: kind.Group, Kind: kind.Kind, Name: foreign.GetName()}
		s.Scaling.JoinTimeout = seconds(3600)
	})
	b.autoscale()
	b.pods("p", 1, "1900m", "1Gi")
	b.orders("small")
	if says := b.has(v1alpha1.FleetReady, metav1.ConditionFalse, v1alpha1.FleetReasonProviderUnreachable); !strings.Contains(says, "check that it runs, and that its cloud provider has NodeClasses of kind EC2NodeClass.karpenter.k8s.aws") {
		t.Errorf("Ready says %q", says)
	}
	if n := len(b.nodeClaims()); n != 1 {
		t.Errorf("%d NodeClaims while the fleet waits, want one", n)
	}
	b.change(func(s *v1alpha1.NodeFleetSpec) { s.Karpenter.NodeClassRef = known })
	b.Runs(1)
	b.becomes(map[string]int{"small": 1})
	if names := ever(); len(names) != 2 {
		t.Errorf("NodeClaims %q were created, want two", names)
	}
	b.removePods()
	b.becomes(map[string]int{})
}

// A price in a zone is used there, and is none for machines whose zone the cloud chooses.
func TestAFleetSaysThatAPriceIsOnlyThatOfAZone(t *testing.T) {
	t.Parallel()
	b := newBench(t, "zoned")
	b.install()
	b.class()
	b.karpenter()
	b.prices("small@a,2,4,0.10")
	ever := b.claimsEver()
	var zone []v1alpha1.KarpenterRequirement
	b.fleet(func(s *v1alpha1.NodeFleetSpec) { zone, s.Karpenter.Requirements = s.Karpenter.Requirements, nil })
	b.autoscale()
	b.pods("p", 1, "1900m", "1Gi")
	const says = "no price is known for small, so none is bought: add it to the catalogue that spec.pricing.catalogue names. " +
		"small@a has a price in its zone: to buy there, require the zone in spec.karpenter.requirements"
	for _, kind := range []string{v1alpha1.FleetPriced, v1alpha1.FleetReady} {
		if text := b.has(kind, metav1.ConditionFalse, v1alpha1.FleetReasonPriceUnknown); text != says {
			t.Errorf("%s says %q", kind, text)
		}
	}
	if names := ever(); len(names) != 0 {
		t.Errorf("NodeClaims %q were created, want none", names)
	}
	b.change(func(s *v1alpha1.NodeFleetSpec) { s.Karpenter.Requirements = zone })
	b.Runs(1)
	b.has(v1alpha1.FleetPriced, metav1.ConditionTrue, v1alpha1.FleetReasonPricesKnown)
	if zone := b.Nodes()[0].Labels["topology.kubernetes.io/zone"]; zone != "a" {
		t.Errorf("the machine is in zone %q, want a", zone)
	}
	b.removePods()
	b.becomes(map[string]int{})
}

// change changes the spec of the fleet.
func (b *bench) change(change func(*v1alpha1.NodeFleetSpec)) {
	b.Helper()
	var f v1alpha1.NodeFleet
	testapi.Get(b, b, types.NamespacedName{Name: b.Space}, &f)
	before := f.DeepCopy()
	change(&f.Spec)
	testapi.Patch(b, b, &f, client.MergeFrom(before))
}

// says waits for an Event of the fleet about a pod for which it has no machine.
func (b *bench) says(text string) {
	b.Helper()
	b.HasEvent("NodeFleet", b.Space, v1alpha1.FleetReasonNoMachineFits, text)
}
