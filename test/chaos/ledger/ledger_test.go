package ledger

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// began is the start of all logs of these tests.
var began = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// entry is one event of an audit log.
type entry struct {
	at                  float64 // seconds
	actor               string
	verb, resource, sub string
	name                string
	code                int
	request, object     string
	stage               string
}

// log returns the events in the format of the API server.
func log(entries ...entry) string {
	var all strings.Builder
	for _, e := range entries {
		at := began.Add(time.Duration(e.at * float64(time.Second)))
		event := map[string]any{
			"kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete", "verb": e.verb, "userAgent": "go",
			"objectRef":                map[string]any{"resource": e.resource, "subresource": e.sub, "namespace": "work", "name": e.name},
			"responseStatus":           map[string]any{"code": 200},
			"requestReceivedTimestamp": at.Format("2006-01-02T15:04:05.000000Z"), "stageTimestamp": at.Add(10 * time.Millisecond).Format("2006-01-02T15:04:05.000000Z"),
		}
		if e.actor != "" {
			event["userAgent"] = "go replica/" + e.actor
		}
		if e.code != 0 {
			event["responseStatus"] = map[string]any{"code": e.code}
		}
		if e.stage != "" {
			event["stage"] = e.stage
		}
		if e.request != "" {
			event["requestObject"] = json.RawMessage(e.request)
		}
		if e.object != "" {
			event["responseObject"] = json.RawMessage(e.object)
		}
		text, err := json.Marshal(event)
		if err != nil {
			panic(err)
		}
		all.Write(append(text, '\n'))
	}
	return all.String()
}

func read(t *testing.T, entries ...entry) []Write {
	t.Helper()
	writes, err := Read(strings.NewReader(log(entries...)))
	if err != nil {
		t.Fatal(err)
	}
	return writes
}

// expect checks that each line of broken contains the text at the same index of want.
func expect(t *testing.T, name string, broken []string, want ...string) {
	t.Helper()
	if len(broken) != len(want) {
		t.Errorf("%s: %d are broken, want %d: %q", name, len(broken), len(want), broken)
		return
	}
	for i := range want {
		if !strings.Contains(broken[i], want[i]) {
			t.Errorf("%s: %q, want something with %q", name, broken[i], want[i])
		}
	}
}

