package adapter

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cmv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	emv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// namespace creates a namespace for a test.
func namespace(t *testing.T, s *kit.Site, name string) {
	t.Helper()
	testapi.Create(t, s.Client, kit.Namespace(name))
}

// why returns the reason of an API error, or the error if it has none.
func why(err error) string {
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason)
	}
	return err.Error()
}

// get sends a request as `kubectl get --raw` does.
func get(t *testing.T, c kubernetes.Interface, path string, into any) error {
	t.Helper()
	text, err := c.Discovery().RESTClient().Get().RequestURI(path).Do(t.Context()).Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// external returns the values of an external metric as "labels=value", or the error.
func external(t *testing.T, c kubernetes.Interface, namespace, metric, selector string) string {
	t.Helper()
	var list emv1beta1.ExternalMetricValueList
	if err := get(t, c, fmt.Sprintf("/apis/external.metrics.k8s.io/v1beta1/namespaces/%s/%s?labelSelector=%s", namespace, metric, selector), &list); err != nil {
		return why(err)
	}
	var all []string
	for _, item := range list.Items {
		all = append(all, fmt.Sprintf("%v=%s", item.MetricLabels, &item.Value))
	}
	return strings.Join(all, " ")
}

// becomes waits until get returns want.
func becomes(t *testing.T, s *kit.Site, what, want string, get func() string) {
	t.Helper()
	s.Eventually(t, kit.Waiting{Patience: kit.Patience, Poll: kit.Poll, Show: func() string { return shared.log.Tail(10) }}, what, func() string {
		if got := get(); got != want {
			return fmt.Sprintf("%q, want %q", got, want)
		}
		return ""
	})
}

func TestBothAPIsAreReadThroughTheAggregator(t *testing.T) {
	t.Parallel()
	s := site(t)
	namespace(t, s, "reads")
	shared.web.set(7, `queue_length{namespace="reads",queue="a"}`)
	shared.web.set(8, `queue_length{namespace="reads",queue="b"}`)
	shared.web.set(9, `queue_length{namespace="other",queue="a"}`)
	becomes(t, s, "the queues of the namespace", "map[queue:a]=7 map[queue:b]=8", func() string { return external(t, s.Playground.Client(), "reads", "queue_length", "") })
	if got, want := external(t, s.Playground.Client(), "reads", "queue_length", "queue%3Db"), "map[queue:b]=8"; got != want {
		t.Errorf("queue b: %s, want %s", got, want)
	}
	if got := external(t, s.Playground.Client(), "reads", "unknown", ""); got != "NotFound" {
		t.Errorf("a metric that is not there: %s, want NotFound", got)
	}
	shared.web.set(1500, `load{namespace="reads",pod="p1"}`)
	shared.web.set(0.5, `load{namespace="reads",pod="p2"}`)
	for _, name := range []string{"p1", "p2", "p3"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "reads", Name: name, Labels: map[string]string{"app": "web"}}}
		pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
		testapi.Create(t, s.Client, pod)
	}
	const pods = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/reads/pods/"
	custom := func(path string) string {
		var list cmv1beta2.MetricValueList
		if err := get(t, s.Playground.Client(), pods+path, &list); err != nil {
			return why(err)
		}
		var all []string
		for _, item := range list.Items {
			all = append(all, fmt.Sprintf("%s %s=%s", item.DescribedObject.Kind, item.DescribedObject.Name, &item.Value))
		}
		return strings.Join(all, " ")
	}
	becomes(t, s, "the load of all pods", "Pod p1=1500 Pod p2=500m", func() string { return custom("*/load?labelSelector=app%3Dweb") })
	if got, want := custom("p2/load"), "Pod p2=500m"; got != want {
		t.Errorf("the load of one pod: %s, want %s", got, want)
	}
	if got := custom("p3/load"); got != "NotFound" {
		t.Errorf("the load of a pod that has none: %s, want NotFound", got)
	}
}

