// Package dashboard tests the page of `supercargo dashboard` with a real API server.
package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/dashboard"
	"supercargo.dev/supercargo/cli/dashboard/connection"
	"supercargo.dev/supercargo/cli/status"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit/testapi"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// long is the timeout for what the cluster does within seconds.
const long = 90 * time.Second

// clientOf returns a client for all kinds that are shown.
func clientOf(t *testing.T, config *rest.Config) client.WithWatch {
	t.Helper()
	scheme, err := dashboard.Kinds()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// linkTo returns a link to the API server of a configuration.
func linkTo(t *testing.T, config *rest.Config) *dashboard.Link {
	t.Helper()
	l, err := dashboard.Connect(config)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// run runs a dashboard until the test ends, and returns its address. It fails the test if the dashboard ends
// by itself.
func run(t *testing.T, config *rest.Config) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	server := dashboard.NewServer(dashboard.ServerOptions{Token: "t0ken", Done: ctx.Done()})
	h := httptest.NewServer(server.Handler())
	ended := make(chan error, 1)
	link := linkTo(t, config)
	go func() {
		ended <- dashboard.Run(ctx, dashboard.Options{Link: link, AuditInterval: time.Second, Cycle: 5 * time.Minute, Show: server.Show})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the dashboard: %v", err)
		}
		h.Close()
	})
	return h.URL
}

// reader simulates a browser that receives updates.
type reader struct {
	in    *bufio.Reader
	items map[string]json.RawMessage // keyed by section/key
	raw   strings.Builder            // everything received
}

func listen(t *testing.T, url string) *reader {
	t.Helper()
	jar := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	login, err := jar.Get(url + "/?token=t0ken")
	if err != nil {
		t.Fatal(err)
	}
	login.Body.Close()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range login.Cookies() {
		request.AddCookie(c)
	}
	answer, err := jar.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	return &reader{in: bufio.NewReader(answer.Body), items: map[string]json.RawMessage{}}
}

// until reads updates until is returns true.
func (r *reader) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	event := ""
	for {
		line, err := r.in.ReadString('\n')
		if err != nil {
			t.Fatalf("before %s: read the stream: %v; there is %s", what, err, r.items)
		}
		r.raw.WriteString(line)
		field, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case field == "event":
			event = value
		case field == "data" && event == "reset":
			clear(r.items)
		case field == "data" && event == "items":
			r.apply(t, value)
		case field == "data" && event == "commit" && is():
			return
		}
	}
}

func (r *reader) apply(t *testing.T, data string) {
	t.Helper()
	var changes [][3]json.RawMessage
	testfile.JSON(t, data, &changes)
	for _, c := range changes {
		var section, key string
		testfile.JSON(t, c[0], &section)
		testfile.JSON(t, c[1], &key)
		if r.items[section+"/"+key] = c[2]; string(c[2]) == "null" {
			delete(r.items, section+"/"+key)
		}
	}
}

// read decodes an item, or returns the zero value if it does not exist.
func read[T any](t *testing.T, r *reader, name string) (item T) {
	t.Helper()
	text, is := r.items[name]
	if !is {
		return item
	}
	testfile.JSON(t, text, &item)
	return item
}

// where returns the node on whose bar a pod is shown, and the pod.
func (r *reader) where(t *testing.T, pod string) (string, status.Pod) {
	t.Helper()
	for name := range r.items {
		if strings.HasPrefix(name, "nodes/") {
			n := read[status.Node](t, r, name)
			if i := slices.IndexFunc(n.Pods, func(p status.Pod) bool { return p.Name == pod }); i >= 0 {
				return n.Name, n.Pods[i]
			}
		}
	}
	return "", status.Pod{}
}

func batchPod(name, cpu string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, Labels: map[string]string{v1alpha1.LabelClass: "batch"}, Annotations: map[string]string{v1alpha1.AnnotationRuntime: "17m"},
	}}
	p.Spec.Containers = []corev1.Container{{
		Name: "main", Image: "work", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "hunter2"}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("100Mi")}},
	}}
	return p
}

