// Package install tests the documentation of installing and removing the parts of Supercargo on a real API
// server, with the real kubectl: that no part removes what others need, that options persist beside each
// other, and that a webhook is served because it is installed.
package install

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/descheduler/eviction"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
	"supercargo.dev/supercargo/test/kit/testfile"
	"supercargo.dev/supercargo/test/kit/testwait"
)

const (
	manifests = "../../../manifests/"
	docs      = "../../../docs/"
	home      = "supercargo-system"
)

func TestMain(m *testing.M) { os.Exit(kit.Main(m, "1")) }

// cluster is a control plane without nodes, on which nothing is installed: pods stay pending.
type cluster struct {
	*testing.T
	client.Client
	*playground.Playground
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{T: t, Playground: playground.ForTest(t, playground.Options{NoScheduler: true})}
	c.Client = kit.NewClient(t, c.Config())
	return c
}

// run runs a program with bin/kubectl in its path and the cluster's kubeconfig.
func (c *cluster) run(name string, args ...string) (string, error) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), 2*time.Minute)
	defer cancel()
	if _, err := exec.LookPath("kubectl"); err != nil {
		c.Fatalf("find kubectl: %v: build it by `make bin/kubectl` and put bin/ into PATH", err)
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "HOME="+c.TempDir(), "KUBECONFIG="+c.KubeconfigPath())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// kubectl runs kubectl, which must succeed.
func (c *cluster) kubectl(args ...string) string {
	c.Helper()
	out, err := c.run("kubectl", args...)
	if err != nil {
		c.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// install applies folders of the manifests, as the documentation does.
func (c *cluster) install(parts ...string) {
	c.Helper()
	for _, part := range parts {
		c.kubectl("apply", "--server-side", "-k", manifests+part)
	}
}

// waits polls until check returns no error.
func (c *cluster) waits(what string, check func() error) {
	c.Helper()
	testwait.Until(c, time.Minute, what, func() string { return kit.Message(check()) })
}

// installBase applies manifests/base and waits until the CRDs are established.
func (c *cluster) installBase() {
	c.Helper()
	c.kubectl("apply", "-k", manifests+"base")
	c.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
}

// TestRemovingAPartLeavesTheOthers removes one part after the other, and checks each time that everything
// else still exists: objects of the other parts, CRDs, namespaces, and objects of users.
func TestRemovingAPartLeavesTheOthers(t *testing.T) {
	c := newCluster(t)
	c.installBase()
	// In the order in which docs/operations.md removes them.
	parts := []string{"evictions/closed", "adapter", "workers", "openstack", "karpenter", "catalogue", "descheduler", "agent", "meter", "autoscaler", "scheduler/second", "network"}
	c.install(parts...)
	fleet := kit.Objects(t, manifests+"samples/nodefleet.yaml")[0]
	migration := &v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "work", Finalizers: []string{v1alpha1.FinalizerMigration}}}
	migration.Spec.PodName = "work"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "credentials"}}
	learned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "supercargo-probing", Name: "learned"}}
	theirs := []client.Object{fleet, migration, secret, learned}
	for _, object := range theirs {
		testapi.Create(t, c.Client, object)
	}
	for i, part := range parts {
		c.kubectl("delete", "-k", manifests+part, "--timeout=90s")
		for _, other := range append([]string{"base"}, parts[i+1:]...) {
			if out, err := c.run("kubectl", "get", "-k", manifests+other, "-o", "name"); err != nil {
				t.Errorf("after manifests/%s was deleted, manifests/%s is no longer whole: %s", part, other, out)
			}
		}
		for _, object := range theirs {
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil || object.GetDeletionTimestamp() != nil {
				t.Errorf("after manifests/%s was deleted: %T %s: %v, deleted at %v", part, object, object.GetName(), err, object.GetDeletionTimestamp())
			}
		}
		if t.Failed() {
			return // later failures are consequences
		}
	}
	c.removeBase(migration)
}

