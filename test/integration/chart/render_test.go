package chart

import (
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	adapter "supercargo.dev/supercargo/autoscaler/adapter/app"
	descheduler "supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/test/kit/testfile"
)

func TestHelmFindsNoFaultWithTheCharts(t *testing.T) {
	for path, more := range map[string][]string{chart: values{}.flags(t), kinds: nil} {
		if out, errs, err := run(t, nil, "helm", append([]string{"lint", "--strict", path}, more...)...); err != nil {
			t.Errorf("%v\n%s%s", err, out, errs)
		}
	}
}

// id returns the name of an object.
func id(o *unstructured.Unstructured) string {
	name := o.GetName()
	if strings.HasPrefix(name, "supercargo-scheduler-config-") {
		name = "supercargo-scheduler-config" // kustomize and the chart compute the hash in different ways
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + name
}

// normal removes allowed differences: the order of arguments, the hash in the name of the scheduler's
// ConfigMap, and what only Helm reads.
func normal(t *testing.T, objects []*unstructured.Unstructured) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for _, o := range objects {
		if annotations := o.GetAnnotations(); annotations["helm.sh/resource-policy"] != "" {
			if delete(annotations, "helm.sh/resource-policy"); len(annotations) == 0 {
				annotations = nil
			}
			o.SetAnnotations(annotations)
		}
		name := id(o)
		if _, twice := found[name]; twice {
			t.Errorf("there are two of %s", name)
		}
		if o.GetKind() == "ConfigMap" {
			o.SetName(strings.TrimPrefix(name, "ConfigMap kube-system/"))
		}
		found[name] = o.Object
		for _, container := range containers(t, o) {
			if args, ok := container["args"].([]any); ok {
				slices.SortFunc(args, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
			}
		}
		for _, volume := range list(t, o, "spec", "template", "spec", "volumes") {
			if m, ok := volume["configMap"].(map[string]any); ok && strings.HasPrefix(m["name"].(string), "supercargo-scheduler-config-") {
				m["name"] = "supercargo-scheduler-config"
			}
		}
	}
	return found
}

// containers returns the containers of a workload, without copying them.
func containers(t *testing.T, o *unstructured.Unstructured) []map[string]any {
	t.Helper()
	return list(t, o, "spec", "template", "spec", "containers")
}

// list returns the objects in a list of an object, or none if it has no such field.
func list(t *testing.T, o *unstructured.Unstructured, path ...string) (found []map[string]any) {
	t.Helper()
	all, _, err := unstructured.NestedFieldNoCopy(o.Object, path...)
	if err != nil {
		t.Fatalf("%s: %v", id(o), err)
	}
	items, _ := all.([]any)
	for _, item := range items {
		found = append(found, item.(map[string]any))
	}
	return found
}

// built returns the output of kustomize for parts under manifests/.
func built(t *testing.T, parts ...string) (objects []*unstructured.Unstructured) {
	t.Helper()
	for _, part := range parts {
		resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), manifests+part)
		if err != nil {
			t.Fatalf("build manifests/%s: %v", part, err)
		}
		text, err := resources.AsYaml()
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, parse(t, string(text))...)
	}
	return objects
}

// same contains values of the chart, and the equivalent parts under manifests/.
var same = map[string]struct {
	values values
	parts  []string
}{
	"nothing":                       {only(nil), nil},
	"the defaults":                  {nil, []string{"observe"}},
	"the autoscaler":                {may("autoscaler", nil), []string{"autoscaler", "workers"}},
	"the autoscaler for OpenStack":  {may("autoscaler", values{"autoscaler.openstack.enabled": true}), []string{"autoscaler", "workers", "openstack"}},
	"the autoscaler for Karpenter":  {may("autoscaler", values{"autoscaler.karpenter.enabled": true}), []string{"autoscaler", "workers", "karpenter"}},
	"the autoscaler for catalogues": {may("autoscaler", values{"autoscaler.catalogue.enabled": true}), []string{"autoscaler", "workers", "catalogue"}},
	"the descheduler":               {may("descheduler", nil), []string{"descheduler"}},
	"evictions, open":               {may("descheduler", values{"evictions.enabled": true}), []string{"descheduler", "evictions/open"}},
	"evictions, closed": {
		may("descheduler", values{"evictions.enabled": true, "evictions.mode": "closed"}), []string{"descheduler", "evictions/closed"},
	},
	"the node agent": {only(values{"nodeAgent.enabled": true}), []string{"agent"}},
	"the node meter": {only(values{"nodeMeter.enabled": true}), []string{"meter"}},
	"the node meter that asks Prometheus": {
		only(values{
			"nodeMeter.enabled": true, "nodeMeter.prometheusSecret": "supercargo-node-meter-prometheus",
			"nodeMeter.options": values{"prometheus": "http://prometheus-k8s.monitoring.svc:9090", "power-preset": "kepler"},
		}), []string{"meter-prometheus"},
	},
	"the metrics adapter and the autoscaler": {may("autoscaler", values{"metricsAdapter.enabled": true}), []string{"replicas", "workers"}},
	"the dashboard":                          {only(values{"dashboard.enabled": true}), []string{"dashboard/server"}},
	"the second scheduler":                   {only(values{"scheduler.second.enabled": true}), []string{"scheduler/second"}},
}

