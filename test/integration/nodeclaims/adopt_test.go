package nodeclaims

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/pricelist"
	"supercargo.dev/supercargo/cli/adopt"
	"supercargo.dev/supercargo/internal/input/manifest"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
)

const nodePoolFiles = "../../data/nodepools/"

// published returns the NodePools that Karpenter's providers publish.
func (b *bench) published() (all []*unstructured.Unstructured) {
	b.Helper()
	files, err := filepath.Glob(nodePoolFiles + "*/*.yaml")
	if err != nil || len(files) < 10 {
		b.Fatalf("%d files (%v)", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			b.Fatal(err)
		}
		found, err := manifest.Parse(file, bytes.NewReader(text))
		if err != nil {
			b.Fatal(err)
		}
		for _, m := range found {
			if m.Object.GetKind() == adopt.PoolKind {
				all = append(all, m.Object)
			}
		}
	}
	return all
}

// adopted returns what an adoption of objects prints, as objects.
func (b *bench) adopted(around *adopt.Around, objects ...*unstructured.Unstructured) (fleets []*unstructured.Unstructured, d *adopt.Document) {
	b.Helper()
	var all []adopt.Object
	for _, o := range objects {
		all = append(all, adopt.Object{Where: o.GetName(), Fields: o.Object})
	}
	source, _, err := adopt.Gather(all, &adopt.Wanted{Pools: true, Groups: true})
	if err != nil {
		b.Fatal(err)
	}
	if d, err = adopt.Convert(source, around); err != nil {
		text, _ := yaml.Marshal(objects[0].Object)
		b.Fatalf("%v\n%s", err, text)
	}
	var printed bytes.Buffer
	if err := d.Write(&printed); err != nil {
		b.Fatal(err)
	}
	found, err := manifest.Parse("printed", &printed)
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range found {
		fleets = append(fleets, m.Object)
	}
	return fleets, d
}

// accepts checks that the API server takes a NodeFleet as it is, and changes nothing that it states.
func (b *bench) accepts(f *unstructured.Unstructured) {
	b.Helper()
	stated := f.DeepCopy()
	if err := b.Create(b.Context(), f, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
		text, _ := yaml.Marshal(stated.Object)
		b.Fatalf("%v\n%s", err, text)
	}
	if lost := lacks("spec", stated.Object["spec"], f.Object["spec"]); lost != "" {
		b.Errorf("NodeFleet %s: the API server has changed %s", f.GetName(), lost)
	}
}

// lacks returns the path of the first value that another object does not have; empty if it has all.
func lacks(path string, of, in any) string {
	stated, ok := of.(map[string]any)
	if !ok {
		if fmt.Sprint(of) != fmt.Sprint(in) {
			return path
		}
		return ""
	}
	has, _ := in.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(stated)) {
		if at := lacks(path+"."+key, stated[key], has[key]); at != "" {
			return at
		}
	}
	return ""
}

// TestEveryNodePoolIsAdoptedAsANodeFleetThatTheAPIServerAccepts: those that are published, and random ones that Karpenter's
// own definition accepts, with its defaults.
func TestEveryNodePoolIsAdoptedAsANodeFleetThatTheAPIServerAccepts(t *testing.T) {
	t.Parallel()
	b := newBench(t, "adopt")
	b.install()
	regions := map[string]string{"karpenter.k8s.aws": "us-east-1", "karpenter.azure.com": "eastus", "karpenter.k8s.gcp": "us-central1"}
	all := b.published()
	for seed := range uint64(400) {
		all = append(all, randomPool(rand.New(rand.NewPCG(seed, 0))))
	}
	taken, fleets := 0, 0
	for i, p := range all {
		if err := b.Create(b.Context(), p, client.DryRunAll); apierrors.IsInvalid(err) {
			continue
		} else if err != nil {
			b.Fatal(err)
		}
		taken++
		group, _, _ := unstructured.NestedString(p.Object, "spec", "template", "spec", "nodeClassRef", "group")
		around := &adopt.Around{Prices: pricelist.Read}
		if i%3 > 0 {
			around.Region, around.Zones = regions[group], []string{regions[group] + "-1"}
		}
		made, _ := b.adopted(around, p)
		for _, f := range made {
			fleets++
			b.accepts(f)
		}
	}
	t.Logf("%d of %d NodePools are valid, %d NodeFleets", taken, len(all), fleets)
	if taken < 200 || fleets < 150 {
		t.Errorf("only %d of %d NodePools are valid, and only %d are adopted", taken, len(all), fleets)
	}
}

