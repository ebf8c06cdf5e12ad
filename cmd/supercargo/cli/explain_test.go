package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/kit/commandtest"
)

func explainedFleet() *v1alpha1.NodeFleet {
	at := metav1.NewTime(time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC))
	cpu, memory := resource.MustParse("4"), resource.MustParse("16Gi")
	return &v1alpha1.NodeFleet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "supercargo.dev/v1alpha1", Kind: "NodeFleet"},
		ObjectMeta: metav1.ObjectMeta{Name: "batch"},
		Spec:       v1alpha1.NodeFleetSpec{Class: v1alpha1.FleetBatch, Mode: v1alpha1.FleetAct},
		Status: v1alpha1.NodeFleetStatus{
			ObservedGeneration: 1, Machines: 7, InFlight: 2, PendingPods: 3,
			Cost:       v1alpha1.FleetCost{DollarsPerHour: "1.344", LowerBoundDollarsPerHour: "1.21"},
			Conditions: []metav1.Condition{{Type: v1alpha1.FleetReady, Status: metav1.ConditionTrue, LastTransitionTime: at, Reason: "Reconciled", Message: "all is well"}},
			Flavors: []v1alpha1.FlavorStatus{
				{Name: "m-4x", PricePerHour: "0.192", CPU: &cpu, Memory: &memory, MaxPods: 110, Machines: 7, Max: 20,
					Lag: &v1alpha1.LearnedTime{Mean: metav1.Duration{Duration: 90 * time.Second}, Deviation: metav1.Duration{Duration: 4 * time.Second}, Samples: 9}},
				{Name: "m-8x", PricePerHour: "0.4", CPU: &cpu, Memory: &memory, Max: 2147483647, Failures: 2, BackOffUntil: &at},
			},
			Kept: []v1alpha1.KeptMachine{{Node: "batch-3", Reason: "pod default/web must not be moved: it has annotation karpenter.sh/do-not-disrupt: true"}},
			Deferral: &v1alpha1.FleetDeferral{
				Reason: "2 pods wait for room that becomes free", Pods: 2, PodNames: []string{"ns/c", "ns/d"}, SavesDollars: "0.012", BuyDollars: "0.372", WaitDollars: "0.36",
				RoomTime: metav1.NewTime(at.Add(5 * time.Minute)), BuyTime: metav1.NewTime(at.Add(12 * time.Minute)),
			},
			LastDecision: &v1alpha1.FleetDecision{
				Time: at, Mode: v1alpha1.FleetAct, Summary: "buy 2 m-4x for 9 pods",
				Buys: []v1alpha1.DecidedPurchase{{
					Flavor: "m-4x", Count: 2, Pods: 9, Reason: "cheapest that holds them", PricePerHour: "0.192", StartSeconds: 90, BilledSeconds: 90240, DollarsUntilEmpty: "4.8128",
					Machines: []v1alpha1.DecidedMachines{
						{Count: 1, BilledSeconds: 86520, DollarsUntilEmpty: "4.6144", Pods: 1, PodNames: []string{"ns/web"}},
						{Count: 1, BusySeconds: 3600, BilledSeconds: 3720, DollarsUntilEmpty: "0.1984", Pods: 8, PodNames: []string{"ns/a", "ns/b"}},
					},
				}},
				Releases: []v1alpha1.DecidedRelease{
					{Node: "old", Reason: "it is empty", KeepDollars: "0.0032", StartDollars: "0.0048"},
					{Node: "low", Reason: "it is hardly used", SavesDollars: "0.30", CostsDollars: "0.02"},
				},
				DollarsUntilEmpty: "4.8128", SavesDollars: "0.30", CostsDollars: "0.02",
				Rejected: []v1alpha1.Rejection{{Name: "ns/huge", Reason: "no flavor has 900 cores"}},
				Expected: v1alpha1.Outcome{DollarsPerHour: "1.344", ReadySeconds: 90},
				Measured: &v1alpha1.Outcome{DollarsPerHour: "1.344", ReadySeconds: 97, PendingPods: 1},
			},
		},
	}
}