// TestHelmAndKustomizeInstallTheSame renders each part with the chart, and builds it with
// kustomize.
func TestHelmAndKustomizeInstallTheSame(t *testing.T) {
	for name, tc := range same {
		t.Run(name, func(t *testing.T) {
			want, got := normal(t, built(t, tc.parts...)), normal(t, render(t, home, tc.values))
			const learned = "Namespace /supercargo-probing" // it is in manifests/base
			if slices.Contains(tc.parts, "descheduler") {
				want[learned] = normal(t, built(t, "namespace"))[learned]
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("kustomize and Helm (-kustomize +helm):\n%s", diff)
			}
		})
	}
}

// TestEveryPartHasItsValues checks that each part in manifests/ has values in the chart, or a reason why it
// has none.
func TestEveryPartHasItsValues(t *testing.T) {
	known := map[string]bool{
		"base": true, "namespace": true, // the user who installs the release creates its namespace
		"crd":                true, // the chart supercargo-crds
		"evictions/base":     true, // it is open or closed with a failurePolicy
		"adapter":            true, // TestTheMetricsAdapterAloneIsGivenToNobody
		"adapter/server":     true, // the same
		"adapter/autoscaler": true, // half of replicas
		"scheduler/config":   true, // the ConfigMap of second
		"scheduler/replace":  true, // TestTheReplacementOfTheSchedulerComesWithItsFiles
		"audit":              true, // for clusters without Supercargo
		"dashboard":          true, // the same
		"network":            true, // TestKustomizeHasThePoliciesOfAllParts

		"autoscaler/management-cluster": true, // for another cluster than that of the release
	}
	for _, tc := range same {
		for _, part := range tc.parts {
			known[part] = true
		}
	}
	found := 0
	err := filepath.WalkDir(manifests, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "kustomization.yaml" {
			return err
		}
		found++
		if part := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), manifests); !known[part] {
			t.Errorf("no values of the chart install what manifests/%s does", part)
		}
		return nil
	})
	if err != nil || found != len(known) {
		t.Errorf("found %d parts, and know of %d: %v", found, len(known), err)
	}
}

// TestTheMetricsAdapterAloneIsGivenToNobody checks that no binding of its role is rendered without an
// autoscaler.
func TestTheMetricsAdapterAloneIsGivenToNobody(t *testing.T) {
	want, got := normal(t, built(t, "adapter")), normal(t, render(t, home, only(values{"metricsAdapter.enabled": true})))
	delete(want, "ClusterRoleBinding /supercargo-metrics-reader-autoscaler")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kustomize and Helm (-kustomize +helm):\n%s", diff)
	}
}

