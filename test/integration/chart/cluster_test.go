package chart

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
	"supercargo.dev/supercargo/test/kit/testwait"
)

// cluster is a control plane with two nodes, which kwok simulates, and without Supercargo's CRDs.
type cluster struct {
	*testing.T
	client.Client
	*playground.Playground
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{T: t, Playground: playground.ForTest(t, playground.Options{
		Nodes: []playground.NodeSpec{{Name: "node-a", CPU: "4", Memory: "8Gi"}, {Name: "node-b", CPU: "4", Memory: "8Gi"}},
	})}
	c.Client = kit.NewClient(t, c.Config(), apiregistrationv1.AddToScheme)
	return c
}

// try runs helm or kubectl on the cluster, and returns its whole output.
func (c *cluster) try(name string, args ...string) (string, error) {
	c.Helper()
	out, errs, err := run(c.T, []string{"KUBECONFIG=" + c.KubeconfigPath()}, name, args...)
	return out + errs, err
}

// must runs a command that must succeed.
func (c *cluster) must(name string, args ...string) string {
	c.Helper()
	out, err := c.try(name, args...)
	if err != nil {
		c.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// refuses runs helm, which must fail with the reason why.
func (c *cluster) refuses(why string, args ...string) {
	c.Helper()
	out, err := c.try("helm", args...)
	if err == nil || !strings.Contains(out, why) {
		c.Errorf("helm %s: %v, and it says %q, want %q in it", strings.Join(args, " "), err, out, why)
	}
}

// install returns the arguments that install or upgrade the chart, and wait for its pods.
func (c *cluster) install(command, release, namespace string, v values, more ...string) []string {
	c.Helper()
	args := []string{command, release, chart, "--namespace", namespace, "--wait", "--timeout", "90s"}
	if command == "install" {
		args = append(args, "--create-namespace")
	}
	return append(append(args, v.flags(c.T)...), more...)
}

// args returns the arguments of the descheduler, and its number of replicas.
func (c *cluster) args() ([]string, int32) {
	c.Helper()
	var d appsv1.Deployment
	if err := c.Get(c.Context(), client.ObjectKey{Namespace: home, Name: "supercargo-descheduler"}, &d); err != nil {
		c.Fatal(err)
	}
	return d.Spec.Template.Spec.Containers[0].Args, *d.Spec.Replicas
}

// theirs returns objects of users, one in each place from which a release could delete them.
func (c *cluster) theirs() []client.Object {
	c.Helper()
	fleet := kit.Objects(c.T, manifests+"samples/nodefleet.yaml")[0]
	migration := &v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "work", Finalizers: []string{v1alpha1.FinalizerMigration}}}
	migration.Spec.PodName = "work"
	all := []client.Object{
		fleet, migration,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "credentials"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "supercargo-probing", Name: "learned"}},
	}
	for _, object := range all {
		if err := c.Create(c.Context(), object); err != nil {
			c.Fatal(err)
		}
	}
	return all
}

// keeps checks that objects still exist.
func (c *cluster) keeps(after string, objects []client.Object) {
	c.Helper()
	for _, object := range objects {
		if err := c.Get(c.Context(), client.ObjectKeyFromObject(object), object); err != nil || object.GetDeletionTimestamp() != nil {
			c.Errorf("after %s: %T %s: %v, deleted at %v", after, object, object.GetName(), err, object.GetDeletionTimestamp())
		}
	}
}

// waits polls until check returns no error.
func (c *cluster) waits(what string, check func() error) {
	c.Helper()
	testwait.Until(c, time.Minute, what, func() string { return kit.Message(check()) })
}

// parts returns values for all parts except the metrics adapter: no pod serves its APIs here, and meanwhile
// no namespace can be deleted.
func parts() values {
	v := values{}
	for key, value := range everything {
		if key != "metricsAdapter.enabled" {
			v[key] = value
		}
	}
	return v
}