// randomPool returns a NodePool that is often valid.
func randomPool(r *rand.Rand) *unstructured.Unstructured {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	some := func(share float64) bool { return r.Float64() < share }
	class := pick("karpenter.k8s.aws EC2NodeClass", "karpenter.azure.com AKSNodeClass", "karpenter.k8s.gcp GCENodeClass", "karpenter.kwok.sh KWOKNodeClass")
	group, kind, _ := strings.Cut(class, " ")
	template := map[string]any{"nodeClassRef": map[string]any{"group": group, "kind": kind, "name": "default"}}
	requirements := []any{}
	for range r.IntN(8) {
		requirements = append(requirements, randomRequirement(r, group))
	}
	template["requirements"] = requirements
	if some(0.5) {
		template["expireAfter"] = pick("Never", "720h", "1h30m", "0s", "100000h")
	}
	if some(0.3) {
		template["terminationGracePeriod"] = pick("30s", "48h", "1h2m3s")
	}
	if some(0.3) {
		template["taints"] = []any{map[string]any{"key": pick("a", "example.com/b"), "value": pick("", "x"), "effect": pick("NoSchedule", "NoExecute", "PreferNoSchedule")}}
	}
	if some(0.2) {
		template["startupTaints"] = []any{map[string]any{"key": "c", "effect": "NoExecute"}}
	}
	spec := map[string]any{"template": map[string]any{"spec": template}}
	if some(0.4) {
		spec["template"].(map[string]any)["metadata"] = map[string]any{
			"labels":      map[string]any{pick("team", "supercargo.dev/class", "kubernetes.io/os", "topology.kubernetes.io/zone"): pick("batch", "x", "linux", "")},
			"annotations": map[string]any{pick("note", "karpenter.sh/do-not-disrupt"): "true"},
		}
	}
	if some(0.4) {
		spec["limits"] = map[string]any{pick("cpu", "memory", "nodes", "nvidia.com/gpu"): pick("0", "-1", "10", "1000Gi", "5m", "1e9"), pick("cpu", "memory"): "7"}
	}
	if some(0.6) {
		disruption := map[string]any{}
		if some(0.7) {
			disruption["consolidationPolicy"] = pick("WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced")
		}
		if some(0.7) {
			disruption["consolidateAfter"] = pick("Never", "0s", "30s", "9999h")
		}
		if some(0.7) {
			budgets := []any{}
			for range r.IntN(4) {
				budget := map[string]any{"nodes": pick("0", "7", "0012345678", "10%", "100%", "00%")}
				if some(0.3) {
					budget["schedule"], budget["duration"] = pick("@daily", "0 9 * * mon-fri"), pick("8h", "10m")
				}
				if some(0.4) {
					budget["reasons"] = []any{pick("Empty", "Underutilized", "Drifted", "Unhealthy")}
				}
				budgets = append(budgets, budget)
			}
			disruption["budgets"] = budgets
		}
		spec["disruption"] = disruption
	}
	if some(0.2) {
		spec["weight"] = int64(1 + r.IntN(100))
	} else if some(0.1) {
		spec["replicas"] = int64(r.IntN(9))
	}
	p := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	p.SetGroupVersionKind(schema.FromAPIVersionAndKind(adopt.PoolVersion, adopt.PoolKind))
	p.SetName(fmt.Sprintf("random-%d", r.IntN(1e9)))
	return p
}

func randomRequirement(r *rand.Rand, group string) map[string]any {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	keys := map[string][]string{ // values by label
		"topology.kubernetes.io/zone":            {"us-east-1a", "us-east-1b", "eastus-1", "us-central1-a"},
		"karpenter.sh/capacity-type":             {"on-demand", "spot", "reserved"},
		"kubernetes.io/arch":                     {"amd64", "arm64"},
		"kubernetes.io/os":                       {"linux", "windows"},
		"node.kubernetes.io/instance-type":       {"m7i.large", "c7g.xlarge", "Standard_D2s_v5", "n2-standard-4", "none"},
		group + "/instance-family":               {"m7i", "c7g", "n2"},
		group + "/instance-category":             {"c", "m", "r", "t"},
		group + "/instance-generation":           {"2", "5", "7"},
		group + "/instance-cpu":                  {"2", "4", "64"},
		group + "/sku-family":                    {"D", "E"},
		"example.com/any":                        {"1", "3", "x"},
		"failure-domain.beta.kubernetes.io/zone": {"us-east-1a"},
	}
	key := slices.Sorted(maps.Keys(keys))[r.IntN(len(keys))]
	q := map[string]any{"key": key, "operator": pick("In", "In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte")}
	switch q["operator"] {
	case "In", "NotIn":
		values := []any{}
		for range 1 + r.IntN(3) {
			values = append(values, pick(keys[key]...))
		}
		q["values"] = values
	case "Exists":
		if r.IntN(3) == 0 {
			q["minValues"] = int64(2)
		}
	case "DoesNotExist":
	default:
		q["values"] = []any{pick("0", "1", "2", "7", "2147483647")}
	}
	return q
}

