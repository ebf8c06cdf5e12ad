package consolidation

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// TestAListThatIsTooLongIsCutAndTheRestCounted, and the decision that is kept in memory stays whole.
func TestAListThatIsTooLongIsCutAndTheRestCounted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		length := rapid.SampledFrom([]int{0, 1, mostListed - 1, mostListed, mostListed + 1, 3 * mostListed})
		names := func(list string) []string {
			all := make([]string, length.Draw(rt, list))
			for i := range all {
				all[i] = fmt.Sprint(list, i)
			}
			return all
		}
		d := v1alpha1.ConsolidationStatus{Emptying: names("emptying"), Emptied: names("emptied"), Omitted: rapid.Int32Range(0, 9).Draw(rt, "omitted before")}
		for _, name := range names("drains") {
			drained := v1alpha1.ConsolidationDrain{Node: name}
			for i := range rapid.IntRange(0, 20).Draw(rt, "pods") {
				drained.Pods = append(drained.Pods, v1alpha1.ConsolidationMove{Pod: fmt.Sprint(name, "/", i)})
			}
			d.Drains = append(d.Drains, drained)
		}
		for _, name := range names("kept") {
			d.Kept = append(d.Kept, v1alpha1.Rejection{Name: name})
		}
		for _, name := range names("energy") {
			d.Energy = append(d.Energy, v1alpha1.EnergyMove{Pod: name})
		}
		before, published, omitted := *d.DeepCopy(), cut(d), 0
		for list, of := range map[string][2]int{
			"emptying": {len(d.Emptying), len(published.Emptying)}, "emptied": {len(d.Emptied), len(published.Emptied)},
			"drains": {len(d.Drains), len(published.Drains)}, "kept": {len(d.Kept), len(published.Kept)}, "energy": {len(d.Energy), len(published.Energy)},
		} {
			if want := min(of[0], 200); of[1] != want {
				rt.Errorf("of %d %s, %d are published, want %d", of[0], list, of[1], want)
			}
			omitted += max(0, of[0]-200)
		}
		pods, listed := 0, 0
		for i := range published.Drains {
			drained := &published.Drains[i]
			pods, listed = pods+len(d.Drains[i].Pods), listed+len(drained.Pods)
			if drained.Node != d.Drains[i].Node || len(drained.Pods) > 0 && drained.Pods[0].Pod != drained.Node+"/0" {
				rt.Errorf("drain %d is published as %+v", i, drained)
			}
		}
		if want := min(pods, 1000); listed != want {
			rt.Errorf("of %d pods of the published drains, %d are published, want %d", pods, listed, want)
		}
		if omitted += pods - listed; int(published.Omitted) != omitted {
			rt.Errorf("%d are omitted, want %d", published.Omitted, omitted)
		}
		if diff := cmp.Diff(before, d); diff != "" {
			rt.Errorf("the decision has changed (-before +after):\n%s", diff)
		}
	})
}