// TestUsersKeepTheirsThroughTheLifeOfARelease installs, upgrades, rolls back and uninstalls.
func TestUsersKeepTheirsThroughTheLifeOfARelease(t *testing.T) {
	c := newCluster(t)
	c.refuses("install or upgrade the chart supercargo-crds first", c.install("install", "supercargo", home, nil)...)
	if out := c.must("helm", "list", "--all-namespaces", "--short"); out != "" {
		t.Errorf("what was refused left releases: %s", out)
	}
	c.must("helm", "install", "supercargo-crds", kinds, "--wait", "--timeout", "60s")
	c.must("kubectl", "delete", "crd", "workerpools.supercargo.dev", "--timeout=60s")
	c.waits("an installation without one of the kinds is refused", func() error {
		out, err := c.try("helm", c.install("install", "supercargo", home, parts(), "--dry-run=server")...)
		if err == nil || !strings.Contains(out, "kind WorkerPool of supercargo.dev/v1alpha1 is missing") {
			return fmt.Errorf("helm says %q", out)
		}
		return nil
	})
	c.must("helm", "upgrade", "supercargo-crds", kinds, "--wait", "--timeout", "60s")
	c.must("helm", c.install("install", "supercargo", home, parts())...)
	theirs := c.theirs()
	plain, _ := c.args()
	c.serveEvictions()

	c.must("helm", "upgrade", "supercargo-crds", kinds)
	more := parts()
	more["descheduler.options"], more["descheduler.replicas"], more["evictions.mode"] = values{"consolidation": "Act", "max-migrations": 11}, 3, "closed"
	c.must("helm", c.install("upgrade", "supercargo", home, more)...)
	if got, n := c.args(); !slices.Contains(got, "--consolidation=Act") || len(got) != len(plain)+1 || n != 3 {
		t.Errorf("after the upgrade %d deschedulers have %q, want 3 with one argument more than %q", n, got, plain)
	}
	c.servesEvictions(admissionv1.Fail)
	c.must("helm", "rollback", "supercargo", "1", "--namespace", home, "--wait", "--timeout", "90s")
	if got, n := c.args(); !slices.Equal(got, plain) || n != 2 {
		t.Errorf("after the roll-back %d deschedulers have %q, want 2 with %q", n, got, plain)
	}
	c.servesEvictions(admissionv1.Ignore)
	c.keeps("an upgrade and a roll-back", theirs)

	const why = "release supercargo in namespace " + home + " has ClusterRole supercargo-"
	c.refuses(why, c.install("install", "another", home, nil)...)
	c.refuses(why, c.install("install", "supercargo", "elsewhere", only(values{"autoscaler.enabled": true}))...)

	c.must("helm", "uninstall", "supercargo", "--namespace", home, "--wait", "--timeout", "90s")
	c.must("helm", "uninstall", "supercargo-crds")
	c.keeps("both were uninstalled", theirs)
	c.left()
	c.must("helm", "install", "supercargo-crds", kinds)
	c.must("helm", c.install("install", "supercargo", home, parts())...)
	c.keeps("both were installed again", theirs)
}

// serveEvictions writes what the webhook writes when it begins to serve.
func (c *cluster) serveEvictions() {
	c.Helper()
	authority, _, err := cert.GenerateSelfSignedCertKey("supercargo-descheduler", nil, nil)
	if err != nil {
		c.Fatal(err)
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": authority},
		{"op": "add", "path": "/webhooks/0/clientConfig/service/path", "value": "/evictions/secret"},
	})
	if err != nil {
		c.Fatal(err)
	}
	w := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "supercargo-evictions"}}
	if err := c.Patch(c.Context(), w, client.RawPatch("application/json-patch+json", patch), client.FieldOwner("descheduler")); err != nil {
		c.Fatal(err)
	}
}

// servesEvictions checks that the webhook configuration is still in use.
func (c *cluster) servesEvictions(policy admissionv1.FailurePolicyType) {
	c.Helper()
	var w admissionv1.ValidatingWebhookConfiguration
	if err := c.Get(c.Context(), client.ObjectKey{Name: "supercargo-evictions"}, &w); err != nil {
		c.Fatal(err)
	}
	at := w.Webhooks[0]
	if len(at.ClientConfig.CABundle) == 0 || at.ClientConfig.Service.Path == nil || *at.ClientConfig.Service.Path != "/evictions/secret" || *at.FailurePolicy != policy {
		c.Errorf("the webhook is %+v with failurePolicy %s, want %s, and the path and the authority that the descheduler wrote", at.ClientConfig, *at.FailurePolicy, policy)
	}
}