func TestAPodThatIsScheduledAppearsOnTheBarOfItsNode(t *testing.T) {
	p := playground.ForTest(t, playground.Options{Nodes: playground.Fleet(5)})
	c := clientOf(t, p.Config())
	r := listen(t, run(t, p.Config()))
	r.until(t, "five nodes are shown", func() bool { return read[status.Summary](t, r, "summary/").Nodes == 5 })

	testapi.Create(t, c, batchPod("job", "500m"))
	r.until(t, "the pod is on a bar", func() bool { node, _ := r.where(t, "default/job"); return node != "" })
	shown, pod := r.where(t, "default/job")
	var bound corev1.Pod
	testapi.Get(t, c, client.ObjectKey{Namespace: "default", Name: "job"}, &bound)
	// Its runtime is 17 minutes, of which almost none have passed: with bins of 5 minutes, this is bin 3.
	if shown != bound.Spec.NodeName || pod.Class != "batch" || pod.MilliCPU != 500 || pod.Bin != 3 {
		t.Errorf("%+v on %s, want a batch pod of half a CPU in time bin 3 on %s", pod, shown, bound.Spec.NodeName)
	}

	testapi.Create(t, c, batchPod("giant", "99"))
	waiting := func() string {
		for name := range r.items {
			if strings.HasPrefix(name, "pending/") && strings.Contains(name, "Insufficient cpu") {
				return name
			}
		}
		return ""
	}
	r.until(t, "the pod that is too large waits, and why is said", func() bool { return waiting() != "" })
	if got := read[status.Pending](t, r, waiting()); got.Pods != 1 || !slices.Equal(got.Names, []string{"default/giant"}) {
		t.Errorf("%+v waits, want the giant", got)
	}

	for _, name := range []string{"job", "giant"} {
		testapi.Delete(t, c, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
	}
	r.until(t, "both pods have gone", func() bool { node, _ := r.where(t, "default/job"); return node == "" && waiting() == "" })

	r.until(t, "the cluster is audited", func() bool {
		a := read[status.Summary](t, r, "summary/").Audit
		return a != nil && a.At > 0
	})
	s := read[status.Summary](t, r, "summary/")
	// One node of each type: 0.0198 + 0.0686 + 0.1371 + 0.2746 + 0.5479.
	if got := fmt.Sprintf("%.4f", s.Dollars); got != "1.0480" || s.Audit.Bound > s.Audit.Now.Dollars {
		t.Errorf("$%s an hour, at least %v of %v; want $1.0480, and the bound not above what is paid", got, s.Audit.Bound, s.Audit.Now.Dollars)
	}
	if strings.Contains(r.raw.String(), "hunter2") {
		t.Error("an environment variable of a pod was served")
	}
}

// kinds contains an object of each kind of Supercargo that is listed.
var kinds = []string{`
apiVersion: supercargo.dev/v1alpha1
kind: NodeFleet
metadata: {name: batch}
spec: {clusterAPI: {namespace: default, names: [large]}}
`, `
apiVersion: supercargo.dev/v1alpha1
kind: Migration
metadata: {namespace: default, name: move}
spec: {podName: p}
`, `
apiVersion: supercargo.dev/v1alpha1
kind: ReplicaPolicy
metadata: {namespace: default, name: web}
spec: {target: {name: web}, maxReplicas: 3, law: {name: DoubleThreshold}, metrics: {queries: {utilization: u}}}
`, `
apiVersion: supercargo.dev/v1alpha1
kind: WorkerPool
metadata: {namespace: default, name: blast}
spec: {manager: {address: "m:9123"}, limits: {max: 3}, worker: {resources: {cores: 1, memory: 1Gi}}, template: {spec: {containers: [{name: w, image: w}]}}}
`}

// TestObjectsOfSupercargoAppear installs the CRDs of Supercargo while the page is open.
func TestObjectsOfSupercargoAppear(t *testing.T) {
	p := playground.ForTest(t, playground.Options{NoScheduler: true, NoKwok: true, NoControllerManager: true})
	r := listen(t, run(t, p.Config()))
	r.until(t, "the page is shown", func() bool { return len(r.items) > 0 })
	if err := p.InstallCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := clientOf(t, p.Config())
	for _, text := range kinds {
		var o unstructured.Unstructured
		testfile.YAML(t, text, &o.Object)
		testapi.Create(t, c, &o)
	}
	r.until(t, "one of each kind is shown", func() bool {
		return read[status.Fleet](t, r, "fleets/batch").Name != "" && read[status.Migration](t, r, "migrations/default/move").Pod == "default/p" &&
			read[status.Policy](t, r, "policies/default/web").Unreported != "" && read[status.Pool](t, r, "pools/default/blast").Unreported != ""
	})

	var fleet v1alpha1.NodeFleet
	testapi.Get(t, c, client.ObjectKey{Name: "batch"}, &fleet)
	fleet.Status.ObservedGeneration, fleet.Status.Machines = 1, 3
	fleet.Status.LastDecision = &v1alpha1.FleetDecision{ID: "1", Time: metav1.Now(), Mode: v1alpha1.FleetAct, Summary: "buy 3 large", Expected: v1alpha1.Outcome{DollarsPerHour: "0.3"}}
	if err := c.Status().Update(t.Context(), &fleet); err != nil {
		t.Fatal(err)
	}
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bought"}, EventTime: metav1.NowMicro(), Type: corev1.EventTypeNormal, Reason: "Buying", Action: "Buy", Note: "3 large",
		ReportingController: "supercargo-autoscaler", ReportingInstance: "a", Regarding: corev1.ObjectReference{Kind: "NodeFleet", Name: "batch"},
	}
	other := event.DeepCopy()
	other.Name, other.ReportingController = "other", "somebody-else"
	for _, o := range []client.Object{other, event} {
		testapi.Create(t, c, o)
	}
	r.until(t, "what is decided and told is shown", func() bool {
		return read[status.Decision](t, r, "decisions/NodeFleet/batch/1").Summary == "buy 3 large" && read[status.Decision](t, r, "decisions/Event/default/bought").Summary == "Buying: 3 large"
	})
	if got := read[status.Fleet](t, r, "fleets/batch").Facts; !slices.Contains(got, status.Fact{Name: "Machines", Value: "3"}) {
		t.Errorf("the figures are %v, want 3 machines", got)
	}
	if _, is := r.items["decisions/Event/default/other"]; is {
		t.Error("an Event of somebody else is shown")
	}
}

