package nodefleet

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// converting has a control plane that serves cluster-api's kinds in all versions, because some providers
// publish MachineDeployments in an older one.
var converting = kit.NewSites(playground.Options{ClusterAPI: true, OldClusterAPI: true})

const (
	infrastructure = "infrastructure.cluster.x-k8s.io"
	nodeLabels     = "capacity.cluster-autoscaler.kubernetes.io/labels"
	deploymentName = "cluster.x-k8s.io/deployment-name"
)

// machineProvider is an infrastructure provider of cluster-api with its published templates, see
// test/data/machinetemplates.
type machineProvider struct {
	folder, kind string
	// version is the version of its kind for the newest contract of cluster-api that the kind follows.
	version string
	// field is the field of its templates that contains the instance type.
	field string
	// types is a catalogue. buys is its cheapest type with room for a pod of 3 CPUs.
	types, buys string
	// values contains the values of variables in its templates, in addition to those that all providers have.
	values map[string]string
	// wrong lists fields that are not strings in its template.
	wrong []string
}

var machineProviders = []machineProvider{
	{
		folder: "aws", kind: "AWSMachineTemplate", version: "v1beta2", field: "spec.template.spec.instanceType",
		types: "m7i.large,1.93,7,0.1008\nm7i.xlarge,3.92,14,0.2016\nm7i.2xlarge,7.91,29,0.4032\n", buys: "m7i.xlarge",
		values: map[string]string{"AWS_NODE_MACHINE_TYPE": "t3.large", "AWS_SSH_KEY_NAME": "default"},
		wrong:  []string{"spec.template.spec.vmSize", "spec.template.spec.instanceType.name"},
	},
	{
		folder: "azure", kind: "AzureMachineTemplate", version: "v1beta1", field: "spec.template.spec.vmSize",
		types: "Standard_D2s_v5,1.9,5,0.096\nStandard_D4s_v5,3.86,12,0.192\nStandard_D8s_v5,7.82,27,0.384\n", buys: "Standard_D4s_v5",
		values: map[string]string{"AZURE_NODE_MACHINE_TYPE": "Standard_B2s", "AZURE_SUBSCRIPTION_ID": "00000000-0000-0000-0000-000000000000", "FLATCAR_VERSION": "4230.2.1"},
		wrong:  []string{"spec.template.spec.instanceType", "spec.template.spec.osDisk"},
	},
	{
		folder: "gcp", kind: "GCPMachineTemplate", version: "v1beta1", field: "spec.template.spec.instanceType",
		types: "n2-standard-2,1.93,6,0.0971\nn2-standard-4,3.92,13,0.1942\n", buys: "n2-standard-4",
		values: map[string]string{"GCP_NODE_MACHINE_TYPE": "e2-medium", "IMAGE_ID": "projects/p/global/images/node"},
		wrong:  []string{"spec.template.spec.machineType"},
	},
	{
		folder: "openstack", kind: "OpenStackMachineTemplate", version: "v1beta1", field: "spec.template.spec.flavor",
		types: "m1.medium,1.9,3.5,0.05\nm1.large,3.9,7.5,0.1\n", buys: "m1.large",
		values: openStackValues, wrong: []string{"spec.template.spec.flavorID", "spec.template.spec.image"},
	},
	{
		folder: "openstack-v1beta2", kind: "OpenStackMachineTemplate", version: "v1beta2", field: "spec.template.spec.flavor.filter.name",
		types: "m1.medium,1.9,3.5,0.05\nm1.large,3.9,7.5,0.1\n", buys: "m1.large",
		values: openStackValues, wrong: []string{"spec.template.spec.flavor", "spec.template.spec.flavor.id"},
	},
}

var openStackValues = map[string]string{
	"OPENSTACK_NODE_MACHINE_FLAVOR": "m1.small", "OPENSTACK_FAILURE_DOMAIN": "nova", "OPENSTACK_SSH_KEY_NAME": "default",
	"OPENSTACK_IMAGE_NAME": "ubuntu-2404",
}

// newConvertingBench returns a bench on the control plane that serves all versions, with the permissions of
// an autoscaler in the manifests. Its tests run in sequence, because versions of a provider have the same
// kinds.
func newConvertingBench(t *testing.T, name string) *bench {
	t.Helper()
	b := newBenchOf(t, converting, name)
	b.Site.Install(t, "../../../manifests/namespace/namespace.yaml", "../../../manifests/autoscaler/rbac.yaml", "../../../manifests/catalogue/rbac.yaml")
	return b
}

// published returns the folder of a provider's files.
func published(folder string) string { return filepath.Join("../../data/machinetemplates", folder) }

