package nodeclaims

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/autoscaler/provider/karpenter"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/lab/playground"
)

// cloud is a provider of Karpenter, with a NodeClass that it accepts and a requirement on a label of its own.
type cloud struct {
	folder, class, instanceType, zone string
	own                               v1alpha1.KarpenterRequirement
	// restricted is a label that its definition of NodeClaims rejects; empty if it rejects none of its own.
	restricted string
}

var providers = []cloud{ // first the one whose definition cannot be told from that before
	{"google", `{apiVersion: karpenter.k8s.gcp/v1alpha1, kind: GCENodeClass, metadata: {name: default}, spec: {
		imageSelectorTerms: [{alias: ContainerOptimizedOS@latest}], disks: [{category: pd-balanced, sizeGiB: 60, boot: true}]}}`,
		"n4-standard-2", "us-central1-a", requirement("karpenter.k8s.gcp/instance-family", corev1.NodeSelectorOpIn, "n4"), ""},
	{"aws", `{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: default}, spec: {
		role: nodes, amiSelectorTerms: [{alias: al2023@latest}], subnetSelectorTerms: [{tags: {a: b}}], securityGroupSelectorTerms: [{tags: {a: b}}]}}`,
		"m7i.large", "us-east-1a", requirement("karpenter.k8s.aws/instance-generation", corev1.NodeSelectorOpGt, "6"), "karpenter.k8s.aws/none"},
	{"azure", `{apiVersion: karpenter.azure.com/v1beta1, kind: AKSNodeClass, metadata: {name: default}, spec: {}}`,
		"Standard_D2s_v5", "eastus-1", requirement("karpenter.azure.com/sku-family", corev1.NodeSelectorOpIn, "D"), "karpenter.azure.com/none"},
}

func requirement(key string, operator corev1.NodeSelectorOperator, values ...string) v1alpha1.KarpenterRequirement {
	return v1alpha1.KarpenterRequirement{Key: key, Operator: operator, Values: values}
}

// The API server has the definitions that each provider publishes.
func TestTheDefinitionsOfEachProviderAcceptWhatAFleetWrites(t *testing.T) {
	t.Parallel()
	b := &bench{defined.Bench(t, "clouds")}
	for _, c := range providers {
		for _, kind := range []string{"nodeclaims", "nodeclasses"} {
			b.install(b.packed(filepath.Join("../../data/karpenter", c.folder, kind+".yaml.gz"))...)
		}
		class := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(strings.ReplaceAll(c.class, "\t", " ")), &class.Object); err != nil {
			t.Fatal(err)
		}
		f := c.fleet(class)
		claims := &karpenter.Claims{Live: b, Writer: b, Mapper: b.RESTMapper(), Clock: clock.RealClock{}}
		observe := func() (*karpenter.Provider, *provider.Inventory) {
			p := claims.For(f, nil, func(context.Context) ([]catalogue.Flavor, error) {
				return catalogue.ReadFlavors("prices", strings.NewReader("name,cpu,memory_gib,price_per_hour\n"+c.instanceType+",2,8,0.1\n"))
			})
			found, err := p.Observe(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", c.folder, err)
			}
			return p, found
		}
		if _, found := observe(); !strings.Contains(found.Flavors[0].Problem, class.GetKind()+" default does not exist") {
			t.Errorf("%s: without a NodeClass, the flavor is %+v", c.folder, found.Flavors[0])
		}
		b.Make(class)
		b.ready(class, metav1.ConditionFalse)
		if _, found := observe(); !strings.HasSuffix(found.Flavors[0].Problem, "is not ready: the network is missing") {
			t.Errorf("%s: without a network, the flavor is %+v", c.folder, found.Flavors[0])
		}
		c.buys(b, f, observe)
	}
}