// TestTheReplacementOfTheSchedulerComesWithItsFiles checks the permissions and the files for the nodes.
func TestTheReplacementOfTheSchedulerComesWithItsFiles(t *testing.T) {
	got := normal(t, render(t, home, only(values{"scheduler.replacement.enabled": true, "scheduler.image.repository": "registry.example/scheduler", "image.tag": "v9"})))
	text := testfile.Read(t, manifests+"scheduler/replace/rbac.yaml")
	files, ok := got["ConfigMap kube-system/supercargo-kube-scheduler"]["data"].(map[string]any)
	if !ok {
		t.Fatalf("there is no ConfigMap with the files: %v", got)
	}
	delete(got, "ConfigMap kube-system/supercargo-kube-scheduler")
	if diff := cmp.Diff(normal(t, parse(t, string(text))), got); diff != "" {
		t.Errorf("kustomize and Helm (-kustomize +helm):\n%s", diff)
	}
	configuration := testfile.Read(t, manifests+"scheduler/config/kube-scheduler.yaml")
	if diff := cmp.Diff(string(configuration), files["supercargo-scheduler.yaml"]); diff != "" {
		t.Errorf("the scheduler's configuration (-want +got):\n%s", diff)
	}
	// The patch, applied as kubeadm does, sets the image of the static pod to that of the values.
	folder := t.TempDir()
	for name, from := range map[string]string{"kube-scheduler.yaml": "", "kustomization.yaml": "", "kube-scheduler+json.yaml": files["patch.yaml"].(string)} {
		content := []byte(from)
		if from == "" {
			content = testfile.Read(t, manifests+"scheduler/replace/"+name)
		}
		testfile.Write(t, filepath.Join(folder, name), content)
	}
	pod, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := pod.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	stock, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), manifests+"scheduler/replace")
	if err != nil {
		t.Fatal(err)
	}
	want, err := stock.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.ReplaceAll(string(want), "registry.invalid/supercargo/kube-scheduler:v0.1.0", "registry.example/scheduler:v9"), string(patched)); diff != "" {
		t.Errorf("the static pod (-want +got):\n%s", diff)
	}
}

// TestTheKindsAreThoseOfTheManifests checks that each CRD has its schema unchanged, and an annotation that
// prevents its deletion by Helm.
func TestTheKindsAreThoseOfTheManifests(t *testing.T) {
	out, errs, err := run(t, nil, "helm", "template", "kinds", kinds)
	if err != nil {
		t.Fatalf("%v\n%s", err, errs)
	}
	got := parse(t, out)
	for _, crd := range got {
		if crd.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
			t.Errorf("Helm would delete %s", crd.GetName())
		}
	}
	if diff := cmp.Diff(normal(t, built(t, "crd")), normal(t, got)); diff != "" {
		t.Errorf("kustomize and Helm (-kustomize +helm):\n%s", diff)
	}
}

// deployment returns a rendered Deployment, decoded as the API server would.
func deployment(t *testing.T, objects []*unstructured.Unstructured, name string) *appsv1.Deployment {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == "Deployment" && o.GetName() == name {
			var d appsv1.Deployment
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
				t.Fatal(err)
			}
			return &d
		}
	}
	t.Fatalf("there is no Deployment %s", name)
	return nil
}

// TestOptionsBecomeArgumentsAsTheyWereWritten tests numbers, which Helm reads as floats.
func TestOptionsBecomeArgumentsAsTheyWereWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "values.yaml")
	text := `descheduler:
  options: {consolidation: "Off", migration-bandwidth: 1200000000, default-energy-weight: 0.25, idle-power-counts: false, max-migrations: 20,
    probe-node-selector: "a=b,c in (d, e)"}
  migrations: {enabled: true}
evictions:
  enabled: true
  options: {eviction-webhook-client-names: [a.example, b.example]}
`
	testfile.Write(t, file, text)
	objects := render(t, home, only(values{"descheduler.enabled": true}), "--values", file)
	got := slices.Concat(deployment(t, objects, "supercargo-descheduler").Spec.Template.Spec.Containers[0].Args,
		deployment(t, objects, "supercargo-evictions").Spec.Template.Spec.Containers[0].Args)
	want := []string{
		"--metrics-bind-address=:8080", "--health-probe-bind-address=:8081", "--probe-image=registry.invalid/supercargo/node-agent:v0.1.0", "--actions=migrations",
		"--consolidation=Off", "--default-energy-weight=0.25", "--idle-power-counts=false",
		"--max-migrations=20", "--migration-bandwidth=1200000000", "--probe-node-selector=a=b,c in (d, e)",
		"evictions", "--metrics-bind-address=:8080", "--health-probe-bind-address=:8081", "--eviction-webhook-client-names=a.example,b.example",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
}