// define installs a provider's CRDs, and removes them when the test ends. The provider's conversion webhook
// does not run, so objects are used only in their storage version.
func (b *bench) define(folder string) {
	b.Helper()
	paths, err := filepath.Glob(published(folder) + "/*.yaml.gz")
	if err != nil || len(paths) == 0 {
		b.Fatalf("%s defines %d kinds: %v", folder, len(paths), err)
	}
	for _, path := range paths {
		packed := testfile.Read(b, path)
		text, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			b.Fatal(err)
		}
		crd := decode(b.TB, path, text)[0]
		unstructured.RemoveNestedField(crd.Object, "spec", "conversion")
		b.makeStrictly(crd)
		b.Cleanup(func() { b.undefine(crd) })
		b.isServed(crd)
	}
	b.defineBootstrap("KubeadmConfigTemplate", "v1beta2")
	b.defineBootstrap("NodeadmConfigTemplate", "v1beta2")
}

// defineBootstrap creates a CRD for a kind of bootstrap template, unless it exists. No objects of it are
// created, but cluster-api's webhook looks up its versions by contract when it converts a reference.
func (b *bench) defineBootstrap(kind, version string) {
	b.Helper()
	const group = "bootstrap.cluster.x-k8s.io"
	singular := strings.ToLower(kind)
	open := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: singular + "s." + group, Labels: map[string]string{"cluster.x-k8s.io/v1beta2": version}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: singular + "s", Singular: singular},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: version, Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: open}}},
		},
	}
	if err := b.Create(b.Context(), crd); err != nil && !apierrors.IsAlreadyExists(err) {
		b.Fatalf("define %s: %v", kind, err)
	}
}

// isServed waits until the API server serves a kind in its storage version.
func (b *bench) isServed(crd *unstructured.Unstructured) {
	b.Helper()
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	list := &unstructured.UnstructuredList{}
	for _, v := range versions {
		if v := v.(map[string]any); v["storage"] == true {
			list.SetAPIVersion(infrastructure + "/" + v["name"].(string))
		}
	}
	list.SetKind(kind + "List")
	b.Eventually(kind+" is served", func() string {
		if err := b.List(b.Context(), list, client.InNamespace(b.Space)); err != nil {
			return err.Error()
		}
		return ""
	})
}

func (b *bench) undefine(crd *unstructured.Unstructured) {
	ctx := context.WithoutCancel(b.Context())
	if err := b.Delete(ctx, crd); err != nil {
		b.Errorf("delete %s: %v", crd.GetName(), err)
		return
	}
	b.Eventually("the kind is gone", func() string {
		if err := b.Get(ctx, client.ObjectKeyFromObject(crd), crd); !apierrors.IsNotFound(err) {
			return fmt.Sprint("it is there: ", err)
		}
		return ""
	})
}

// makeStrictly creates an object, and fails if the API server does not know all its fields.
func (b *bench) makeStrictly(object client.Object) {
	b.Helper()
	if err := b.Create(b.Context(), object, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
		b.Fatalf("make %s %s: %v", object.GetObjectKind().GroupVersionKind().Kind, object.GetName(), err)
	}
}

func decode(t testing.TB, path string, text io.Reader) (found []*unstructured.Unstructured) {
	t.Helper()
	objects := utilyaml.NewYAMLOrJSONDecoder(text, 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := objects.Decode(&object.Object); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatalf("read %s: %v", path, err)
		}
		found = append(found, object)
	}
}

// variables matches variables in cluster-api's templates, some of which have a default.
var variables = regexp.MustCompile(`\$\{(\w+)(?::?[=-]([^}]*))?\}`)

// publish creates the worker objects in a file, in the bench's namespace and with 0 replicas, as the
// provider's users do. It returns the names of the MachineDeployments, whose machines have the label model
// with that name.
func (b *bench) publish(path string, values map[string]string) (models []string) {
	b.Helper()
	text := testfile.Read(b, path)
	cluster := strings.Trim(strings.TrimPrefix(strings.TrimSuffix(filepath.Base(path), ".yaml"), "cluster-template")+"-c", "-")
	common := map[string]string{"CLUSTER_NAME": cluster, "WORKER_MACHINE_COUNT": "0", "KUBERNETES_VERSION": "v1.35.4"}
	expanded := variables.ReplaceAllStringFunc(string(text), func(found string) string {
		parts := variables.FindStringSubmatch(found)
		for _, of := range []map[string]string{values, common} {
			if value, ok := of[parts[1]]; ok {
				return value
			}
		}
		if !strings.ContainsAny(found, "=-") {
			b.Fatalf("%s: the test knows no value of %s", path, found)
		}
		return parts[2]
	})
	for _, object := range decode(b.TB, path, strings.NewReader(expanded)) {
		object.SetNamespace(b.Space)
		if object.GetKind() == "MachineDeployment" {
			object.SetAnnotations(map[string]string{nodeLabels: "model=" + object.GetName()})
			b.set(object, int64(0), "spec.replicas")
			b.set(object, oneCluster, "spec.clusterName") // the machines of a fleet join one Cluster
			b.set(object, oneCluster, "spec.template.spec.clusterName")
			models = append(models, object.GetName())
		}
		b.makeStrictly(object)
	}
	return models
}