// TestPresetsAreReadThroughTheAggregator reads presets by their names, without a query, restricted to the
// namespace, and those of an Ingress as its own metric.
func TestPresetsAreReadThroughTheAggregator(t *testing.T) {
	t.Parallel()
	s := site(t)
	namespace(t, s, "presets")
	shared.web.set(3, `nginx_connections_reading{namespace="presets"}`)
	shared.web.set(5, `nginx_connections_writing{namespace="presets"}`)
	shared.web.set(50, `nginx_connections_reading{namespace="elsewhere"}`)
	shared.web.set(50, `nginx_connections_writing{namespace="elsewhere"}`)
	shared.web.set(100, `nginx_ingress_controller_requests{namespace="presets",ingress="web",status="200"}`)
	becomes(t, s, "the queue, less the request for the status page", "map[]=7", func() string {
		return external(t, s.Playground.Client(), "presets", "nginx_queue_length", "")
	})
	becomes(t, s, "the arrival rate of an Ingress that nobody asks", "Ingress web=0", func() string {
		var list cmv1beta2.MetricValueList
		path := "/apis/custom.metrics.k8s.io/v1beta2/namespaces/presets/ingresses.networking.k8s.io/web/ingress_nginx_requests_per_second"
		if err := get(t, s.Playground.Client(), path, &list); err != nil {
			return why(err)
		}
		item := list.Items[0]
		return fmt.Sprintf("%s %s=%s", item.DescribedObject.Kind, item.DescribedObject.Name, &item.Value)
	})
}

func TestWhoMayNotIsRefusedAtTheAggregator(t *testing.T) {
	t.Parallel()
	s := site(t)
	namespace(t, s, "rights")
	config := s.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "jane", Groups: []string{"system:authenticated"}}
	jane, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if got := external(t, jane, "rights", "queue_length", ""); got != "Forbidden" {
		t.Errorf("an unauthorised user reads it: %s, want Forbidden", got)
	}
	allow(t, s, "rights", "queue_length", rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "jane"})
	becomes(t, s, "what one may who has been given the right", "", func() string { return external(t, jane, "rights", "queue_length", "") })
	if got := external(t, jane, "default", "queue_length", ""); got != "Forbidden" {
		t.Errorf("in another namespace: %s, want Forbidden", got)
	}
}

// allow grants the permission to read an external metric in a namespace.
func allow(t *testing.T, s *kit.Site, namespace, metric string, subject rbacv1.Subject) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "metrics"}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"external.metrics.k8s.io"}, Resources: []string{metric}, Verbs: []string{"list", "get"}}}}
	binding := &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "metrics"}, Subjects: []rbacv1.Subject{subject}}
	for _, object := range []client.Object{role, binding} {
		testapi.Create(t, s.Client, object)
	}
}

// TestWhoMayNotIsRefusedByTheAdapterItself sends requests without the aggregator. The adapter authenticates
// and authorizes them with the cluster's API server.
func TestWhoMayNotIsRefusedByTheAdapterItself(t *testing.T) {
	t.Parallel()
	s := site(t)
	const name = "direct"
	namespace(t, s, name)
	token := reader(t, s, name)
	ask := direct(t, s)
	const metric, promql = "/apis/external.metrics.k8s.io/v1beta1/namespaces/" + name + "/queue_length", "/prometheus/api/v1/query?query=1"
	for path, want := range map[string]int{metric: 403, promql: 403, "/metrics": 403, "/livez": 200, "/readyz": 200} {
		if got := ask(path, ""); got != want {
			t.Errorf("nobody in particular asks for %s: %d, want %d", path, got, want)
		}
		if got := ask(path, token); got != want {
			t.Errorf("an account without rights asks for %s: %d, want %d", path, got, want)
		}
		if got := ask(path, "forged"); want == 403 && got != 401 {
			t.Errorf("one with a forged token asks for %s: %d, want 401", path, got)
		}
	}
	subject := rbacv1.Subject{Kind: "ServiceAccount", Namespace: name, Name: "reader"}
	allow(t, s, name, "queue_length", subject)
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "direct-reader"}, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "supercargo-metrics-reader"}}
	testapi.Create(t, s.Client, binding)
	for _, path := range []string{metric, promql, "/metrics"} { // a refusal is cached for 10 s
		becomes(t, s, "who has the right asks for "+path, "200", func() string { return fmt.Sprint(ask(path, token)) })
	}
}