func TestOnlyWritesThatWereCarriedOutCount(t *testing.T) {
	node := `{"metadata":{"name":"n","resourceVersion":"%d"}}`
	text := log(
		entry{at: 1, actor: "autoscaler-1.2", verb: "patch", resource: "nodes", name: "n", object: fmt.Sprintf(node, 12)},
		entry{at: 2, verb: "patch", resource: "nodes", name: "n", object: fmt.Sprintf(node, 11)},
		entry{at: 3, verb: "patch", resource: "nodes", name: "n", code: 409},
		entry{at: 4, verb: "patch", resource: "nodes", name: "n", stage: "RequestReceived"},
		entry{at: 5, verb: "create", resource: "pods", object: `{"metadata":{"name":"made","uid":"u"}}`},
	)
	writes, err := Read(strings.NewReader(text + `{"kind":"Event","sta`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range writes {
		got = append(got, fmt.Sprintf("%s %s %s %d %s", w.Actor, w.Verb, w.Name, w.Revision, w.UID))
	}
	want := []string{" patch n 11 ", "autoscaler-1.2 patch n 12 ", " create made 0 u"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if p := writes[1].Actor.Program(); p != "autoscaler" {
		t.Errorf("the program is %q", p)
	}
	if _, err := Read(strings.NewReader("{\n")); err == nil {
		t.Error("a line that is not JSON is taken")
	}
}

func TestAPodIsAnActorToo(t *testing.T) {
	const text = `{"stage":"ResponseComplete","verb":"patch","userAgent":"autoscaler/v0.1.0","objectRef":{"resource":"nodes","name":"n"},"responseStatus":{"code":200},
		"user":{"username":"system:serviceaccount:supercargo-system:supercargo-autoscaler","extra":{"authentication.kubernetes.io/pod-name":["supercargo-autoscaler-6f7d9-x7k2p"]}}}`
	writes, err := Read(strings.NewReader(strings.ReplaceAll(text, "\n", "") + "\n"))
	if err != nil || len(writes) != 1 {
		t.Fatalf("%v, %v", writes, err)
	}
	if a := writes[0].Actor; a != "supercargo-autoscaler-x7k2p" || a.Program() != "supercargo-autoscaler" {
		t.Errorf("%q of program %q", a, a.Program())
	}
}

// lease is a write of the autoscaler's Lease with a holder.
func lease(at float64, actor, holder string, revision int) entry {
	return entry{at: at, actor: actor, verb: "update", resource: "leases", name: "l", object: fmt.Sprintf(`{"metadata":{"resourceVersion":"%d"},"spec":{"holderIdentity":%q}}`, revision, holder)}
}

// cordons is a write with a revision.
func cordons(at float64, actor string, revision int) entry {
	return entry{at: at, actor: actor, verb: "patch", resource: "nodes", name: "n", object: fmt.Sprintf(`{"metadata":{"resourceVersion":"%d"}}`, revision)}
}

// binds is a write whose answer has no revision.
func binds(at float64, actor, pod, uid, node string) entry {
	return entry{at: at, actor: actor, verb: "create", resource: "pods", sub: "binding", name: pod, request: fmt.Sprintf(`{"metadata":{"uid":%q},"target":{"name":%q}}`, uid, node), object: `{"kind":"Status"}`}
}

func TestAnOldLeaderMustNotWrite(t *testing.T) {
	leases := map[string]string{"autoscaler": "l"}
	for name, c := range map[string]struct {
		log        []entry
		interfered []Meddling
		want       []string
	}{
		"the leader writes": {log: []entry{lease(0, "autoscaler-1.1", "one", 1), cordons(1, "autoscaler-1.1", 2), lease(2, "autoscaler-1.1", "one", 3), cordons(3, "autoscaler-1.1", 4)}},
		"after a takeover the old one writes": {
			log:  []entry{lease(0, "autoscaler-1.1", "one", 1), lease(20, "autoscaler-2.1", "two", 2), cordons(21, "autoscaler-1.1", 3), cordons(22, "autoscaler-2.1", 4)},
			want: []string{"two leaders: autoscaler-1.1 wrote (patch nodes/ work/n"},
		},
		"a write that was asked for late and came first": {log: []entry{lease(0, "autoscaler-1.1", "one", 1), cordons(20.005, "autoscaler-1.1", 2), lease(20, "autoscaler-2.1", "two", 3)}},
		"a write that was asked for before and came last": {
			log:  []entry{lease(0, "autoscaler-1.1", "one", 1), lease(20, "autoscaler-2.1", "two", 2), cordons(20.005, "autoscaler-1.1", 3)},
			want: []string{"asked 12:00:20.005"},
		},
		"a write without a revision goes by its time": {
			log:  []entry{lease(0, "autoscaler-1.1", "one", 1), lease(20, "autoscaler-2.1", "two", 2), binds(20.005, "autoscaler-1.1", "a", "a", "n"), binds(20.02, "autoscaler-1.1", "b", "b", "n")},
			want: []string{"work/b"},
		},
		"nobody has taken over": {log: []entry{lease(0, "autoscaler-1.1", "one", 1), cordons(300, "autoscaler-1.1", 2)}},
		"it has given the Lease back": {
			log:  []entry{lease(0, "autoscaler-1.1", "one", 1), lease(5, "autoscaler-1.1", "", 2), cordons(6, "autoscaler-1.1", 3)},
			want: []string{"was that of nobody"},
		},
		"another run of the same replica is another": {
			log:  []entry{lease(0, "autoscaler-1.1", "one", 1), lease(20, "autoscaler-1.2", "one again", 2), cordons(21, "autoscaler-1.1", 3)},
			want: []string{"autoscaler-1.1"},
		},
		"the Lease was taken from it just before": {
			log:        []entry{lease(0, "autoscaler-1.1", "one", 1), lease(11, "autoscaler-2.1", "two", 2), cordons(12, "autoscaler-1.1", 3), cordons(40, "autoscaler-1.1", 4)},
			interfered: []Meddling{{"autoscaler", began.Add(10 * time.Second)}, {"descheduler", began.Add(39 * time.Second)}},
			want:       []string{"asked 12:00:40.000"},
		},
		"Leases and Events are no writes": {log: []entry{
			lease(0, "autoscaler-1.1", "one", 1), lease(20, "autoscaler-2.1", "two", 2),
			{at: 21, actor: "autoscaler-1.1", verb: "create", resource: "events", name: "e"},
		}},
		"others write as they like": {log: []entry{lease(0, "autoscaler-1.1", "one", 1), cordons(1, "descheduler-1.1", 2), cordons(2, "", 3)}},
	} {
		expect(t, name, Leaders(read(t, c.log...), leases, c.interfered), c.want...)
	}
}

func TestAPodIsBoundOnce(t *testing.T) {
	bound, broken := Bindings(read(t,
		binds(0, "kube-scheduler-1.1", "a", "1", "n"), binds(1, "kube-scheduler-2.1", "a", "1", "m"),
		binds(2, "kube-scheduler-2.1", "a", "2", "m"), // a later pod of the same name
		binds(3, "kube-scheduler-2.1", "b", "3", "m"), binds(4, "kube-scheduler-2.1", "b", "3", "m"),
	))
	if bound != 3 {
		t.Errorf("%d pods were bound, want 3", bound)
	}
	expect(t, "bindings", broken, "pod work/a was bound to n by kube-scheduler-1.1, and to m by kube-scheduler-2.1")
}

// market prepends the creation of a MachineDeployment without machines.
func market(entries ...entry) []entry {
	made := entry{verb: "create", resource: "machinedeployments", name: "small", object: `{"metadata":{"name":"small","resourceVersion":"1"},"spec":{"replicas":0}}`}
	return append([]entry{made}, entries...)
}

func pod(at float64, name string, revision int) entry {
	return entry{at: at, verb: "create", resource: "pods", object: fmt.Sprintf(`{"metadata":{"name":%q,"uid":%q,"resourceVersion":"%d"},"spec":{}}`, name, name, revision)}
}

// announces is a write of a fleet's status with an intent and its decision.
func announces(at float64, id string, from, to int, pods, releases string, revision int) entry {
	second := began.Add(time.Duration(at) * time.Second).Format(time.RFC3339)
	return entry{at: at, actor: "autoscaler-1.1", verb: "update", resource: "nodefleets", sub: "status", name: "all", object: fmt.Sprintf(
		`{"metadata":{"name":"all","resourceVersion":"%d"},"status":{"intent":{"id":%q,"time":%q,"orders":[{"flavor":"small","from":%d,"to":%d}]},`+
			`"lastDecision":{"id":%q,"time":%q,"releases":[%s],"buys":[{"flavor":"small","machines":[{"podNames":[%s]}]}]}}}`, revision, id, second, from, to, id, second, releases, pods)}
}

func orders(at float64, actor string, to, revision int) entry {
	return entry{at: at, actor: actor, verb: "patch", resource: "machinedeployments", sub: "scale", name: "small", object: fmt.Sprintf(`{"kind":"Scale","metadata":{"name":"small","resourceVersion":"%d"},"spec":{"replicas":%d}}`, revision, to)}
}

func joins(at float64, name string, revision int) entry {
	return entry{at: at, verb: "create", resource: "nodes", object: fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":"%d","labels":{"node.kubernetes.io/instance-type":"small"}}}`, name, revision)}
}

func TestEachPurchaseHasItsReason(t *testing.T) {
	const a, b = `"work/a"`, `"work/b"`
	for name, c := range map[string]struct {
		log    []entry
		bought Bought
		want   []string
	}{
		"a machine for a pod": {
			log:    market(pod(1, "a", 2), announces(2, "i", 0, 1, a, "", 3), orders(2.1, "autoscaler-1.1", 1, 4)),
			bought: Bought{1, 1, 1},
		},
		"an order that nobody announced": {
			log:    market(pod(1, "a", 2), orders(2.1, "autoscaler-1.1", 1, 4)),
			bought: Bought{1, 1, 1}, want: []string{"ordered 0 to 1 machines of small at 12:00:02.100, which no NodeFleet had announced"},
		},
		"an order whose intent a new leader has dropped": {
			log: market(pod(1, "a", 2), announces(2, "i", 0, 1, a, "", 3),
				entry{at: 3, actor: "autoscaler-2.1", verb: "update", resource: "nodefleets", sub: "status", name: "all", object: `{"metadata":{"name":"all","resourceVersion":"4"},"status":{}}`},
				orders(4, "autoscaler-1.1", 1, 5)),
			bought: Bought{1, 1, 1}, want: []string{"which no NodeFleet had announced"},
		},
		"other numbers than announced": {
			log:    market(pod(1, "a", 2), announces(2, "i", 0, 1, a, "", 3), orders(2.1, "autoscaler-1.1", 2, 4)),
			bought: Bought{1, 2, 2}, want: []string{"ordered 0 to 2"},
		},
		"a second machine for the same pod": {
			log: market(pod(1, "a", 2), announces(2, "i", 0, 1, a, "", 3), orders(2.1, "autoscaler-1.1", 1, 4),
				announces(5, "j", 1, 2, a, "", 5), orders(5.1, "autoscaler-2.1", 2, 6)),
			bought: Bought{2, 2, 2}, want: []string{"bought twice: autoscaler-2.1 ordered 1 to 2 machines of small at 12:00:05.100, though machines were on their way for all 1 pending pods: work/a"},
		},
		"a second machine for a second pod": {
			log: market(pod(1, "a", 2), announces(2, "i", 0, 1, a, "", 3), orders(2.1, "autoscaler-1.1", 1, 4),
				pod(3, "b", 5), announces(5, "j", 1, 2, b, "", 6), orders(5.1, "autoscaler-1.1", 2, 7)),
			bought: Bought{2, 2, 2},
		},
		"two orders of one decision": {
			log: market(pod(1, "a", 2), announces(2, "i", 0, 1, a, "", 3), orders(2.1, "autoscaler-1.1", 1, 4),
				announces(2.2, "i", 1, 2, a, "", 5), orders(2.3, "autoscaler-1.1", 2, 6)),
			bought: Bought{2, 2, 2},
		},
		"the first machine has joined, and was taken by others": {
			log: market(pod(1, "a", 2), announces(2, "i", 0, 1, a, "", 3), orders(2.1, "autoscaler-1.1", 1, 4), joins(8, "n", 5),
				announces(19, "j", 1, 2, a, "", 6), orders(19.1, "autoscaler-1.1", 2, 7)),
			bought: Bought{2, 2, 2},
		},
		"the first machine does not come": {
			log: market(pod(1, "a", 2), announces(2, "i", 0, 1, a, "", 3), orders(2.1, "autoscaler-1.1", 1, 4),
				announces(40, "j", 1, 2, a, "", 6), orders(40.1, "autoscaler-1.1", 2, 7)),
			bought: Bought{2, 2, 2},
		},
		"no pod is pending any more": {
			log: market(pod(1, "a", 2), binds(3, "kube-scheduler-1.1", "a", "a", "n"),
				announces(40, "i", 0, 1, a, "", 3), orders(40.1, "autoscaler-1.1", 1, 4)),
			bought: Bought{1, 1, 1}, want: []string{"though no pod was pending"},
		},
		"the pod was bound while it was decided": {
			log: market(pod(1, "a", 2), binds(39, "kube-scheduler-1.1", "a", "a", "n"),
				announces(40, "i", 0, 1, a, "", 3), orders(40.1, "autoscaler-1.1", 1, 4)),
			bought: Bought{1, 1, 1},
		},
		"an exchange": {
			log:    market(announces(40, "i", 0, 1, a, `{"node":"n","reason":"costs more"}`, 3), orders(40.1, "autoscaler-1.1", 1, 4)),
			bought: Bought{1, 1, 1},
		},
		"fewer machines, and what others order": {
			log:    market(orders(1, "", 3, 2), orders(2, "autoscaler-1.1", 1, 3)),
			bought: Bought{},
		},
	} {
		bought, broken := Purchases(read(t, c.log...), Buying{Autoscaler: "autoscaler", StartUp: 6 * time.Second, Unseen: 5 * time.Second})
		expect(t, name, broken, c.want...)
		if bought != c.bought {
			t.Errorf("%s: %+v, want %+v", name, bought, c.bought)
		}
	}
}