func TestWhatAUserMayNotReadIsLeftOutAndThatIsSaid(t *testing.T) {
	p := playground.ForTest(t, playground.Options{Nodes: playground.Fleet(2), NoScheduler: true, NoKwok: true, NoControllerManager: true})
	if err := p.InstallCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	admin := clientOf(t, p.Config())
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "viewer"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"list", "watch"}}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "viewer"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "viewer"},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "viewer"}}}
	config := rest.CopyConfig(p.Config())
	config.Impersonate.UserName = "viewer"

	if err := dashboard.Run(t.Context(), dashboard.Options{Link: linkTo(t, config), Cycle: time.Minute, Show: func([]status.Item) {}}); err == nil || !strings.Contains(err.Error(), "permission missing: the dashboard must list and watch nodes") {
		t.Errorf("without any right: %v, want that nodes may not be watched", err)
	}
	for _, o := range []client.Object{role, binding} {
		testapi.Create(t, admin, o)
	}
	r := listen(t, run(t, config))
	const note = "permission missing: you may not list nodefleets.supercargo.dev: the page lacks NodeFleets and their decisions"
	r.until(t, "two nodes and the note are shown", func() bool {
		says := read[connection.Status](t, r, "connection/")
		return read[status.Summary](t, r, "summary/").Nodes == 2 && slices.Contains(says.Notes, note) && strings.HasPrefix(says.NoDecisions, "Not known: NodeFleets")
	})
}