// fleetServer starts an API server with one fleet.
func fleetServer(t *testing.T) (kubeconfig string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any
		switch r.URL.Path {
		case "/apis":
			answer = metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{{
				Name: "supercargo.dev", Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "supercargo.dev/v1alpha1", Version: "v1alpha1"}},
			}}}
		case "/apis/supercargo.dev":
			answer = metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: "supercargo.dev",
				Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "supercargo.dev/v1alpha1", Version: "v1alpha1"}}}
		case "/apis/supercargo.dev/v1alpha1":
			answer = metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "supercargo.dev/v1alpha1",
				APIResources: []metav1.APIResource{{Name: "nodefleets", Kind: "NodeFleet", Verbs: metav1.Verbs{"get", "list"}}}}
		case "/apis/supercargo.dev/v1alpha1/nodefleets/batch":
			answer = explainedFleet()
		case "/apis/supercargo.dev/v1alpha1/nodefleets":
			answer = v1alpha1.NodeFleetList{TypeMeta: metav1.TypeMeta{Kind: "NodeFleetList", APIVersion: "supercargo.dev/v1alpha1"}, Items: []v1alpha1.NodeFleet{*explainedFleet()}}
		default:
			w.WriteHeader(http.StatusNotFound)
			answer = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound,
				Code: http.StatusNotFound, Message: "there is none"}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return commandtest.File(t, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
  users: [{name: u, user: {}}], clusters: [{name: c, cluster: {server: "`+server.URL+`"}}]}`)
}

func TestExplainSaysWhyAFleetIsAsItIs(t *testing.T) {
	code, stdout, stderr := supercargo(t, "", "explain", "nodefleet/batch", "--kubeconfig", fleetServer(t))
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, want := range []string{
		"NodeFleet batch, class Batch, mode Act",
		"7 machines, 2 in flight, 3 pods pending, $1.344/h (machines for all its pods cost at least $1.21/h)",
		"Ready: True (Reconciled) all is well",
		"Waiting saves $0.012: 2 pods wait for room that becomes free; room for the last pod is expected at 08:05:00, and a machine for the first pod is due at 08:12:00 at the latest; 2 pods: ns/c, ns/d\n",
		"Last decision, 2026-11-21 08:00:00 UTC, mode Act:\n  buy 2 m-4x for 9 pods",
		"buy 2 m-4x for 9 pods: cheapest that holds them",
		"    at $0.192/h, 1m30s to start, paid for 25h4m0s in all: $4.8128 until they are empty\n" +
			"    1 not expected to become empty, compared by what 24h2m0s cost: $4.6144, for 1 pod: ns/web\n" +
			"    1 busy for 1h0m0s, paid for 1h2m0s each: $0.1984, for 8 pods: ns/a, ns/b and 6 more\n",
		"release old: it is empty\n    keeping it to the end of the next billing period would cost $0.0032, starting another machine $0.0048\n",
		"release low: it is hardly used\n    saves $0.30 and costs $0.02\n",
		"expected until all machines bought are empty: $4.8128\n",
		"emptying or exchanging machines saves $0.30 and costs $0.02\n",
		"rejected ns/huge: no flavor has 900 cores",
		"expected: $1.344/h, 0 pods pending, ready after 90 s",
		"measured: $1.344/h, 1 pod pending, ready after 97 s",
		"are kept:\n  batch-3: pod default/web must not be moved: it has annotation karpenter.sh/do-not-disrupt: true\n",
		"1m30s ± 4s",
		"in back-off until 08:00:00 (consecutive back-offs: 2)",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("does not say %q:\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "2147483647") {
		t.Errorf("shows a number of machines that means none:\n%s", stdout)
	}
}

func TestExplainPrintsTheObjectForScripts(t *testing.T) {
	code, stdout, stderr := supercargo(t, "", "explain", "nf/batch", "-o", "json", "--kubeconfig", fleetServer(t))
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	var fleet v1alpha1.NodeFleet
	if err := json.Unmarshal([]byte(stdout), &fleet); err != nil || fleet.Status.LastDecision == nil || fleet.Status.LastDecision.Measured.ReadySeconds != 97 {
		t.Errorf("%v in\n%s", err, stdout)
	}
}

func TestExplainRefusesWhatItCannotExplain(t *testing.T) {
	kubeconfig := fleetServer(t)
	for _, tc := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"nothing", nil, 2, "name what to explain, such as pod NAME, pods, node NAME, nodefleet/NAME or consolidation"},
		{"three names", []string{"pod", "a", "b"}, 2, "name what to explain"},
		{"no name", []string{"nodefleet"}, 2, "must be KIND/NAME such as nodefleet/batch"},
		{"an empty name", []string{"nodefleet/"}, 2, "must be KIND/NAME"},
		{"another kind", []string{"service/x"}, 2, `kind "service": must be pod, node, nodefleet, replicapolicy, workerpool, migration or machineprofile`},
		{"a weight that is none", []string{"pod/x", "--energy-weight", "2"}, 2, "--energy-weight 2: must be a number from 0 to 1"},
		{"another output", []string{"nodefleet/batch", "-o", "xml"}, 2, `--output "xml": must be table, json or yaml`},
		{"no such fleet", []string{"nodefleet/typo"}, 1, "read NodeFleet typo"},
		{"no such kubeconfig", []string{"nodefleet/batch", "--kubeconfig", "none"}, 2, "load the kubeconfig"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := supercargo(t, "", append([]string{"explain", "--kubeconfig", kubeconfig}, tc.args...)...)
			if code != tc.code || !strings.Contains(stderr, tc.says) || stdout != "" {
				t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
			}
		})
	}
}

// TestExplainConsolidationShowsTheDecisionOrSaysWhatIsMissing has an API server without the object, with one that the
// descheduler has not reported to, and with a decision.
func TestExplainConsolidationShowsTheDecisionOrSaysWhatIsMissing(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC))
	object := func(status v1alpha1.ConsolidationStatus) *v1alpha1.Consolidation {
		return &v1alpha1.Consolidation{TypeMeta: metav1.TypeMeta{APIVersion: "supercargo.dev/v1alpha1", Kind: "Consolidation"},
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ConsolidationName}, Status: status}
	}
	for _, tc := range []struct {
		object *v1alpha1.Consolidation
		says   string
	}{
		{nil, "there is no Consolidation default, in whose status the descheduler reports"},
		{object(v1alpha1.ConsolidationStatus{}), "the status of Consolidation default has no decision"},
		{object(v1alpha1.ConsolidationStatus{Time: &at, Mode: "Observe", Policy: "HTAS", Nodes: 3}), "Consolidation, mode Observe, policy HTAS, as of 2026-11-21 08:00:00\n3 nodes"},
	} {
		version := metav1.GroupVersionForDiscovery{GroupVersion: "supercargo.dev/v1alpha1", Version: "v1alpha1"}
		group := metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: "supercargo.dev", Versions: []metav1.GroupVersionForDiscovery{version}}
		answers := map[string]any{
			"/apis":                metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{group}},
			"/apis/supercargo.dev": group,
			"/apis/supercargo.dev/v1alpha1": metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version.GroupVersion,
				APIResources: []metav1.APIResource{{Name: "consolidations", Kind: "Consolidation", Verbs: metav1.Verbs{"get"}}}},
		}
		if tc.object != nil {
			answers["/apis/supercargo.dev/v1alpha1/consolidations/default"] = tc.object
		}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			answer := answers[r.URL.Path]
			if answer == nil {
				w.WriteHeader(http.StatusNotFound)
				answer = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
			}
			if err := json.NewEncoder(w).Encode(answer); err != nil {
				t.Error(err)
			}
		}))
		defer server.Close()
		_, stdout, stderr := supercargo(t, "", "explain", "consolidation", "--kubeconfig", kubeconfigOf(t, server.URL))
		if !strings.Contains(stdout+stderr, tc.says) {
			t.Errorf("stdout %q, stderr %q, want %q", stdout, stderr, tc.says)
		}
	}
}
