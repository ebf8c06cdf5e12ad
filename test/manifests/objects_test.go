package manifests

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	psapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	sigsyaml "sigs.k8s.io/yaml"

	adapterv1alpha1 "supercargo.dev/supercargo/api/adapter/v1alpha1"
	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/nodemeter/app"
	"supercargo.dev/supercargo/energy/powerquery"
	"supercargo.dev/supercargo/internal/platform/self"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// objects decodes the documents of a file as strictly as the API server does
// for `kubectl --validate=strict`: an unknown or repeated field fails the test.
func objects(t *testing.T, file string) []runtime.Object {
	t.Helper()
	content := testfile.Read(t, file)
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme, apiregistrationv1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer()
	var found []runtime.Object
	for docs := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content))); ; {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("read %s: %v", file, err)
		}
		obj, _, err := decoder.Decode(doc, nil, nil)
		if err != nil {
			t.Fatalf("decode %s: %v", file, err)
		}
		found = append(found, obj)
	}
}

func TestObjectsAreKnownToTheAPIServer(t *testing.T) {
	for file, want := range map[string]int{
		"../../manifests/scheduler/second/rbac.yaml":                   10,
		"../../manifests/scheduler/replace/rbac.yaml":                  4,
		"../../manifests/scheduler/second/deployment.yaml":             1,
		"../../manifests/scheduler/replace/kube-scheduler.yaml":        1,
		"../../manifests/namespace/namespace.yaml":                     2,
		"../../manifests/autoscaler/rbac.yaml":                         9,
		"../../manifests/autoscaler/management-cluster/account.yaml":   2,
		"../../manifests/autoscaler/management-cluster/namespace.yaml": 1,
		"../../manifests/autoscaler/management-cluster/rbac.yaml":      4,
		"../../manifests/audit/role.yaml":                              1,
		"../../manifests/dashboard/role.yaml":                          1,
		"../../manifests/autoscaler/deployment.yaml":                   1,
		"../../manifests/descheduler/rbac.yaml":                        8,
		"../../manifests/descheduler/consolidation.yaml":               1,
		"../../manifests/descheduler/policy.yaml":                      2,
		"../../manifests/descheduler/deployment.yaml":                  1,
		"../../manifests/agent/namespace.yaml":                         1,
		"../../manifests/evictions/base/rbac.yaml":                     6,
		"../../manifests/evictions/base/webhook.yaml":                  2,
		"../../manifests/agent/rbac.yaml":                              3,
		"../../manifests/agent/policy.yaml":                            4,
		"../../manifests/agent/daemonset.yaml":                         1,
		"../../manifests/samples/nodefleet.yaml":                       1,
		"../../manifests/samples/replicapolicy.yaml":                   1,
		"../../manifests/samples/metrics-adapter.yaml":                 2,
		"../../manifests/samples/metrics-workqueue.yaml":               2,
		"../../manifests/samples/migration.yaml":                       1,
		"../../manifests/adapter/server/rbac.yaml":                     10,
		"../../manifests/adapter/server/configuration.yaml":            2,
		"../../manifests/adapter/server/deployment.yaml":               1,
		"../../manifests/adapter/server/service.yaml":                  1,
		"../../manifests/autoscaler/disruption.yaml":                   1,
		"../../manifests/descheduler/disruption.yaml":                  1,
		"../../manifests/scheduler/second/disruption.yaml":             1,
		"../../manifests/adapter/server/apiservices.yaml":              2,
		"../../manifests/openstack/rbac.yaml":                          4,
		"../../manifests/karpenter/rbac.yaml":                          4,
		"../../manifests/catalogue/rbac.yaml":                          2,
		"../../manifests/workers/rbac.yaml":                            1,
		"../../manifests/samples/workerpool.yaml":                      2,
		"../../manifests/samples/nodefleet-openstack.yaml":             2,
		"../../manifests/samples/nodefleet-catalogue.yaml":             1,
		"../../manifests/samples/nodefleet-karpenter.yaml":             1,
	} {
		if got := len(objects(t, file)); got != want {
			t.Errorf("%s holds %d objects, want %d", file, got, want)
		}
	}
}