// reader creates a ServiceAccount with that name, and returns a token for it.
func reader(t *testing.T, s *kit.Site, namespace string) string {
	t.Helper()
	accounts := s.Playground.Client().CoreV1().ServiceAccounts(namespace)
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	request, err := accounts.CreateToken(t.Context(), "reader", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// direct returns a function that sends a request to the adapter without the aggregator, trusting the CAs that
// the adapter has published, and returns the status code.
func direct(t *testing.T, s *kit.Site) func(path, token string) int {
	t.Helper()
	var published corev1.ConfigMap
	testapi.Get(t, s.Client, client.ObjectKey{Namespace: home, Name: account + "-ca"}, &published)
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM([]byte(published.Data["ca.crt"])) {
		t.Fatalf("no authorities are published: %v", published.Data)
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, ServerName: account + "." + home + ".svc", MinVersion: tls.VersionTLS12}}}
	t.Cleanup(c.CloseIdleConnections)
	return func(path, token string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+shared.address+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := c.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
}

// TestTheCertificateIsWhereOtherReplicasFindIt checks that the permissions in the manifests suffice for this.
func TestTheCertificateIsWhereOtherReplicasFindIt(t *testing.T) {
	t.Parallel()
	s := site(t)
	var secret corev1.Secret
	testapi.Get(t, s.Client, client.ObjectKey{Namespace: home, Name: account + "-certificate"}, &secret)
	var published corev1.ConfigMap
	testapi.Get(t, s.Client, client.ObjectKey{Namespace: home, Name: account + "-ca"}, &published)
	if len(secret.Data[corev1.TLSPrivateKeyKey]) == 0 || string(secret.Data["ca.crt"]) != published.Data["ca.crt"] {
		t.Errorf("the Secret has the authorities\n%s\nand the ConfigMap\n%s", secret.Data["ca.crt"], published.Data["ca.crt"])
	}
}

func TestATargetThatGoesDownHasNoValueRatherThanAnOldOne(t *testing.T) {
	t.Parallel()
	s := site(t)
	namespace(t, s, "doomed")
	value := func() string { return external(t, s.Playground.Client(), "doomed", "queue_length", "") }
	becomes(t, s, "the value while it is up", "map[queue:q]=5", value)
	began := time.Now()
	shared.web.other.CloseClientConnections()
	shared.web.other.Close()
	becomes(t, s, "the value when it is down", "", value)
	// The value is stale after the second between two scrapes, not after the minute for which a value is
	// current.
	if took := time.Since(began); took > 50*time.Second {
		t.Errorf("it took %v until nothing was served", took)
	}
}

func TestAStockAutoscalerFollowsAReplicaPolicy(t *testing.T) {
	t.Parallel()
	s := site(t)
	const name = "follows"
	namespace(t, s, name)
	deploy(t, s, name)
	policy := publish(t, s, name)
	follow(t, s, name, "supercargo_desired_replicas", map[string]string{"name": "web"}, 1)
	for _, c := range []struct{ wanted, replicas int32 }{{5, 5}, {2, 2}, {30, 10}, {1, 1}} {
		want(t, s, policy, c.wanted, time.Now())
		becomes(t, s, fmt.Sprintf("the replicas when %d are wanted", c.wanted), fmt.Sprint(c.replicas), func() string {
			d := &appsv1.Deployment{}
			if err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: name, Name: "web"}, d); err != nil {
				return err.Error()
			}
			return fmt.Sprint(*d.Spec.Replicas)
		})
	}
	value := func() string { return external(t, s.Playground.Client(), name, "supercargo_desired_replicas", "") }
	becomes(t, s, "what is served", "map[name:web namespace:follows]=1", value)
	want(t, s, policy, 7, time.Now().Add(-time.Hour)) // the autoscaler of the policy has stopped
	becomes(t, s, "what is served of an old status", "", value)
}