// TestTheDefinitionOfNodePoolsIsTheOneThatIsKnown fails when these tests run another version of Karpenter: replace the
// copy, and see which fields are new in the tests of cli/adopt.
func TestTheDefinitionOfNodePoolsIsTheOneThatIsKnown(t *testing.T) {
	t.Parallel()
	b := newBench(t, "known")
	packed, err := os.ReadFile(nodePoolFiles + "karpenter.sh_nodepools.yaml.gz")
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	known, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(b.source(currentModule), "pkg/apis/crds/karpenter.sh_nodepools.yaml")
	if used, err := os.ReadFile(file); err != nil || !bytes.Equal(used, known) {
		t.Errorf("%s differs from the copy in %s (%v)", file, nodePoolFiles, err)
	}
}

// TestMachineDeploymentsAreAdoptedAsANodeFleetThatTheAPIServerAccepts with names, and with each kind of selector.
func TestMachineDeploymentsAreAdoptedAsANodeFleetThatTheAPIServerAccepts(t *testing.T) {
	t.Parallel()
	b := newBench(t, "groups")
	md := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(`{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, metadata: {name: a, namespace: capi, labels: {a: b}, annotations: {
		cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: "9"}}, spec: {clusterName: prod, template: {spec: {infrastructureRef: {kind: AWSMachineTemplate}}}}}`), &md.Object); err != nil {
		t.Fatal(err)
	}
	for _, selector := range []string{"", "a=b", "a!=c", "a in (b,c),!d,a", "a notin (c)"} {
		source, _, err := adopt.Gather([]adopt.Object{{Where: "a", Fields: md.Object}}, &adopt.Wanted{Groups: true, Selector: selector})
		if err != nil {
			t.Fatal(err)
		}
		d, err := adopt.Convert(source, &adopt.Around{Region: "us-east-1", Prices: pricelist.Read})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(d.Items[0])
		if err != nil {
			t.Fatal(err)
		}
		f := &unstructured.Unstructured{}
		if err := json.Unmarshal(text, &f.Object); err != nil {
			t.Fatal(err)
		}
		b.accepts(f)
	}
}

// TestKubectlAppliesWhatAdoptPrints in both formats: it ignores comments in YAML, and notes and steps in JSON.
func TestKubectlAppliesWhatAdoptPrints(t *testing.T) {
	t.Parallel()
	b := newBench(t, "apply")
	b.install()
	pools := b.published()
	_, d := b.adopted(&adopt.Around{Prices: pricelist.Read}, pools[0], pools[len(pools)-2])
	var text bytes.Buffer
	if err := d.Write(&text); err != nil {
		t.Fatal(err)
	}
	document, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"fleets.yaml": text.Bytes(), "fleets.json": document} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		printed := b.run(adopt.Step{Commands: []string{"kubectl apply --dry-run=server --validate=strict -o name -f " + file}})
		want := ""
		for _, f := range d.Items {
			want += "nodefleet.supercargo.dev/" + f.Metadata.Name + "\n"
		}
		if printed != want || len(d.Items) != 2 {
			t.Errorf("%s: kubectl prints %q, want %q", name, printed, want)
		}
	}
}

// adoptablePool creates a NodePool of small machines in zone a, of which everything is converted.
func (b *bench) adoptablePool() *unstructured.Unstructured {
	b.Helper()
	p := &unstructured.Unstructured{}
	text := fmt.Sprintf(`{spec: {disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1s, budgets: [{nodes: "100%%"}]}, limits: {cpu: "64"}, template: {
		metadata: {labels: {%q: %s}}, spec: {expireAfter: Never, nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: %s}, requirements: [
		{key: topology.kubernetes.io/zone, operator: In, values: [a]}, {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: kubernetes.io/arch, operator: In, values: [amd64]}, {key: node.kubernetes.io/instance-type, operator: In, values: [small]}]}}}}`,
		kit.BenchLabel, b.Space, b.Space)
	if err := yaml.Unmarshal([]byte(text), &p.Object); err != nil {
		b.Fatal(err)
	}
	p.SetGroupVersionKind(schema.FromAPIVersionAndKind(adopt.PoolVersion, adopt.PoolKind))
	p.SetName(b.Space)
	b.Make(p)
	b.Cleanup(func() { _ = b.Delete(context.WithoutCancel(b.Context()), p) })
	return p
}

