package costreport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/auditor"
	"supercargo.dev/supercargo/cli/objects"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/dollars"
)

const gib = 1 << 30

// of returns what a pod of a group requests, in cores and GiB.
func of(group string, cores, memory int64) ask {
	return ask{group, packing.Size{MilliCPU: 1000 * cores, MemoryBytes: memory * gib}}
}

// TestAPodPaysForTheGreaterOfItsShares has a machine with 10 cores and 100 GiB.
func TestAPodPaysForTheGreaterOfItsShares(t *testing.T) {
	for _, tc := range []struct {
		name string
		asks []ask
		want map[string]float64
	}{
		{"no pods", nil, map[string]float64{}},
		{"CPU", []ask{of("a", 4, 10)}, map[string]float64{"a": 0.4}},
		{"memory", []ask{of("a", 1, 30)}, map[string]float64{"a": 0.3}},
		{"several pods of a group", []ask{of("a", 1, 30), of("a", 2, 10), of("b", 1, 0)}, map[string]float64{"a": 0.5, "b": 0.1}},
		{"nothing is requested", []ask{of("a", 0, 0)}, map[string]float64{"a": 0}},
		{"one takes the CPU, another the memory", []ask{of("a", 9, 10), of("b", 1, 90)}, map[string]float64{"a": 0.5, "b": 0.5}},
		{"more is requested than there is", []ask{of("a", 20, 0), of("b", 10, 0), of("c", 10, 0)}, map[string]float64{"a": 0.5, "b": 0.25, "c": 0.25}},
	} {
		got := sharesOf(of("", 10, 100).Size, tc.asks)
		if len(got) != len(tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
		for group, want := range tc.want {
			if !(math.Abs(got[group]-want) <= 1e-12) {
				t.Errorf("%s: group %s pays for %v, want %v", tc.name, group, got[group], want)
			}
		}
	}
	if got := sharesOf(packing.Size{}, []ask{of("a", 1, 1)}); got["a"] != 0 {
		t.Errorf("a pod pays for %v of a machine without resources", got["a"])
	}
}

// testNode is a node with 10 cores and 100 GiB at a price; without one if it is empty.
func testNode(name, price string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10"), corev1.ResourceMemory: resource.MustParse("100Gi")}
	if price != "" {
		n.Annotations[v1alpha1.AnnotationPricePerHour] = price
	}
	return n
}

// testPod is a pod on a node.
func testPod(namespace, name, node, team string, cores, memory int64) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{}}}
	if team != "" {
		p.Labels["team"] = team
	}
	p.Spec.NodeName = node
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(cores, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(memory*gib, resource.BinarySI),
	}}}}
	return p
}

func testCluster() *objects.Objects {
	return &objects.Objects{
		Nodes: []corev1.Node{testNode("b", "1.00"), testNode("a", "0.50"), testNode("free", "0"), testNode("none", "")},
		Pods: []corev1.Pod{
			testPod("shop", "web", "a", "red", 4, 10), testPod("shop", "db", "b", "blue", 1, 30), testPod("jobs", "x", "b", "red", 2, 10),
			testPod("shop", "pending", "", "red", 5, 5), testPod("shop", "far", "none", "red", 5, 5), testPod("kube-system", "proxy", "a", "", 0, 0),
			testPod("shop", "cheap", "free", "", 5, 5),
		},
	}
}

// told formats rows as "NAME PODS DOLLARS".
func told(r *Report) []string {
	var all []string
	for i := range r.Rows {
		all = append(all, fmt.Sprintf("%s %d %s", r.Rows[i].Name, r.Rows[i].Pods, r.Rows[i].text()))
	}
	return append(all, "idle "+r.Idle.text(), "total "+r.Total.text())
}

func TestTheCostOfAClusterIsDivided(t *testing.T) {
	for by, want := range map[By][]string{
		{}:              {"shop 3 0.50", "jobs 1 0.20", "kube-system 1 0.00", "idle 0.80", "total 1.50"},
		{Label: "team"}: {"red 2 0.40", "blue 1 0.30", " 2 0.00", "idle 0.80", "total 1.50"},
		{Label: "none"}: {" 5 0.70", "idle 0.80", "total 1.50"},
	} {
		r := OfCluster(testCluster(), auditor.Pricing{}, by)
		if diff := cmp.Diff(want, told(r)); diff != "" {
			t.Errorf("by %v (-want +got):\n%s", by, diff)
		}
		if r.Nodes != 3 || r.Pods != 5 || len(r.Unpriced) != 1 || r.Unpriced[0].Node != "none" || r.By != by.String() {
			t.Errorf("by %v: %+v", by, r)
		}
		if got := *r.Total.PerMonth; got != 730*1_500_000 {
			t.Errorf("%d a month", got)
		}
	}
	empty := OfCluster(&objects.Objects{}, auditor.Pricing{}, By{})
	if diff := cmp.Diff([]string{"idle 0.00", "total 0.00"}, told(empty)); diff != "" || empty.Rows == nil {
		t.Errorf("an empty cluster (-want +got):\n%s", diff)
	}
}