// left checks which objects of Supercargo remain after uninstalling: the namespace of learned data, and
// objects that no release has created.
func (c *cluster) left(others ...string) {
	c.Helper()
	c.waits("the namespace of the node agents goes", func() error {
		err := c.Get(c.Context(), client.ObjectKey{Name: "supercargo-agent"}, &corev1.Namespace{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is still there"))
	})
	kinds := "namespaces,clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts,deployments,daemonsets,services,configmaps,poddisruptionbudgets," +
		"networkpolicies,validatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings"
	got := strings.Fields(c.must("kubectl", "get", kinds, "--all-namespaces", "--selector", "app.kubernetes.io/part-of=supercargo", "--output", "name"))
	if want := append([]string{"namespace/supercargo-probing"}, others...); !slices.Equal(got, want) {
		c.Errorf("uninstalling leaves %q, want %q", got, want)
	}
}

// TestWhatOthersInstalledIsNotTakenSilently starts with the objects that kustomize has installed, and with an
// existing metrics API and the CRDs of a monitoring system.
func TestWhatOthersInstalledIsNotTakenSilently(t *testing.T) {
	c := newCluster(t)
	c.must("kubectl", "apply", "-k", manifests+"base")
	c.must("kubectl", "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	c.must("kubectl", "apply", "-k", manifests+"autoscaler")
	theirs := c.theirs()
	c.monitors()
	c.waits("the kinds of the monitoring system are served", func() error {
		out, err := c.try("kubectl", "get", "podmonitors,servicemonitors,prometheusrules", "--all-namespaces")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	local := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1beta1.external.metrics.k8s.io"}, Spec: apiregistrationv1.APIServiceSpec{
		Group: "external.metrics.k8s.io", Version: "v1beta1", GroupPriorityMinimum: 100, VersionPriority: 100, InsecureSkipTLSVerify: true,
		Service: &apiregistrationv1.ServiceReference{Namespace: "keda", Name: "keda-operator-metrics-apiserver"},
	}}
	testapi.Create(t, c.Client, local)

	const theirsStill = "invalid ownership metadata"
	c.refuses(theirsStill, "install", "supercargo-crds", kinds)
	c.must("helm", "install", "supercargo-crds", kinds, "--take-ownership")
	c.refuses(theirsStill, c.install("install", "supercargo", home, nil)...)
	c.keeps("the refusal", theirs)
	adapter := values{"metricsAdapter.enabled": true, "nodeAgent.enabled": true}
	c.refuses("APIService v1beta1.external.metrics.k8s.io already refers to Service keda/keda-operator-metrics-apiserver: set metricsAdapter.externalMetrics to false",
		c.install("install", "supercargo", home, adapter, "--take-ownership", "--force-conflicts")...)
	adapter["metricsAdapter.externalMetrics"] = false
	c.must("helm", c.install("install", "supercargo", home, adapter, "--take-ownership", "--force-conflicts")...)
	c.keeps("the release took over", theirs)
	out := c.must("kubectl", "get", "podmonitors,servicemonitors,prometheusrules", "--namespace", home, "--output", "name")
	for _, want := range []string{"podmonitor.monitoring.coreos.com/supercargo-autoscaler", "servicemonitor.monitoring.coreos.com/supercargo-metrics-adapter", "prometheusrule.monitoring.coreos.com/supercargo-node-agent"} {
		if !strings.Contains(out, want) {
			t.Errorf("the cluster has the kinds of monitors, and the release made %s, want %s", out, want)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(local), local); err != nil || local.Spec.Service.Namespace != "keda" {
		t.Errorf("the metrics API of others: %v, %v", local.Spec.Service, err)
	}
	// While an API without a server is registered, no namespace can be deleted. The release does not remove
	// those of others, and removes its own before the namespace of the agents.
	testapi.Delete(t, c.Client, local)
	c.must("helm", "uninstall", "supercargo", "--namespace", home, "--wait", "--timeout", "90s")
	c.left("namespace/supercargo-system") // manifests/base has created it
	c.keeps("the release was uninstalled", theirs)
}

// monitors creates the CRDs of Prometheus Operator.
func (c *cluster) monitors() {
	c.Helper()
	for _, kind := range operatorKinds(c.T) {
		if err := c.Create(c.Context(), kind); err != nil {
			c.Fatal(err)
		}
	}
}