// TestTheValuesOfThePageAreTaken renders each block of values on the page about operations.
func TestTheValuesOfThePageAreTaken(t *testing.T) {
	page := testfile.Read(t, "../../../docs/operations.md")
	found := 0
	for block := range strings.SplitSeq(string(page), "\n\n") {
		if !strings.HasPrefix(block, "    # my-values.yaml\n") && !strings.HasPrefix(block, "    descheduler:\n") {
			continue
		}
		found++
		file := testfile.New(t, "values.yaml", strings.ReplaceAll("\n"+block, "\n    ", "\n"))
		objects := render(t, home, nil, "--values", file)
		if args := strings.Join(deployment(t, objects, "supercargo-descheduler").Spec.Template.Spec.Containers[0].Args, " "); !strings.Contains(args, "--consolidation=") {
			t.Errorf("the descheduler has %s, want what the page gives it:\n%s", args, block)
		}
	}
	if found != 2 {
		t.Errorf("found %d blocks of values, want 2", found)
	}
}

func TestImagesCanBeNamedOneByOne(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	v := values{
		"image.repository": "registry.example/ours", "image.tag": "v2", "image.pullPolicy": "Always", "image.pullSecrets": []any{map[string]any{"name": "pull"}},
		"descheduler.image.digest": digest, "nodeAgent.image": values{"repository": "mirror.example/agent", "tag": "v3"},
	}
	objects := render(t, home, v)
	for name, want := range map[string]string{"autoscaler": "registry.example/ours/autoscaler:v2", "descheduler": "registry.example/ours/descheduler:v2@" + digest} {
		pod := deployment(t, objects, "supercargo-"+name).Spec.Template.Spec
		if got := pod.Containers[0].Image; got != want {
			t.Errorf("the image of the %s is %s, want %s", name, got, want)
		}
		if pod.Containers[0].ImagePullPolicy != corev1.PullAlways || len(pod.ImagePullSecrets) != 1 || pod.ImagePullSecrets[0].Name != "pull" {
			t.Errorf("the image of the %s is pulled %s with %v", name, pod.Containers[0].ImagePullPolicy, pod.ImagePullSecrets)
		}
	}
	if args := deployment(t, objects, "supercargo-descheduler").Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--probe-image=mirror.example/agent:v3") {
		t.Errorf("probes run from another image than the node agent: %q", args)
	}
}

// TestTheSchedulerIsThatOfTheClustersVersion checks the default tag and a given one, with the digests of a release
// and without.
func TestTheSchedulerIsThatOfTheClustersVersion(t *testing.T) {
	one, two := strings.Repeat("1", 64), strings.Repeat("2", 64)
	digests := func(more values) values {
		all := values{"scheduler.digests": map[string]any{"1.35": "sha256:" + one, "1.36": "sha256:" + two}}
		maps.Copy(all, more)
		return all
	}
	for _, tc := range []struct {
		values values
		want   string
	}{
		{values{}, "registry.invalid/supercargo/kube-scheduler:v0.1.0"},
		{values{"scheduler.kubernetes": "1.35"}, "registry.invalid/supercargo/kube-scheduler:v0.1.0"},
		{values{"scheduler.kubernetes": "1.36"}, "registry.invalid/supercargo/kube-scheduler:v0.1.0-kubernetes1.36"},
		{values{"scheduler.kubernetes": "1.37", "image.tag": "v2"}, "registry.invalid/supercargo/kube-scheduler:v2-kubernetes1.37"},
		{values{"scheduler.kubernetes": "1.37", "scheduler.image.tag": "mine"}, "registry.invalid/supercargo/kube-scheduler:mine"},
		{digests(nil), "registry.invalid/supercargo/kube-scheduler:v0.1.0@sha256:" + one},
		{digests(values{"scheduler.kubernetes": "1.36"}), "registry.invalid/supercargo/kube-scheduler:v0.1.0-kubernetes1.36@sha256:" + two},
		{digests(values{"scheduler.kubernetes": "1.37"}), "registry.invalid/supercargo/kube-scheduler:v0.1.0-kubernetes1.37"},
		{digests(values{"scheduler.kubernetes": "1.36", "scheduler.image.tag": "mine"}), "registry.invalid/supercargo/kube-scheduler:mine"},
		{digests(values{"scheduler.kubernetes": "1.36", "scheduler.image.digest": "sha256:" + one}), "registry.invalid/supercargo/kube-scheduler:v0.1.0@sha256:" + one},
	} {
		tc.values["scheduler.second.enabled"], tc.values["scheduler.replacement.enabled"] = true, true
		objects := render(t, home, tc.values)
		if got := deployment(t, objects, "supercargo-scheduler").Spec.Template.Spec.Containers[0].Image; got != tc.want {
			t.Errorf("values %v: the second scheduler runs %s, want %s", tc.values, got, tc.want)
		}
		for _, o := range objects {
			if o.GetKind() != "ConfigMap" || o.GetName() != "supercargo-kube-scheduler" {
				continue
			}
			if patch, _, _ := unstructured.NestedString(o.Object, "data", "patch.yaml"); !strings.Contains(patch, "value: "+tc.want+"\n") {
				t.Errorf("values %v: the control plane is given\n%s\nwant %s", tc.values, patch, tc.want)
			}
		}
	}
}