func TestWhatPodsAreGroupedBy(t *testing.T) {
	for text, want := range map[string]By{"namespace": {}, "label=team": {Label: "team"}, "label=a.example/b": {Label: "a.example/b"}} {
		if got, err := ParseBy(text); got != want || err != nil || got.String() != text {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "label", "label=", "pod", "Namespace"} {
		if _, err := ParseBy(text); err == nil || !strings.Contains(err.Error(), "must be namespace or label=KEY") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestRowsAddUpToTheBill draws clusters.
func TestRowsAddUpToTheBill(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		o, bill := &objects.Objects{}, int64(0)
		for n := range 1 + random.IntN(8) {
			price := random.Int64N(9_999_999)
			bill += price
			o.Nodes = append(o.Nodes, testNode(fmt.Sprint(n), dollars.Format(price)))
			for p := range random.IntN(9) {
				o.Pods = append(o.Pods, testPod(fmt.Sprint("n", random.IntN(3)), fmt.Sprintf("%d-%d", n, p), fmt.Sprint(n), "", random.Int64N(8), random.Int64N(80)))
			}
		}
		r := OfCluster(o, auditor.Pricing{}, By{})
		sum := *r.Idle.PerHour
		for i := range r.Rows {
			sum += *r.Rows[i].PerHour
		}
		if sum != *r.Total.PerHour || int64(sum) != bill || *r.Idle.PerHour < 0 {
			t.Fatalf("seed %d: rows and %d idle add up to %d, the total is %d, and the bill %d", seed, *r.Idle.PerHour, sum, *r.Total.PerHour, bill)
		}
	}
}

// hour0 is when recordings begin.
const hour0 = 500_000 * time.Hour

// recorded returns a recording that lasts four hours.
func recorded(rows ...trace.Row) *trace.Recording {
	all := []trace.Row{{Time: hour0, Event: trace.EventBegin, Name: trace.NamesPlain}}
	return &trace.Recording{Rows: append(append(all, rows...), trace.Row{Time: hour0 + 4*time.Hour, Event: trace.EventStop})}
}

// at returns a time in hours after the beginning.
func at(hours float64) time.Duration { return hour0 + time.Duration(hours*float64(time.Hour)) }

// machine is a node with 10 cores and 100 GiB; a negative price is unknown.
func machine(hours float64, id string, micros int64) trace.Row {
	r := trace.Row{Time: at(hours), Event: trace.EventNode, ID: id, Name: "node-" + id, MilliCPU: 10_000, MemoryBytes: 100 * gib, Flavor: "flavor-" + id}
	if micros >= 0 {
		r.MicroDollarsPerHour = &micros
	}
	return r
}

func event(hours float64, what trace.Event, id, node string) trace.Row {
	return trace.Row{Time: at(hours), Event: what, ID: id, Node: node}
}

func pod(hours float64, id, namespace string, cores, memory int64) trace.Row {
	return trace.Row{Time: at(hours), Event: trace.EventPod, ID: id, Namespace: namespace, Name: id, MilliCPU: 1000 * cores, MemoryBytes: memory * gib}
}

// priced returns a price of the user.
func priced(name string, micros int64) catalogue.Price {
	var p catalogue.Price
	p.Name, p.MicroDollarsPerHour = name, micros
	return p
}

func TestTheCostOfARecordingIsThatOfItsNodes(t *testing.T) {
	daemon := pod(0, "d", "kube-system", 1, 0)
	daemon.Event, daemon.Node = trace.EventDaemon, "a"
	for _, tc := range []struct {
		name string
		rows []trace.Row
		want []string
	}{
		{"nothing runs", []trace.Row{machine(0, "a", 1_000_000)}, []string{"idle 4.00", "total 4.00"}},
		{"the node came before the recording", []trace.Row{machine(-3, "a", 1_000_000)}, []string{"idle 4.00", "total 4.00"}},
		{"the node comes and goes", []trace.Row{machine(1, "a", 1_000_000), event(2.5, trace.EventGone, "a", "")}, []string{"idle 1.50", "total 1.50"}},
		{"the node returns", []trace.Row{machine(1, "a", 1_000_000), event(2, trace.EventGone, "a", ""), machine(3, "a", 1_000_000)}, []string{"idle 3.00", "total 3.00"}},
		{"its price changes", []trace.Row{machine(0, "a", 1_000_000), machine(1, "a", 2_000_000)}, []string{"idle 7.00", "total 7.00"}},
		{"a pod runs for a part of the time", []trace.Row{
			machine(0, "a", 1_000_000), pod(0, "p", "shop", 5, 10), event(1, trace.EventStart, "p", "a"), event(2, trace.EventEnd, "p", ""),
		}, []string{"shop 1 0.50", "idle 3.50", "total 4.00"}},
		{"a pod does not end", []trace.Row{machine(0, "a", 1_000_000), pod(0, "p", "shop", 5, 10), event(2, trace.EventStart, "p", "a")},
			[]string{"shop 1 1.00", "idle 3.00", "total 4.00"}},
		{"a pod ran before the recording", []trace.Row{machine(-2, "a", 1_000_000), pod(-2, "p", "shop", 5, 10), event(-2, trace.EventStart, "p", "a"), event(1, trace.EventEnd, "p", "")},
			[]string{"shop 1 0.50", "idle 3.50", "total 4.00"}},
		{"the node goes before its pod ends", []trace.Row{
			machine(0, "a", 1_000_000), pod(0, "p", "shop", 5, 10), event(0, trace.EventStart, "p", "a"), event(2, trace.EventGone, "a", ""), event(3, trace.EventEnd, "p", ""),
		}, []string{"shop 1 1.00", "idle 1.00", "total 2.00"}},
		{"two pods take all, one of the CPU and one of the memory", []trace.Row{
			machine(0, "a", 1_000_000), pod(0, "p", "shop", 9, 10), event(0, trace.EventStart, "p", "a"), pod(0, "q", "jobs", 1, 90), event(2, trace.EventStart, "q", "a"),
		}, []string{"shop 1 2.80", "jobs 1 1.00", "idle 0.20", "total 4.00"}},
		{"a pod of a DaemonSet", []trace.Row{machine(0, "a", 1_000_000), daemon}, []string{"kube-system 1 0.40", "idle 3.60", "total 4.00"}},
		{"a pod that never starts", []trace.Row{machine(0, "a", 1_000_000), pod(0, "p", "shop", 5, 10), event(2, trace.EventEnd, "p", "")}, []string{"idle 4.00", "total 4.00"}},
		{"a price of the user", []trace.Row{machine(0, "own", -1), machine(0, "a", 1_000_000)}, []string{"idle 12.00", "total 12.00"}},
	} {
		r := OfRecording(recorded(tc.rows...), []catalogue.Price{priced("flavor-own", 2_000_000), priced("flavor-a", 9)})
		if diff := cmp.Diff(tc.want, told(r)); diff != "" || len(r.Unpriced)+len(r.Notes) > 0 {
			t.Errorf("%s: %v %v (-want +got):\n%s", tc.name, r.Unpriced, r.Notes, diff)
		}
		if !r.From.Equal(since1970(hour0)) || r.To.Sub(*r.From) != 4*time.Hour {
			t.Errorf("%s: from %v to %v", tc.name, r.From, r.To)
		}
	}
}

func TestWhatARecordingLacksIsSaid(t *testing.T) {
	r := OfRecording(recorded(machine(0, "x", -1), pod(0, "p", "shop", 5, 10), event(0, trace.EventStart, "p", "x"), pod(0, "q", "shop", 5, 10), event(0, trace.EventStart, "q", "")), nil)
	if diff := cmp.Diff([]string{"idle 0.00", "total 0.00"}, told(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Unpriced{{"node-x", "the recording has no price of flavor flavor-x"}}, r.Unpriced); diff != "" {
		t.Errorf("unpriced (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"1 pod is left out, because the recording has no node for it."}, r.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

// TestTheCostOfARecordingIsTheSumOfItsMinutes compares with the cost of each minute.
func TestTheCostOfARecordingIsTheSumOfItsMinutes(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		var rows []trace.Row
		minute := func() float64 { return float64(random.IntN(240)) / 60 }
		type span struct{ from, to float64 }
		nodes, pods, on := map[string]span{}, map[string]span{}, map[string]string{}
		for n := range 3 {
			id := fmt.Sprint("n", n)
			s := span{minute(), 4}
			rows = append(rows, machine(s.from, id, int64(1_000_000*(n+1))))
			if random.IntN(2) == 0 {
				s.to = max(s.from, minute())
				rows = append(rows, event(s.to, trace.EventGone, id, ""))
			}
			nodes[id] = s
		}
		asked := map[string]ask{}
		for p := range 12 {
			id, node := fmt.Sprint("p", p), fmt.Sprint("n", random.IntN(3))
			s := span{minute(), 4}
			a := of(fmt.Sprint("g", random.IntN(3)), random.Int64N(9), random.Int64N(90))
			rows = append(rows, pod(s.from, id, a.group, a.MilliCPU/1000, a.MemoryBytes/gib), event(s.from, trace.EventStart, id, node))
			if random.IntN(2) == 0 {
				s.to = max(s.from, minute())
				rows = append(rows, event(s.to, trace.EventEnd, id, ""))
			}
			pods[id], on[id], asked[id] = s, node, a
		}
		slices.SortStableFunc(rows, func(x, y trace.Row) int { return int(x.Time - y.Time) })
		want, bill := map[string]float64{}, 0.0
		for m := range 240 {
			now := (float64(m) + 0.5) / 60
			for n := range 3 {
				id := fmt.Sprint("n", n)
				if now < nodes[id].from || now >= nodes[id].to {
					continue
				}
				price := float64(n+1) / 60
				bill += price
				total, shares := 0.0, map[string]float64{}
				for pod, s := range pods {
					if on[pod] == id && now >= s.from && now < s.to {
						share := max(float64(asked[pod].MilliCPU)/10_000, float64(asked[pod].MemoryBytes)/(100*gib))
						total += share
						shares[asked[pod].group] += share
					}
				}
				for group, share := range shares {
					want[group] += price * share / max(1, total)
				}
			}
		}
		r := OfRecording(recorded(rows...), nil)
		for i := range r.Rows {
			if got := r.Rows[i].Dollars.Dollars(); !(math.Abs(got-want[r.Rows[i].Name]) <= 1e-5) {
				t.Fatalf("seed %d: %s pays %v, want %v", seed, r.Rows[i].Name, got, want[r.Rows[i].Name])
			}
		}
		if got := r.Total.Dollars.Dollars(); !(math.Abs(got-bill) <= 1e-5) {
			t.Fatalf("seed %d: the bill is %v, want %v", seed, got, bill)
		}
	}
}

func TestAReportIsPrinted(t *testing.T) {
	o := testCluster()
	o.Nodes[3].Name = "no\x1bne"
	now := OfCluster(o, auditor.Pricing{}, By{Label: "team"})
	var table, csv bytes.Buffer
	if err := now.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	want := `Cost per hour now by label=team: $1.50 for 3 nodes and 5 pods

TEAM        PODS  $/HOUR  $/MONTH  SHARE
red         2     0.40    292.00   26.7 %
blue        1     0.30    219.00   20.0 %
(no value)  2     0.00    0.00     0.0 %
(idle)      -     0.80    584.00   53.3 %

1 node is left out with its pods, because the price is unknown:
  no�ne: it has no label node.kubernetes.io/instance-type

Prices: the annotations of nodes or MachineDeployments.
`
	if diff := cmp.Diff(want, table.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if err := now.WriteCSV(&csv); err != nil {
		t.Fatal(err)
	}
	const rows = "name,pods,dollars_per_hour,dollars_per_month,share\nred,2,0.40,292.00,0.266667\nblue,1,0.30,219.00,0.200000\n(no value),2,0.00,0.00,0.000000\n(idle),,0.80,584.00,0.533333\n"
	if diff := cmp.Diff(rows, csv.String()); diff != "" {
		t.Errorf("CSV (-want +got):\n%s", diff)
	}

	past := OfRecording(recorded(machine(0, "a", 1_000_000), pod(0, "p", "shop", 5, 10), event(2, trace.EventStart, "p", "a")), nil)
	table.Reset()
	csv.Reset()
	if err := past.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	want = "Cost from 2027-01-15T08:00:00Z to 2027-01-15T12:00:00Z by namespace: $4.00 for 1 node and 1 pod\n\nNAMESPACE  PODS  $     SHARE\nshop       1     1.00  25.0 %\n(idle)     -     3.00  75.0 %\n"
	if diff := cmp.Diff(want, table.String()); diff != "" {
		t.Errorf("table of a recording (-want +got):\n%s", diff)
	}
	if err := past.WriteCSV(&csv); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("name,pods,dollars,share\nshop,1,1.00,0.250000\n(idle),,3.00,0.750000\n", csv.String()); diff != "" {
		t.Errorf("CSV of a recording (-want +got):\n%s", diff)
	}
	text, err := json.Marshal(past)
	if err != nil || !strings.Contains(string(text), `"rows":[{"name":"shop","pods":1,"dollars":1,"share":0.25}],"idle":{"dollars":3,"share":0.75},"total":{"dollars":4,"share":1}`) {
		t.Errorf("%v: %s", err, text)
	}
}