// buys has a fleet create a NodeClaim and compares it. Then it has the API server reject another.
func (c *cloud) buys(b *bench, f *v1alpha1.NodeFleet, observe func() (*karpenter.Provider, *provider.Inventory)) {
	b.Helper()
	p, found := observe()
	name := found.Flavors[0].Name
	if err := p.Buy(b.Context(), "order", name, 0, 1); err != nil {
		b.Fatalf("%s: %v", c.folder, err)
	}
	made := b.nodeClaims()
	if len(made) != 1 {
		b.Fatalf("%s: %d NodeClaims", c.folder, len(made))
	}
	in := func(key, value string) any {
		return map[string]any{"key": key, "operator": "In", "values": []any{value}}
	}
	own := map[string]any{"key": c.own.Key, "operator": string(c.own.Operator), "values": []any{c.own.Values[0]}}
	want := map[string]any{
		"nodeClassRef": map[string]any{"group": f.Spec.Karpenter.NodeClassRef.Group, "kind": f.Spec.Karpenter.NodeClassRef.Kind, "name": "default"},
		"requirements": []any{
			in(corev1.LabelInstanceTypeStable, c.instanceType), in(corev1.LabelTopologyZone, c.zone), in("karpenter.sh/capacity-type", "spot"),
			in(corev1.LabelArchStable, "amd64"), in(corev1.LabelOSStable, "linux"), own,
		},
		"taints":        []any{map[string]any{"key": "batch", "effect": "NoSchedule", "value": "true"}},
		"startupTaints": []any{map[string]any{"key": "starting", "effect": "NoExecute"}},
		"expireAfter":   "720h", "terminationGracePeriod": "1h0m0s",
	}
	if diff := cmp.Diff(want, made[0].Object["spec"]); diff != "" {
		b.Errorf("%s: the NodeClaim (-want +got):\n%s", c.folder, diff)
	}
	if _, found := observe(); len(found.Machines) != 1 || found.Machines[0].Outdated {
		b.Errorf("%s: machines %+v, want one of the template", c.folder, found.Machines)
	}
	b.deleteClaim(&made[0])
	if c.restricted != "" {
		c.rejects(b, f, observe)
	}
}

// rejects has the API server reject a NodeClaim with a label that the provider does not know.
func (c *cloud) rejects(b *bench, f *v1alpha1.NodeFleet, observe func() (*karpenter.Provider, *provider.Inventory)) {
	b.Helper()
	f.Spec.Karpenter.Requirements = append(f.Spec.Karpenter.Requirements, requirement(c.restricted, corev1.NodeSelectorOpExists))
	p, found := observe()
	err := p.Buy(b.Context(), "rejected", found.Flavors[0].Name, 1, 2) // the deleted one counts as lost
	refused := (*provider.Refused)(nil)
	if !errors.As(err, &refused) || refused.Reason != v1alpha1.FleetReasonProviderRefused || !strings.Contains(refused.Message, "is restricted") {
		b.Errorf("%s: a label that it rejects: %v", c.folder, err)
	}
}

// fleet returns a fleet that uses every field of spec.karpenter.
func (c *cloud) fleet(class *unstructured.Unstructured) *v1alpha1.NodeFleet {
	kind := class.GroupVersionKind()
	return &v1alpha1.NodeFleet{ObjectMeta: metav1.ObjectMeta{Name: "clouds", UID: types.UID(c.folder)}, Spec: v1alpha1.NodeFleetSpec{
		Class: v1alpha1.FleetBatch,
		Karpenter: &v1alpha1.KarpenterNodes{
			NodeClassRef: v1alpha1.KarpenterNodeClass{Group: kind.Group, Kind: kind.Kind, Name: class.GetName()},
			Requirements: []v1alpha1.KarpenterRequirement{
				requirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, c.zone), requirement("karpenter.sh/capacity-type", corev1.NodeSelectorOpIn, "spot"), c.own,
			},
			Labels:                 map[string]string{"team": "a"},
			Taints:                 []corev1.Taint{{Key: "batch", Value: "true", Effect: corev1.TaintEffectNoSchedule}},
			StartupTaints:          []corev1.Taint{{Key: "starting", Effect: corev1.TaintEffectNoExecute}},
			ExpireAfter:            "720h",
			TerminationGracePeriod: new(seconds(3600)),
		},
	}}
}

// ready sets the condition Ready of a NodeClass. If it is false, the network is missing.
func (b *bench) ready(class *unstructured.Unstructured, status metav1.ConditionStatus) {
	b.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"%s","reason":"Network","message":"the network is missing","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, status)
	if err := b.Status().Patch(b.Context(), class, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		b.Fatal(err)
	}
}

// packed reads the objects in a packed file.
func (b *bench) packed(file string) []playground.Manifest {
	b.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		b.Fatal(err)
	}
	found, err := playground.ParseManifests(file, unpacked)
	if err != nil {
		b.Fatal(err)
	}
	return found
}