// removeBase deletes the CRDs although a Migration waits for a descheduler that is gone. It first removes the
// finalizer of the Migration, as docs/operations.md describes.
func (c *cluster) removeBase(migration *v1alpha1.Migration) {
	c.Helper()
	if err := c.Delete(c.Context(), migration); err != nil {
		c.Fatal(err)
	}
	if err := c.Get(c.Context(), client.ObjectKeyFromObject(migration), migration); err != nil {
		c.Fatalf("nobody is there to end the Migration, and it has gone: %v", err)
	}
	release := c.commands("operations.md", `\bfinalizers\b`)
	if len(release) != 1 {
		c.Fatalf("docs/operations.md has %d commands about finalizers, want 1: %q", len(release), release)
	}
	if out, err := c.run("sh", "-c", strings.NewReplacer("NAMESPACE", "default", "NAME", "work").Replace(release[0])); err != nil {
		c.Fatalf("%s: %v\n%s", release[0], err, out)
	}
	c.kubectl("delete", "-k", manifests+"base", "--timeout=90s")
	if out := c.kubectl("get", "crd", "-o", "name"); strings.Contains(out, v1alpha1.GroupName) {
		c.Errorf("kinds are left: %s", out)
	}
}

// commands returns the commands of a page that match, with continued lines joined.
func (c *cluster) commands(page, match string) (found []string) {
	c.Helper()
	text := testfile.Read(c, docs+page)
	text = bytes.ReplaceAll(text, []byte("\\\n"), nil)
	for _, line := range strings.Split(string(text), "\n") {
		if command := strings.TrimSpace(line); strings.HasPrefix(command, "kubectl ") && regexp.MustCompile(match).MatchString(command) {
			found = append(found, command)
		}
	}
	return found
}

// TestTheOptionsOfThePagesOutlastEachOther runs each command of the documentation that sets an option of the
// descheduler, and applies its manifests again.
func TestTheOptionsOfThePagesOutlastEachOther(t *testing.T) {
	c := newCluster(t)
	c.installBase()
	c.kubectl("apply", "-k", manifests+"descheduler")
	args := func() []string {
		t.Helper()
		var d appsv1.Deployment
		testapi.Get(t, c.Client, client.ObjectKey{Namespace: home, Name: "supercargo-descheduler"}, &d)
		return d.Spec.Template.Spec.Containers[0].Args
	}
	plain := args()
	var commands []string
	for _, page := range []string{"consolidation.md", "energy.md", "machine-profiles.md"} {
		commands = append(commands, c.commands(page, `patch deployment supercargo-descheduler\b`)...)
	}
	if len(commands) < 3 {
		t.Fatalf("the pages have only %q", commands)
	}
	for i, command := range commands {
		if out, err := c.run("sh", "-c", command); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		if got := args(); len(got) != len(plain)+i+1 {
			t.Errorf("after %s the arguments are %q, want one more than before", command, got)
		}
	}
	c.kubectl("apply", "-k", manifests+"evictions/open")
	c.kubectl("apply", "-k", manifests+"descheduler")
	if got := strings.Join(args(), " "); got != strings.Join(plain, " ") || strings.Contains(got, "eviction") {
		t.Errorf("the manifests give the descheduler %q, want %q, and nothing that turns evictions on or off", got, plain)
	}
}

// TestTheWebhookIsServedUnderItsOwnAccount starts the webhook with no flag except its port, and only with the
// permissions in its manifests.
func TestTheWebhookIsServedUnderItsOwnAccount(t *testing.T) {
	c := newCluster(t)
	c.installBase()
	c.install("descheduler", "evictions/closed")
	address, log := freeAddress(t), &kit.Log{}
	stop := c.answer(address, log)
	c.callAt(address)
	if err := c.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "work"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "work", Image: "work:1"}}},
	}); err != nil {
		t.Fatal(err)
	}
	evict := func() error {
		return c.Playground.Client().PolicyV1().Evictions("default").Evict(t.Context(), &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "work"}, DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
		})
	}
	answered := func() error {
		before := answers(t)
		if err := evict(); err != nil {
			return err
		}
		if answers(t) == before {
			return errors.New("the API server did not ask the webhook")
		}
		return nil
	}
	c.waits("evictions are answered", answered)
	c.kubectl("apply", "--server-side", "-k", manifests+"descheduler")
	if err := answered(); err != nil {
		t.Errorf("after the descheduler's manifests were applied again: %v", err)
	}
	stop()
	if err := evict(); !apierrors.IsInternalError(err) {
		t.Errorf("with nobody who serves the webhook the eviction is answered with %v, want the failurePolicy's refusal", err)
	}
	if t.Failed() {
		t.Log(log.Tail(40))
	}
}