// TestTheMetricsAdapterStartsWithItsConfiguration loads the ConfigMap in the manifests.
func TestTheMetricsAdapterStartsWithItsConfiguration(t *testing.T) {
	configuration, ok := objects(t, "../../manifests/adapter/server/configuration.yaml")[0].(*corev1.ConfigMap)
	if !ok {
		t.Fatal("there is no ConfigMap")
	}
	if _, err := adapterv1alpha1.Decode([]byte(configuration.Data["metrics.yaml"])); err != nil {
		t.Error(err)
	}
}

func TestDeploymentsMeetTheRestrictedPodSecurityStandard(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := psapi.LevelVersion{Level: psapi.LevelRestricted, Version: psapi.LatestVersion()}
	for _, file := range []string{
		"../../manifests/scheduler/second/deployment.yaml", "../../manifests/autoscaler/deployment.yaml", "../../manifests/descheduler/deployment.yaml",
		"../../manifests/adapter/server/deployment.yaml",
	} {
		deployment, ok := objects(t, file)[0].(*appsv1.Deployment)
		if !ok {
			t.Fatalf("%s holds no Deployment", file)
		}
		for _, result := range evaluator.EvaluatePod(level, &deployment.Spec.Template.ObjectMeta, &deployment.Spec.Template.Spec) {
			if !result.Allowed {
				t.Errorf("%s: %s: %s", file, result.ForbiddenReason, result.ForbiddenDetail)
			}
		}
	}
}