// TestThePodsGoWhereTheValuesSay checks that given values take precedence over the chart's own.
func TestThePodsGoWhereTheValuesSay(t *testing.T) {
	spread := []any{map[string]any{
		"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": map[string]any{"matchLabels": map[string]any{"a": "b"}},
	}}
	pod := deployment(t, render(t, home, values{
		"autoscaler.replicas": 3, "autoscaler.topologySpreadConstraints": spread, "autoscaler.priorityClassName": "high", "autoscaler.tolerations": []any{},
		"autoscaler.nodeSelector": values{"pool": "infra"}, "autoscaler.resources": values{"limits": values{"memory": "1Gi"}},
		"autoscaler.volumes": []any{values{"name": "own", "emptyDir": values{}}}, "autoscaler.volumeMounts": []any{values{"name": "own", "mountPath": "/own"}},
		"metricsAdapter.enabled": true,
	}), "supercargo-autoscaler").Spec.Template.Spec
	switch {
	case len(pod.TopologySpreadConstraints) != 1 || pod.TopologySpreadConstraints[0].TopologyKey != "zone":
		t.Errorf("it is spread by %v", pod.TopologySpreadConstraints)
	case pod.PriorityClassName != "high" || len(pod.Tolerations) != 0 || pod.NodeSelector["pool"] != "infra":
		t.Errorf("priority class %s, tolerations %v, node selector %v", pod.PriorityClassName, pod.Tolerations, pod.NodeSelector)
	case pod.Containers[0].Resources.Limits.Memory().String() != "1Gi" || pod.Containers[0].Resources.Requests.Cpu().String() != "100m":
		t.Errorf("resources %v, want the limit beside the requests", pod.Containers[0].Resources)
	case len(pod.Volumes) != 2 || len(pod.Containers[0].VolumeMounts) != 2:
		t.Errorf("volumes %v mounted as %v, want one of the chart and one's own", pod.Volumes, pod.Containers[0].VolumeMounts)
	}
	for _, o := range render(t, home, values{"nodeAgent.enabled": true, "nodeAgent.podAnnotations": values{"c": "d"}, "nodeAgent.podLabels": values{"a": "b"}}) {
		if o.GetKind() != "DaemonSet" {
			continue
		}
		annotations, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "annotations")
		labels, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
		if annotations["c"] != "d" || len(annotations) != 1 || labels["a"] != "b" || len(labels) != 2 {
			t.Errorf("the node agent has annotations %v and labels %v", annotations, labels)
		}
	}
	for _, o := range render(t, home, values{"autoscaler.podDisruptionBudget.enabled": false, "descheduler.podDisruptionBudget.enabled": false}) {
		if o.GetKind() == "PodDisruptionBudget" {
			t.Errorf("%s is there although it was switched off", id(o))
		}
	}
}