// deployment creates a Deployment of pods that fill a small machine each.
func (b *bench) deployment(replicas int32) {
	b.Helper()
	labels := map[string]string{"app": b.Space}
	b.Make(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "web"}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			NodeSelector: map[string]string{kit.BenchLabel: b.Space},
			Containers: []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("1900m"), corev1.ResourceMemory: resource.MustParse("1Gi"),
			}}}},
		}},
	}})
}

// run runs the commands of a step as they are printed.
func (b *bench) run(s adopt.Step) (printed string) {
	b.Helper()
	for _, c := range s.Commands {
		cmd := exec.CommandContext(b.Context(), "sh", "-c", c)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+b.Site.KubeconfigPath())
		out, err := cmd.CombinedOutput()
		if err != nil {
			b.Fatalf("%s: %v: %s", c, err, out)
		}
		printed += string(out)
	}
	return printed
}

// leave deletes the NodeClaims that a step lists one by one, and waits after each until all pods run.
func (b *bench) leave(s adopt.Step, pods int) {
	b.Helper()
	for line := range strings.SplitSeq(strings.TrimSpace(b.run(s)), "\n") {
		name, _, _ := strings.Cut(line, " ")
		if name == "NAME" {
			continue
		}
		b.run(adopt.Step{Commands: []string{"kubectl delete nodeclaim " + name}})
		b.Runs(pods)
	}
}

// TestPodsGoFromANodePoolToItsNodeFleetAndBack by the steps that adopt prints: nothing is bought twice, and all pods run.
func TestPodsGoFromANodePoolToItsNodeFleetAndBack(t *testing.T) {
	t.Parallel()
	const pods = 3
	b := newBench(t, "over")
	b.install()
	b.class()
	b.karpenter()
	b.prices("small,2,4,0.10")
	pool := b.adoptablePool()
	poolClaims, fleetClaims := b.claimsEver("karpenter.sh/nodepool"), b.claimsEver(v1alpha1.LabelFleet)
	b.deployment(pods)
	b.Runs(pods)
	testapi.Get(b, b, client.ObjectKeyFromObject(pool), pool)

	fleets, d := b.adopted(&adopt.Around{}, pool)
	if len(fleets) != 1 || len(d.Steps) != 7 || len(d.Back) != 5 {
		t.Fatalf("%d fleets, %d steps and %d steps back", len(fleets), len(d.Steps), len(d.Back))
	}
	b.accepts(fleets[0].DeepCopy())
	b.fleet(func(s *v1alpha1.NodeFleetSpec) { // with short times, except that Karpenter decides sooner, and the prices of the bench
		s.Scaling.BatchIdle = seconds(3)
		text, err := json.Marshal(d.Items[0].Spec)
		if err == nil {
			err = json.Unmarshal(text, s)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.Pricing.Catalogue = &v1alpha1.PriceCatalogue{Namespace: b.Space, Name: "prices", Key: "flavors.csv"}
	})
	b.autoscale()
	b.has(v1alpha1.FleetReady, metav1.ConditionTrue, v1alpha1.FleetReasonReconciled)

	for _, s := range d.Steps[2:5] {
		b.run(s)
	}
	b.leave(d.Steps[5], pods)
	b.becomes(map[string]int{"small": pods})
	if of, to := len(poolClaims()), len(fleetClaims()); of != pods || to != pods {
		t.Errorf("on the way, the NodePool has had %d NodeClaims and the fleet %d, want %d each", of, to, pods)
	}
	b.run(adopt.Step{Commands: []string{`kubectl patch nodefleet over --type merge -p '{"spec":{"scaling":{"batchIdle":"0s"}}}'`}}) // it decides sooner
	for _, s := range d.Back[:3] {
		b.run(s)
	}
	b.leave(d.Back[3], pods)
	b.Eventually("the fleet has no NodeClaims", func() string {
		if n := len(b.nodeClaims()); n > 0 {
			return fmt.Sprintf("%d", n)
		}
		return ""
	})
	b.run(d.Back[4])
	if of, to := len(poolClaims()), len(fleetClaims()); of != 2*pods || to != pods {
		t.Errorf("in the end, the NodePool has had %d NodeClaims and the fleet %d, want %d and %d", of, to, 2*pods, pods)
	}
	b.Runs(pods)
	if err := b.Delete(b.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "web"}}, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	b.becomes(map[string]int{}) // Karpenter must not drain nodes of this test during the next one
}