// TestWhoTakesOverTheWebhookGetsNoPods tries, with the account of the webhook, which answers every client
// that reaches its port, what an attacker would do with the descheduler's account.
func TestWhoTakesOverTheWebhookGetsNoPods(t *testing.T) {
	c := newCluster(t)
	c.installBase()
	c.install("descheduler", "evictions/open")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "attacked"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "work"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "work", Image: "work:1"}}}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "credentials"}}
	migration := &v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "work"}}
	migration.Spec.PodName = "work"
	for _, object := range []client.Object{node, pod, secret, migration} {
		testapi.Create(t, c.Client, object)
	}
	as, err := client.New(c.as("supercargo-evictions"), client.Options{Scheme: c.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"taken":"over"}}}`))
	more := pod.DeepCopy()
	more.ResourceVersion, more.Name = "", "more"
	token := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "supercargo-descheduler"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
	for attack, do := range map[string]func() error{
		"obtain the token of the descheduler": func() error { return as.Create(t.Context(), token) },
		"make a pod":                          func() error { return as.Create(t.Context(), more) },
		"delete a pod":                        func() error { return as.Delete(t.Context(), pod) },
		"change a pod":                        func() error { return as.Patch(t.Context(), pod, patch) },
		"change a node":                       func() error { return as.Patch(t.Context(), node, patch) },
		"change a Migration":                  func() error { return as.Patch(t.Context(), migration, patch) },
		"give an order to the agent": func() error {
			return as.Status().Patch(t.Context(), migration, client.RawPatch(types.MergePatchType, []byte(`{"status":{"order":"Kill"}}`)))
		},
		"delete a Migration": func() error { return as.Delete(t.Context(), migration) },
		"read a Secret":      func() error { return as.Get(t.Context(), client.ObjectKeyFromObject(secret), &corev1.Secret{}) },
		"read Secrets of its own namespace": func() error {
			return as.List(t.Context(), &corev1.SecretList{}, client.InNamespace(home))
		},
		"list all pods": func() error { return as.List(t.Context(), &corev1.PodList{}) },
	} {
		if err := do(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want that it is forbidden", attack, err)
		}
	}
	own := &corev1.Secret{}
	if err := as.Get(t.Context(), client.ObjectKey{Namespace: home, Name: "supercargo-evictions"}, own); err != nil {
		t.Fatal(err)
	}
	own.Type, own.Annotations = token.Type, token.Annotations
	if err := as.Update(t.Context(), own); !apierrors.IsInvalid(err) {
		t.Errorf("make its own Secret the token of the descheduler: %v, want that the type cannot be changed", err)
	}
}

// as returns the client configuration of an account, with its permissions.
func (c *cluster) as(account string) *rest.Config {
	config := rest.CopyConfig(c.Config())
	config.Impersonate = kit.ServiceAccount(home, account)
	return config
}

// answer runs the webhook until stop is called, with its permissions and its defaults except for its address
// and host name.
func (c *cluster) answer(address string, log *kit.Log) (stop func()) {
	c.Helper()
	o := app.EvictionDefaults()
	o.Options = operator.Options{Config: operator.Throttle(c.as("supercargo-evictions")), MetricsAddress: "0", ProbeAddress: "0", Log: log.Logger("evictions")}
	o.Evictions.Address, o.Evictions.Hosts = address, []string{"127.0.0.1"}
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
	ended := make(chan error, 1)
	go func() { ended <- app.RunEvictions(ctx, o) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			c.Errorf("the webhook: %v", err)
		}
	})
	c.Cleanup(stop)
	return stop
}

// callAt makes the API server call the webhook at an address, because it reaches no Services here, and waits
// until the API server has its CA. The path, which contains a secret, stays as the webhook has written it.
func (c *cluster) callAt(address string) {
	c.Helper()
	key := client.ObjectKey{Name: "supercargo-evictions"}
	c.waits("the webhook is given a URL and an authority", func() error {
		var w admissionv1.ValidatingWebhookConfiguration
		if err := c.Get(c.Context(), key, &w); err != nil {
			return err
		}
		if at := &w.Webhooks[0].ClientConfig; at.URL == nil {
			at.URL, at.Service = new("https://"+address+ptr.Deref(at.Service.Path, eviction.Path)), nil
			if err := c.Update(c.Context(), &w); err != nil {
				return err
			}
		}
		if len(w.Webhooks[0].ClientConfig.CABundle) == 0 {
			return errors.New("the webhook has given it no authority")
		}
		return nil
	})
}

// answers returns how many evictions the webhooks of this process have answered.
func answers(t *testing.T) (n float64) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "supercargo_eviction_answers_total" {
			for _, m := range family.GetMetric() {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// freeAddress returns an address of this machine that was free.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }() // nothing was sent
	return listener.Addr().String()
}
