package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// published returns what readers find of a decision.
func published(t *testing.T, d *Decision) *Decision {
	t.Helper()
	data, err := d.Data()
	if err != nil {
		t.Fatal(err)
	}
	read, err := Read(&corev1.ConfigMap{Data: data})
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func TestADecisionIsReadAsItWasPublished(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 2, 12, 0, 0, 0, time.Local))
	d := &Decision{
		Time: at, Mode: "Observe", Policy: "HTAS", Paused: "an incident", DollarsPerHour: "0.30", ExpectedDollarsPerHour: "0.10",
		Nodes: 3, Emptying: []string{"b"}, Emptied: []string{"c"},
		Drains: []Drain{{Node: "b", Time: at, Reason: "it is dear", SavesDollars: "0.20", CostsDollars: "0.01", UntilSeconds: 90, Pods: []Move{
			{Pod: "jobs/p", Method: "migrate", Target: "a", Reason: "cheapest"},
		}}},
		Kept: []v1alpha1.Rejection{{Name: "a", Reason: "it receives pods of other nodes"}},
		Energy: []Transfer{
			{Time: at, Pod: "jobs/q", From: "a", Target: "d", Method: "Restart", Joules: 7, SoonerSeconds: -2, Dollars: new(0.5), Reason: "it scores 90"},
			{Time: at, Pod: "jobs/r", From: "a", Target: "d", Method: "Checkpoint", CO2Grams: new(1.5), Reason: "it scores 91"},
		},
	}
	if diff := cmp.Diff(d, published(t, d)); diff != "" {
		t.Errorf("(-published +read):\n%s", diff)
	}
}

// TestAListThatIsTooLongIsCutAndTheRestCounted, and the decision that is kept in memory stays whole.
func TestAListThatIsTooLongIsCutAndTheRestCounted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names := func(list string) []string {
			all := make([]string, rapid.SampledFrom([]int{0, 1, MostListed - 1, MostListed, MostListed + 1, 3 * MostListed}).Draw(rt, list))
			for i := range all {
				all[i] = fmt.Sprint(list, i)
			}
			return all
		}
		d := &Decision{Emptying: names("emptying"), Emptied: names("emptied"), Omitted: rapid.IntRange(0, 9).Draw(rt, "omitted before")}
		for _, name := range names("drains") {
			d.Drains = append(d.Drains, Drain{Node: name})
		}
		for _, name := range names("kept") {
			d.Kept = append(d.Kept, v1alpha1.Rejection{Name: name})
		}
		for _, name := range names("energy") {
			d.Energy = append(d.Energy, Transfer{Pod: name})
		}
		before, read, omitted := *d, published(t, d), 0
		for list, of := range map[string][2]int{
			"emptying": {len(d.Emptying), len(read.Emptying)}, "emptied": {len(d.Emptied), len(read.Emptied)},
			"drains": {len(d.Drains), len(read.Drains)}, "kept": {len(d.Kept), len(read.Kept)}, "energy": {len(d.Energy), len(read.Energy)},
		} {
			if want := min(of[0], 200); of[1] != want {
				rt.Errorf("of %d %s, %d are published, want %d", of[0], list, of[1], want)
			}
			omitted += max(0, of[0]-200)
		}
		if read.Omitted != omitted {
			rt.Errorf("%d are omitted, want %d", read.Omitted, omitted)
		}
		if len(read.Drains) > 0 && read.Drains[len(read.Drains)-1].Node != d.Drains[len(read.Drains)-1].Node {
			rt.Errorf("the published drains are not the first ones: %v", read.Drains)
		}
		if diff := cmp.Diff(&before, d); diff != "" {
			rt.Errorf("the decision has changed (-before +after):\n%s", diff)
		}
	})
}

func TestAConfigMapWithoutADecisionIsNamedWithItsKey(t *testing.T) {
	for _, text := range []string{"", "{", `{"nodes": "three"}`} {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: Name}, Data: map[string]string{"decision": text}}
		if _, err := Read(object); err == nil || !strings.HasPrefix(err.Error(), "read key decision of ConfigMap home/supercargo-consolidation: ") {
			t.Errorf("%q: error %v, want one that names the ConfigMap and its key", text, err)
		}
	}
}
