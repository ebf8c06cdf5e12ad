package rights

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const mover = "system:serviceaccount:movers:mover"

// roles grants the mover rules in the whole cluster, and inside in its namespace.
func roles(rules, inside []rbacv1.PolicyRule) *Roles {
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "mover", Namespace: "movers"}}
	return &Roles{
		ClusterRoles:        []rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "wide"}, Rules: rules}},
		ClusterRoleBindings: []rbacv1.ClusterRoleBinding{{Subjects: subjects, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "wide"}}},
		Roles:               []rbacv1.Role{{ObjectMeta: metav1.ObjectMeta{Name: "inside", Namespace: "movers"}, Rules: inside}},
		RoleBindings: []rbacv1.RoleBinding{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "movers"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "mover"}}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "inside"},
		}},
	}
}

func rule(verbs, group, resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{group}, Resources: strings.Fields(resources), ResourceNames: names}
}

func read(t *testing.T, lines ...string) Log {
	t.Helper()
	log, err := ReadLog(strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func event(decision, verb, object string) string {
	return `{"stage":"ResponseComplete","verb":"` + verb + `","user":{"username":"` + mover + `"},"objectRef":{` + object +
		`},"annotations":{"authorization.k8s.io/decision":"` + decision + `"},"responseStatus":{"code":200}}`
}

func unused(report Report) []string {
	var lines []string
	for _, grant := range report.Unused {
		lines = append(lines, grant.String())
	}
	return lines
}

func TestMissingAndUnusedRightsAreNamed(t *testing.T) {
	r := roles(
		[]rbacv1.PolicyRule{rule("get list", "", "pods nodes"), rule("create", "", "pods/eviction")},
		[]rbacv1.PolicyRule{rule("update", "coordination.k8s.io", "leases", "mine")})
	log := read(t,
		event("allow", "list", `"resource":"pods"`),
		event("allow", "get", `"resource":"nodes","name":"node-a"`),
		event("allow", "create", `"resource":"pods","subresource":"eviction","namespace":"work","name":"p"`),
		event("allow", "update", `"resource":"leases","apiGroup":"coordination.k8s.io","namespace":"movers","name":"other"`),
		event("forbid", "patch", `"resource":"nodes","name":"node-a"`),
	)
	report := Compare(r.GrantsOf(mover), log[mover])
	if diff := cmp.Diff([]Request{{Verb: "patch", Resource: "nodes", Name: "node-a"}}, report.Missing); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	want := []string{
		"ClusterRole/wide: list nodes",
		"Role/movers/inside: update leases.coordination.k8s.io mine",
	}
	if diff := cmp.Diff(want, unused(report)); diff != "" {
		t.Errorf("unused (-want +got):\n%s", diff)
	}
}

func TestWhatAGrantCovers(t *testing.T) {
	tests := []struct {
		name    string
		grant   Grant
		request Request
		want    bool
	}{
		{"the same", Grant{Verb: "get", Resource: "pods"}, Request{Verb: "get", Resource: "pods", Namespace: "a"}, true},
		{"another verb", Grant{Verb: "get", Resource: "pods"}, Request{Verb: "list", Resource: "pods"}, false},
		{"another group", Grant{Verb: "get", Group: "apps", Resource: "pods"}, Request{Verb: "get", Resource: "pods"}, false},
		{"not its subresources", Grant{Verb: "get", Resource: "pods"}, Request{Verb: "get", Resource: "pods/log"}, false},
		{"all resources have their subresources", Grant{Verb: "get", Resource: "*"}, Request{Verb: "get", Resource: "pods/log"}, true},
		{"a subresource of all", Grant{Verb: "get", Group: "*", Resource: "*/scale"}, Request{Verb: "get", Group: "apps", Resource: "deployments/scale"}, true},
		{"another subresource", Grant{Verb: "get", Resource: "*/scale"}, Request{Verb: "get", Resource: "pods/log"}, false},
		{"its namespace", Grant{Verb: "get", Resource: "pods", Namespace: "a"}, Request{Verb: "get", Resource: "pods", Namespace: "a"}, true},
		{"another namespace", Grant{Verb: "get", Resource: "pods", Namespace: "a"}, Request{Verb: "get", Resource: "pods", Namespace: "b"}, false},
		{"the whole cluster from a namespace", Grant{Verb: "list", Resource: "pods", Namespace: "a"}, Request{Verb: "list", Resource: "pods"}, false},
		{"another name", Grant{Verb: "get", Resource: "secrets", Names: []string{"a"}}, Request{Verb: "get", Resource: "secrets", Name: "b"}, false},
		{"a path", Grant{Verb: "get", Path: "/metrics"}, Request{Verb: "get", Path: "/metrics"}, true},
		{"a path below", Grant{Verb: "get", Path: "/metrics/*"}, Request{Verb: "get", Path: "/metrics/slis"}, true},
		{"a path for objects", Grant{Verb: "get", Resource: "*", Group: "*"}, Request{Verb: "get", Path: "/metrics"}, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.grant.Covers(tc.request); got != tc.want {
				t.Errorf("%v covers %v: %t, want %t", tc.grant, tc.request, got, tc.want)
			}
		})
	}
}

func TestWatchesCountOnceAndAnswersOfAdmissionAreNoLackOfRights(t *testing.T) {
	watch := func(stage string) string {
		return strings.Replace(event("allow", "watch", `"resource":"pods"`), "ResponseComplete", stage, 1)
	}
	refused := strings.Replace(event("allow", "create", `"resource":"pods"`), "200", "403", 1)
	account := read(t, watch("RequestReceived"), watch("ResponseStarted"), watch("ResponseComplete"), refused)[mover]
	want := map[Request]int{{Verb: "watch", Resource: "pods"}: 1, {Verb: "create", Resource: "pods"}: 1}
	if diff := cmp.Diff(want, account.Allowed); diff != "" || len(account.Forbidden) != 0 {
		t.Errorf("allowed (-want +got):\n%s\nforbidden: %v", diff, account.Forbidden)
	}
}

func TestAStreamedListIsAListAndWhatIsListedNeedNotBeGot(t *testing.T) {
	streamed := strings.Replace(event("allow", "watch", `"resource":"pods"`), `"verb"`, `"requestURI":"/api/v1/pods?sendInitialEvents=true&watch=true","verb"`, 1)
	grants := roles([]rbacv1.PolicyRule{rule("get list watch", "", "pods services")}, nil).GrantsOf(mover)
	want := []string{"ClusterRole/wide: get services", "ClusterRole/wide: list services", "ClusterRole/wide: watch services"}
	log := read(t, strings.Replace(streamed, "ResponseComplete", "ResponseStarted", 1))
	if diff := cmp.Diff(want, unused(Compare(grants, log[mover]))); diff != "" {
		t.Errorf("unused (-want +got):\n%s", diff)
	}
}

func TestTheListOfOneObjectIsNoListOfAll(t *testing.T) {
	r := roles(nil, []rbacv1.PolicyRule{rule("get", "", "configmaps"), rule("get list", "", "configmaps", "mine")})
	log := read(t, event("allow", "list", `"resource":"configmaps","namespace":"movers","name":"mine"`))
	want := []string{"Role/movers/inside: get configmaps"}
	if diff := cmp.Diff(want, unused(Compare(r.GrantsOf(mover), log[mover]))); diff != "" {
		t.Errorf("unused (-want +got):\n%s", diff)
	}
}

func TestWhatIsNotExplainedAndWhatExplainsNothingIsTold(t *testing.T) {
	unexplained, stale := Explain(
		[]string{"a: get pods", "a: patch nodes", "b: create jobs", "b: delete jobs"},
		[]string{"a: get pods", "a: get", "b: *", "c: *"})
	if diff := cmp.Diff([]string{"a: patch nodes"}, unexplained); diff != "" {
		t.Errorf("unexplained (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a: get", "c: *"}, stale); diff != "" {
		t.Errorf("stale (-want +got):\n%s", diff)
	}
}

func TestAnAccountThatAskedForNothingUsesNothing(t *testing.T) {
	grants := roles([]rbacv1.PolicyRule{rule("get", "", "pods")}, nil).GrantsOf(mover)
	if got := unused(Compare(grants, nil)); len(got) != 1 {
		t.Errorf("unused are %q, want the one", got)
	}
}

func TestALineThatIsNoEventIsNamed(t *testing.T) {
	_, err := ReadLog(strings.NewReader("{}\nnonsense\n"))
	if err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("err = %v, want one about line 2", err)
	}
}