// TestProgramsAreToldWhichPodsTheyAre checks the environment: Events about only the program are on its pod.
func TestProgramsAreToldWhichPodsTheyAre(t *testing.T) {
	want := map[string]string{self.EnvName: "metadata.name", self.EnvNamespace: "metadata.namespace", self.EnvUID: "metadata.uid"}
	told := func(file string, env []corev1.EnvVar) {
		got := map[string]string{}
		for _, e := range env {
			if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
				got[e.Name] = e.ValueFrom.FieldRef.FieldPath
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", file, got, want)
		}
	}
	for _, file := range []string{"../../manifests/scheduler/second/deployment.yaml", "../../manifests/descheduler/deployment.yaml"} {
		deployment, ok := objects(t, file)[0].(*appsv1.Deployment)
		if !ok {
			t.Fatalf("%s holds no Deployment", file)
		}
		told(file, deployment.Spec.Template.Spec.Containers[0].Env)
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../manifests/scheduler/replace")
	if err != nil {
		t.Fatal(err)
	}
	var static corev1.Pod
	text, err := built.Resources()[0].AsYAML()
	if err == nil {
		err = sigsyaml.UnmarshalStrict(text, &static)
	}
	if err != nil {
		t.Fatal(err)
	}
	told("../../manifests/scheduler/replace", static.Spec.Containers[0].Env)
}

// TestProgramsMayWriteNoMoreThanTheirPagesSay compares their write permissions with docs/nodefleet.md,
// docs/replicas.md, docs/migration.md, docs/machine-profiles.md, docs/energy-placement.md, docs/agent.md and
// docs/metrics.md.
func TestProgramsMayWriteNoMoreThanTheirPagesSay(t *testing.T) {
	leads := []string{"create events", "patch events", "create leases", "update leases"}
	for file, want := range map[string][]string{
		"../../manifests/autoscaler/rbac.yaml": append([]string{
			"patch machinedeployments/scale", "patch machines", "patch nodes", "create pods/eviction", "create migrations", "delete migrations", "patch nodefleets", "update nodefleets/status",
			"update deployments/scale", "update statefulsets/scale", "update replicasets/scale", "update replicapolicies/status", "update workerpools/status",
		}, leads...),
		"../../manifests/adapter/server/rbac.yaml": {"patch apiservices", "patch configmaps", "update secrets"},
		"../../manifests/openstack/rbac.yaml":      {"delete nodes"},
		"../../manifests/karpenter/rbac.yaml":      {"create nodeclaims", "delete nodeclaims"},
		"../../manifests/catalogue/rbac.yaml": {
			"create machinedeployments", "delete machinedeployments",
			"create awsmachinetemplates", "create azuremachinetemplates", "create gcpmachinetemplates", "create openstackmachinetemplates", "create dockermachinetemplates",
			"delete awsmachinetemplates", "delete azuremachinetemplates", "delete gcpmachinetemplates", "delete openstackmachinetemplates", "delete dockermachinetemplates",
		},
		"../../manifests/evictions/base/rbac.yaml": {
			"create migrations", "update poddisruptionbudgets/status", "patch validatingwebhookconfigurations", "update secrets", "create events", "patch events",
		},
		"../../manifests/meter/rbac.yaml": {"create tokenreviews", "create subjectaccessreviews", "update secrets", "update configmaps"},
		"../../manifests/agent/rbac.yaml": {"patch migrations/status", "patch nodes", "create events"},
		"../../manifests/descheduler/rbac.yaml": append([]string{
			"create pods", "patch pods", "delete pods", "update jobs/finalizers", "update replicasets/finalizers", "update poddisruptionbudgets/status", "patch migrations", "delete migrations", "patch migrations/status",
			"create migrations", "create pods/eviction", "patch nodes", "create configmaps", "patch configmaps",
			"create machineprofiles", "patch machineprofiles", "patch machineprofiles/status", "patch consolidations/status", "create jobs", "delete jobs",
		}, leads...),
	} {
		if diff := cmp.Diff(set(want), written(t, file)); diff != "" {
			t.Errorf("what %s lets its program write (-want +got):\n%s", file, diff)
		}
	}
}

func set(list []string) map[string]bool {
	all := map[string]bool{}
	for _, s := range list {
		all[s] = true
	}
	return all
}

// written returns the modifying verbs and the resources of the roles in a file.
func written(t *testing.T, file string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, object := range objects(t, file) {
		var rules []rbacv1.PolicyRule
		switch role := object.(type) {
		case *rbacv1.ClusterRole:
			rules = role.Rules
		case *rbacv1.Role:
			rules = role.Rules
		}
		for _, rule := range rules {
			for _, verb := range rule.Verbs {
				switch verb {
				case "get", "list", "watch":
					continue
				}
				for _, resource := range rule.Resources {
					found[verb+" "+resource] = true
				}
			}
		}
	}
	return found
}

// TestOneCommandInstallsAllThatReplicaPoliciesNeed builds manifests/replicas as kubectl
// apply -k does.
func TestOneCommandInstallsAllThatReplicaPoliciesNeed(t *testing.T) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../manifests/replicas")
	if err != nil {
		t.Fatal(err)
	}
	args := map[string][]string{}
	for _, resource := range built.Resources() {
		if resource.GetKind() != "Deployment" {
			continue
		}
		text, err := resource.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		var d appsv1.Deployment
		testfile.YAML(t, text, &d)
		args[d.Name] = d.Spec.Template.Spec.Containers[0].Args
	}
	if len(args) != 2 || args["supercargo-metrics-adapter"] == nil {
		t.Errorf("the programs are %v, want the autoscaler and the metrics adapter", args)
	}
	const want = "--metrics-url=https://supercargo-metrics-adapter.supercargo-system.svc/prometheus"
	if !slices.Contains(args["supercargo-autoscaler"], want) {
		t.Errorf("the autoscaler is given %q, want %s among them", args["supercargo-autoscaler"], want)
	}
}

// TestTheMeterThatAsksPrometheusStartsWithItsFlags builds manifests/meter-prometheus.
func TestTheMeterThatAsksPrometheusStartsWithItsFlags(t *testing.T) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../manifests/meter-prometheus")
	if err != nil {
		t.Fatal(err)
	}
	var o app.Options
	flags := pflag.NewFlagSet("meter", pflag.ContinueOnError)
	o.AddFlags(flags)
	for _, resource := range built.Resources() {
		if resource.GetKind() != "DaemonSet" {
			continue
		}
		text, err := resource.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		var d appsv1.DaemonSet
		testfile.StrictYAML(t, text, &d)
		if err := flags.Parse(d.Spec.Template.Spec.Containers[0].Args); err != nil {
			t.Error(err)
		}
	}
	preset, err := powerquery.ByName(o.PowerPreset)
	if err == nil {
		_, err = powerquery.Meter{Preset: preset}.Of("node-1")
	}
	if err != nil || o.Prometheus.URL == "" || o.NodeName == "" || o.HostRoot != "/host" {
		t.Errorf("%v: the meter asks %+v", err, o.Prometheus)
	}
}