// oneCluster is the Cluster of all MachineDeployments of a provider.
const oneCluster = "c"

// offer makes the instance types of a catalogue available to fleets of the bench.
func (b *bench) offer(types string) {
	b.Helper()
	b.Make(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "prices-" + b.Space}, Data: map[string]string{"flavors.csv": "name,cpu,memory_gib,price_per_hour\n" + types},
	})
}

// copies makes a fleet copy MachineDeployments for the instance types of the bench's catalogue.
func (b *bench) copies(models []string, change ...func(*v1alpha1.MachineTemplate)) func(*v1alpha1.NodeFleetSpec) {
	return func(s *v1alpha1.NodeFleetSpec) {
		s.Pricing.Catalogue = &v1alpha1.PriceCatalogue{Namespace: home, Name: "prices-" + b.Space, Key: "flavors.csv"}
		s.ClusterAPI = &v1alpha1.ClusterAPIFlavors{Namespace: b.Space}
		for _, model := range models {
			t := v1alpha1.MachineTemplate{MachineDeployment: model}
			for _, f := range change {
				f(&t)
			}
			s.ClusterAPI.Templates = append(s.ClusterAPI.Templates, t)
		}
	}
}

// in sets the field of the instance type.
func in(field string) func(*v1alpha1.MachineTemplate) {
	return func(t *v1alpha1.MachineTemplate) { t.InstanceTypeField = field }
}

// autoscaleStrictly runs the autoscaler with only the permissions in the manifests. The API server rejects
// its writes to cluster-api's kinds if they have unknown fields, which it would otherwise drop.
func (b *bench) autoscaleStrictly() {
	b.Helper()
	strict := func(next http.RoundTripper) http.RoundTripper {
		return kit.Transport(func(r *http.Request) (*http.Response, error) {
			if kit.Writes(r) && r.Method != http.MethodDelete && strings.Contains(r.URL.Path, "cluster.x-k8s.io/") {
				r = r.Clone(r.Context())
				query := r.URL.Query()
				query.Set("fieldValidation", metav1.FieldValidationStrict)
				r.URL.RawQuery = query.Encode()
			}
			return next.RoundTrip(r)
		})
	}
	b.autoscale(func(o *app.Options) {
		o.Config.Impersonate = installed
		o.Config.Wrap(strict)
	})
}

// madeTemplates returns the infrastructure templates that were created for a fleet.
func (b *bench) madeTemplates(fleet, version, kind string) []unstructured.Unstructured {
	b.Helper()
	return b.made(fleet, infrastructure+"/"+version, kind)
}

// lacksCopies returns a message unless the fleet named all has this number of copies.
func (b *bench) lacksCopies(p *machineProvider, want int) string {
	b.Helper()
	if deployments, templates := len(b.madeDeployments("all")), len(b.madeTemplates("all", p.version, p.kind)); deployments != want || templates != want {
		return fmt.Sprintf("there are %d MachineDeployments and %d templates, want %d", deployments, templates, want)
	}
	return ""
}

// podFor returns a pod for a machine of a copy of one model.
func (b *bench) podFor(model string) *corev1.Pod {
	return b.pod(model, "3", "5Gi", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"model": model} })
}

// read returns an object of the bench's namespace.
func (b *bench) read(group, kind, name string) *unstructured.Unstructured {
	b.Helper()
	found := &unstructured.Unstructured{}
	found.SetAPIVersion(group)
	found.SetKind(kind)
	if err := b.Get(b.Context(), client.ObjectKey{Namespace: b.Space, Name: name}, found); err != nil {
		b.Fatalf("read %s %s: %v", kind, name, err)
	}
	return found
}

// set sets a field of an object.
func (b *bench) set(object *unstructured.Unstructured, value any, path string) {
	b.Helper()
	if err := unstructured.SetNestedField(object.Object, value, strings.Split(path, ".")...); err != nil {
		b.Fatal(err)
	}
}