// TestProgramsAreToldOfTheirNamespace checks the flags for another namespace, parsed by the programs' own
// flag sets: their defaults name supercargo-system.
func TestProgramsAreToldOfTheirNamespace(t *testing.T) {
	for _, namespace := range []string{home, "ops"} {
		objects := render(t, namespace, values{"metricsAdapter.enabled": true, "descheduler.migrations.enabled": true, "evictions.enabled": true})
		d, e, a := descheduler.Defaults(), descheduler.EvictionDefaults(), adapter.Defaults()
		for name, add := range map[string]func(*pflag.FlagSet){
			"supercargo-descheduler": d.AddFlags, "supercargo-evictions": e.AddEvictionFlags, "supercargo-metrics-adapter": a.AddFlags,
		} {
			flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
			add(flags)
			if err := flags.Parse(deployment(t, objects, name).Spec.Template.Spec.Containers[0].Args); err != nil {
				t.Errorf("namespace %s: %v", namespace, err)
			}
		}
		if err := d.Validate(); err != nil {
			t.Error(err)
		}
		if want := []string{"supercargo-evictions." + namespace + ".svc"}; !slices.Equal(e.Evictions.Hosts, want) {
			t.Errorf("in namespace %s the webhook's certificate is for %q, want %q", namespace, e.Evictions.Hosts, want)
		}
		if want := namespace + "/supercargo-metrics-adapter"; a.Service != want {
			t.Errorf("in namespace %s the metrics adapter is behind Service %s, want %s", namespace, a.Service, want)
		}
	}
}

// TestTheAutoscalerMeasuresWhereItIsTold checks that it uses the adapter of the chart, unless it has a URL.
func TestTheAutoscalerMeasuresWhereItIsTold(t *testing.T) {
	for name, tc := range map[string]struct {
		values values
		want   string
	}{
		"no adapter":         {nil, ""},
		"the chart's":        {values{"metricsAdapter.enabled": true}, "--metrics-url=https://supercargo-metrics-adapter.ops.svc/prometheus"},
		"Prometheus":         {values{"autoscaler.options": values{"metrics-url": "http://prometheus"}, "networkPolicy.enabled": false}, "--metrics-url=http://prometheus"},
		"Prometheus of both": {values{"metricsAdapter.enabled": true, "autoscaler.options": values{"metrics-url": "http://prometheus"}, "networkPolicy.enabled": false}, "--metrics-url=http://prometheus"},
	} {
		var got []string
		for _, arg := range deployment(t, render(t, "ops", tc.values), "supercargo-autoscaler").Spec.Template.Spec.Containers[0].Args {
			if strings.HasPrefix(arg, "--metrics-url=") {
				got = append(got, arg)
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestAnAPIThatOthersHaveIsLeftToThem checks that there is no APIService, and that the program does not serve
// the API.
func TestAnAPIThatOthersHaveIsLeftToThem(t *testing.T) {
	objects := render(t, home, values{"metricsAdapter.enabled": true, "metricsAdapter.externalMetrics": false})
	var apis []string
	for _, o := range objects {
		if o.GetKind() == "APIService" {
			apis = append(apis, o.GetName())
		}
	}
	args := deployment(t, objects, "supercargo-metrics-adapter").Spec.Template.Spec.Containers[0].Args
	if len(apis) != 1 || apis[0] != "v1beta2.custom.metrics.k8s.io" || !slices.Contains(args, "--external-metrics=false") || slices.Contains(args, "--custom-metrics=false") {
		t.Errorf("APIServices %q, arguments %q", apis, args)
	}
}

// TestAChangedConfigurationRestartsItsProgram: both read their configuration only at their start.
func TestAChangedConfigurationRestartsItsProgram(t *testing.T) {
	pods := func(v values) map[string]corev1.PodTemplateSpec {
		all := values{"metricsAdapter.enabled": true, "scheduler.second.enabled": true}
		for key, value := range v {
			all[key] = value
		}
		objects, found := render(t, home, all), map[string]corev1.PodTemplateSpec{}
		for _, name := range []string{"supercargo-metrics-adapter", "supercargo-scheduler"} {
			found[name] = deployment(t, objects, name).Spec.Template
		}
		return found
	}
	plain := pods(nil)
	for name, v := range map[string]values{
		"supercargo-metrics-adapter": {"metricsAdapter.configuration": values{"rules": []any{}}},
		"supercargo-scheduler":       {"scheduler.second.configuration": "kind: KubeSchedulerConfiguration"},
	} {
		for program, pod := range pods(v) {
			if same := cmp.Equal(plain[program], pod); same == (program == name) {
				t.Errorf("a configuration for %s: the pods of %s stay the same: %v", name, program, same)
			}
		}
	}
}