// follow creates a stock HorizontalPodAutoscaler of 1 to 10 replicas with a target of each per replica for an
// external metric, which scales in at once.
func follow(t *testing.T, s *kit.Site, namespace, metric string, labels map[string]string, each int64) *autoscalingv2.HorizontalPodAutoscaler {
	t.Helper()
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	h.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
		MinReplicas:    ptr.To(int32(1)), MaxReplicas: 10,
		Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr.To(int32(0))}},
		Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: metric, Selector: &metav1.LabelSelector{MatchLabels: labels}},
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewQuantity(each, resource.DecimalSI)},
		}}},
	}
	testapi.Create(t, s.Client, h)
	return h
}

// deploy creates a Deployment of one pod.
func deploy(t *testing.T, s *kit.Site, namespace string) {
	t.Helper()
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	d.Spec.Replicas, d.Spec.Selector = ptr.To(int32(1)), &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	testapi.Create(t, s.Client, d)
}

// publish creates a ReplicaPolicy that publishes its desired replicas.
func publish(t *testing.T, s *kit.Site, namespace string) *v1alpha1.ReplicaPolicy {
	t.Helper()
	for _, object := range kit.Objects(t, "testdata/replicapolicy.yaml") {
		object.SetNamespace(namespace)
		testapi.Create(t, s.Client, object)
	}
	p := &v1alpha1.ReplicaPolicy{}
	testapi.Get(t, s.Client, client.ObjectKey{Namespace: namespace, Name: "web"}, p)
	return p
}

// want writes the desired replicas of a policy, with the time of the observation.
func want(t *testing.T, s *kit.Site, p *v1alpha1.ReplicaPolicy, replicas int32, at time.Time) {
	t.Helper()
	before := p.DeepCopy()
	p.Status.DesiredReplicas = replicas
	p.Status.LastObservation = &v1alpha1.ReplicaObservation{Time: metav1.NewTime(at), SpecReplicas: 1, ReadyReplicas: 1}
	if err := s.Client.Status().Patch(t.Context(), p, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func TestPromQLIsAnsweredOnThisMachine(t *testing.T) {
	t.Parallel()
	s := site(t)
	shared.web.set(3, `queue_length{namespace="promql",queue="a"}`)
	becomes(t, s, "an answer", "3", func() string { return promql(`queue_length{namespace="promql"}`) })
}

func TestTheHistoryOfTheClusterIsInTheStore(t *testing.T) {
	t.Parallel()
	s := site(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "historic", Labels: map[string]string{corev1.LabelInstanceTypeStable: "m1.large"}}}
	testapi.Create(t, s.Client, node)
	before := node.DeepCopy()
	node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	node.Status.Allocatable = node.Status.Capacity
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := s.Client.Status().Patch(t.Context(), node, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	free := func() string {
		return promql(`supercargo_node_available{node="historic",machine_type="m1.large",resource="cpu"}`)
	}
	becomes(t, s, "free cores of a new node", "4", free)
	namespace(t, s, "history")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "history", Name: "p"}}
	pod.Spec.NodeName = "historic"
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")}}}}
	testapi.Create(t, s.Client, pod)
	becomes(t, s, "free cores when a pod has come", "2.5", free)
	testapi.Delete(t, s.Client, node)
	becomes(t, s, "free cores of a node that has gone", "", free)
}

// promql queries the port for this machine for a single value, or "" if there is none.
func promql(expression string) string {
	response, err := http.PostForm("http://"+shared.queries+"/api/v1/query", url.Values{"query": {expression}})
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	var got struct {
		Data struct{ Result []struct{ Value []any } }
	}
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
		return err.Error()
	}
	if len(got.Data.Result) != 1 {
		return ""
	}
	return fmt.Sprint(got.Data.Result[0].Value[1])
}