func TestTheTemplatesThatProvidersPublishAreCopiedAsTheyAre(t *testing.T) {
	for _, p := range machineProviders {
		t.Run(p.folder, func(t *testing.T) {
			b := newConvertingBench(t, strings.ReplaceAll(p.folder, "-", ""))
			b.define(p.folder)
			paths, err := filepath.Glob(published(p.folder) + "/*.yaml")
			if err != nil || len(paths) == 0 {
				t.Fatalf("it has %d templates: %v", len(paths), err)
			}
			var models []string
			for _, path := range paths {
				models = append(models, b.publish(path, p.values)...)
			}
			b.offer(p.types)
			b.fleet("all", b.copies(models, in(p.wrong[0])))
			b.autoscaleStrictly()
			for _, wrong := range p.wrong {
				b.change("all", b.copies(models, in(wrong)))
				want := fmt.Sprintf("spec.clusterAPI.templates[%s].instanceTypeField: %s %s has no text in %s", models[0], p.kind, models[0], wrong)
				b.Eventually("the fleet is refused for "+wrong, func() string {
					if message := b.has("all", v1alpha1.FleetReady, metav1.ConditionFalse, "InstanceTypeFieldMissing"); !strings.HasPrefix(message, want) {
						return message
					}
					return ""
				})
			}
			for _, model := range models { // they wait meanwhile
				b.Make(b.podFor(model))
			}
			b.wait(len(models))
			if made := len(b.madeDeployments("all")) + len(b.madeTemplates("all", p.version, p.kind)); made > 0 {
				t.Errorf("%d objects were made for a fleet that is refused", made)
			}

			b.change("all", b.copies(models))
			b.has("all", v1alpha1.FleetReady, metav1.ConditionTrue, "Reconciled")
			b.Eventually("each is copied", func() string { return b.lacksCopies(&p, len(models)) })
			for _, d := range b.madeDeployments("all") {
				b.isCopy(&p, &d)
			}
		})
	}
}

// isCopy checks that a MachineDeployment and its template equal their models, except for what must differ, in
// each version that the API server serves.
func (b *bench) isCopy(p *machineProvider, d *unstructured.Unstructured) {
	b.Helper()
	labels := d.GetAnnotations()[nodeLabels]
	from, _, _ := strings.Cut(strings.TrimPrefix(labels, "model="), ",")
	model := b.read("cluster.x-k8s.io/v1beta2", "MachineDeployment", from)
	cluster, _, _ := unstructured.NestedString(model.Object, "spec", "clusterName")
	b.set(model, int64(1), "spec.replicas")
	b.set(model, map[string]any{"cluster.x-k8s.io/cluster-name": cluster, deploymentName: d.GetName()}, "spec.selector.matchLabels")
	if err := unstructured.SetNestedField(model.Object, d.GetName(), "spec", "template", "metadata", "labels", deploymentName); err != nil {
		b.Fatal(err)
	}
	b.set(model, d.GetName(), "spec.template.spec.infrastructureRef.name")
	if diff := cmp.Diff(model.Object["spec"], d.Object["spec"]); diff != "" {
		b.Errorf("the copy of MachineDeployment %s (-want +got):\n%s", from, diff)
	}
	if want := "model=" + from + ",node.kubernetes.io/instance-type=" + p.buys; !strings.HasPrefix(labels, want) {
		b.Errorf("machines of the copy have the labels %s, want %s", labels, want)
	}

	old := b.read("cluster.x-k8s.io/v1beta1", "MachineDeployment", d.GetName())
	ref, _, _ := unstructured.NestedMap(old.Object, "spec", "template", "spec", "infrastructureRef")
	want := map[string]any{"apiVersion": infrastructure + "/" + p.version, "kind": p.kind, "name": d.GetName(), "namespace": b.Space}
	if diff := cmp.Diff(want, ref); diff != "" {
		b.Errorf("what the copy of %s refers to in v1beta1 (-want +got):\n%s", from, diff)
	}

	template, made := b.read(infrastructure+"/"+p.version, p.kind, from), b.read(infrastructure+"/"+p.version, p.kind, d.GetName())
	b.set(template, p.buys, p.field)
	if diff := cmp.Diff(template.Object["spec"], made.Object["spec"]); diff != "" {
		b.Errorf("the copy of %s %s (-want +got):\n%s", p.kind, from, diff)
	}
	if diff := cmp.Diff(map[string]string{v1alpha1.LabelFleet: b.Space + "-all", "cluster.x-k8s.io/cluster-name": oneCluster}, made.GetLabels()); diff != "" {
		b.Errorf("labels of the copy of %s %s (-want +got):\n%s", p.kind, from, diff)
	}
}

// TestACopyThatTheKindDoesNotAllowIsNotHalfMade sets the instance type in an enum field of the template.
func TestACopyThatTheKindDoesNotAllowIsNotHalfMade(t *testing.T) {
	for folder, tc := range map[string]struct{ file, field string }{
		"aws":   {"cluster-template-ipv6.yaml", "spec.template.spec.instanceMetadataOptions.httpProtocolIpv6"},
		"azure": {"cluster-template-ephemeral.yaml", "spec.template.spec.osDisk.cachingType"},
	} {
		t.Run(folder, func(t *testing.T) {
			p := &machineProviders[slices.IndexFunc(machineProviders, func(p machineProvider) bool { return p.folder == folder })]
			b := newConvertingBench(t, folder+"words")
			b.define(folder)
			models := b.publish(published(folder)+"/"+tc.file, p.values)
			b.offer(p.types)
			b.fleet("all", b.copies(models, in(tc.field)))
			b.autoscaleStrictly()
			b.Make(b.podFor(models[0]))
			message := b.has("all", v1alpha1.FleetReady, metav1.ConditionFalse, "Failed")
			for _, want := range []string{"create " + p.kind + " " + b.Space + "/", tc.field + `: Unsupported value: "` + p.buys + `"`} {
				if !strings.Contains(message, want) {
					t.Errorf("the fleet says %q, want %q in it", message, want)
				}
			}
			if made := len(b.madeDeployments("all")) + len(b.madeTemplates("all", p.version, p.kind)); made > 0 {
				t.Errorf("%d objects were made", made)
			}
			b.change("all", b.copies(models))
			b.Eventually("it is copied", func() string { return b.lacksCopies(p, 1) })
		})
	}
}

// TestMachinesOfOneSizeAreBoughtOfMachineDeploymentsThatAFleetNames uses the kinds of cluster-api's Docker
// provider: a fleet cannot copy them for other instance types, and reports what it can do.
func TestMachinesOfOneSizeAreBoughtOfMachineDeploymentsThatAFleetNames(t *testing.T) {
	b := newConvertingBench(t, "docker")
	b.define("docker")
	b.offer("small,1.9,3.5,0.05\nlarge,3.9,7.5,0.1\n")
	dev, docker := b.publish(published("docker")+"/md.yaml", nil), b.publish(published("docker")+"/simple-cluster.yaml", nil)
	b.fleet("all", b.copies(dev))
	b.autoscaleStrictly()
	for kind, models := range map[string][]string{"DevMachineTemplate": dev, "DockerMachineTemplate": docker} {
		b.change("all", b.copies(models))
		want := fmt.Sprintf("spec.clusterAPI.templates[%s]: %s has no instance type, because its machines are all of one size: specify MachineDeployments in spec.clusterAPI.names", models[0], kind)
		b.Eventually("the fleet is refused for "+kind, func() string {
			if message := b.has("all", v1alpha1.FleetReady, metav1.ConditionFalse, "InstanceTypeFieldUnknown"); !strings.HasPrefix(message, want) {
				return message
			}
			return ""
		})
	}

	named := b.read("cluster.x-k8s.io/v1beta2", "MachineDeployment", docker[0])
	annotations := named.GetAnnotations()
	for key, value := range map[string]string{
		"capacity.cluster-autoscaler.kubernetes.io/cpu": "4", "capacity.cluster-autoscaler.kubernetes.io/memory": "8Gi", v1alpha1.AnnotationPricePerHour: "0.1",
	} {
		annotations[key] = value
	}
	named.SetAnnotations(annotations)
	testapi.Update(t, b, named)
	b.Make(b.podFor(docker[0]))
	b.change("all", func(s *v1alpha1.NodeFleetSpec) {
		s.ClusterAPI = &v1alpha1.ClusterAPIFlavors{Namespace: b.Space, Names: docker}
	})
	b.Eventually("a machine is ordered", func() string {
		d := b.read("cluster.x-k8s.io/v1beta2", "MachineDeployment", docker[0])
		if replicas, _, _ := unstructured.NestedInt64(d.Object, "spec", "replicas"); replicas != 1 {
			return fmt.Sprintf("it has %d replicas", replicas)
		}
		return ""
	})
	if made := len(b.madeDeployments("all")) + len(b.madeTemplates("all", "v1beta2", "DockerMachineTemplate")); made > 0 {
		t.Errorf("%d objects were made", made)
	}
}
