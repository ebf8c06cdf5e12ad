package fleet

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/decide"
	"supercargo.dev/supercargo/autoscaler/provider"
)

func ago(d time.Duration) time.Time { return epoch.Add(-d) }

func TestMachinesAreBoughtOnceNoFurtherPodComes(t *testing.T) {
	const idle, most = time.Second, 10 * time.Second
	tests := []struct {
		name   string
		waited []time.Time
		want   time.Duration
	}{
		{"nobody waits", nil, 0},
		{"one has just come", []time.Time{epoch}, time.Second},
		{"one came a while ago", []time.Time{ago(400 * time.Millisecond)}, 600 * time.Millisecond},
		{"none has come for long enough", []time.Time{ago(time.Second)}, 0},
		{"the last one counts", []time.Time{ago(2 * time.Second), ago(100 * time.Millisecond), ago(5 * time.Second)}, 900 * time.Millisecond},
		{"they come and come", []time.Time{ago(9500 * time.Millisecond), epoch}, 500 * time.Millisecond},
		{"the first has waited for long enough", []time.Time{epoch, ago(10 * time.Second)}, 0},
		{"a clock that is behind", []time.Time{epoch.Add(time.Minute)}, time.Minute + time.Second},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := batch(epoch, tc.waited, idle, most); got != tc.want {
				t.Errorf("waits %v, want %v", got, tc.want)
			}
		})
	}
}

// TestNoPodIsKeptWaitingForLongerThanTheMost also says that nothing is waited for
// without cause: some pod came less than idle ago.
func TestNoPodIsKeptWaitingForLongerThanTheMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := func(name string) time.Duration {
			return time.Duration(rapid.IntRange(0, 40).Draw(t, name)) * time.Second
		}
		idle, most := length("idle"), length("most")
		var waited []time.Time
		for range rapid.IntRange(0, 5).Draw(t, "pods") {
			waited = append(waited, ago(length("ago")))
		}
		wait := batch(epoch, waited, idle, most)
		if wait < 0 {
			t.Fatalf("waits %v", wait)
		}
		late, fresh := false, false
		for _, w := range waited {
			late = late || epoch.Add(wait).Sub(w) > most
			fresh = fresh || epoch.Sub(w) < idle
		}
		if wait > 0 && (late || !fresh) {
			t.Fatalf("waits %v: a pod is kept for too long %t, one has just come %t", wait, late, fresh)
		}
		if wait == 0 && fresh && !slices.ContainsFunc(waited, func(w time.Time) bool { return epoch.Sub(w) >= most }) {
			t.Fatal("does not wait although a pod has just come, and none has waited for long")
		}
	})
}

// twinLag keeps all times and weighs them anew.
func twinLag(times []float64) (mean, deviation float64) {
	weights := make([]float64, len(times))
	for i := range times {
		w := 1 / float64(min(i+1, 16))
		for j := range i {
			weights[j] *= 1 - w
		}
		weights[i] = w
	}
	for i, x := range times {
		mean += weights[i] * x
	}
	for i, x := range times {
		deviation += weights[i] * (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(deviation)
}

func TestLagsAreLearnedAsWeightedMeans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var lag *v1alpha1.AcquisitionLag
		var times []float64
		for range rapid.IntRange(1, 60).Draw(t, "machines") {
			took := time.Duration(rapid.IntRange(-5_000, 600_000).Draw(t, "took")) * time.Millisecond
			times = append(times, max(0, took.Seconds()))
			lag = learnLag(lag, took)
			mean, deviation := twinLag(times)
			// Each step rounds to the millisecond, and forgets what was rounded before.
			if math.Abs(lag.Mean.Seconds()-mean) > 0.02 || lag.Samples != int64(len(times)) || lag.Mean.Duration < 0 || lag.Deviation.Duration < 0 {
				t.Fatalf("after %v: %+v, want mean %v", times, lag, mean)
			}
			if got := lag.Deviation.Seconds(); math.Abs(got*got-deviation*deviation) > 0.05*(1+deviation) {
				t.Fatalf("after %v: %+v, want deviation %v", times, lag, deviation)
			}
		}
	})
}

func TestLagsForgetThePast(t *testing.T) {
	var lag *v1alpha1.AcquisitionLag
	for range 1000 {
		lag = learnLag(lag, time.Hour)
	}
	for range 200 {
		lag = learnLag(lag, time.Minute)
	}
	if got := lag.Mean.Duration; got < time.Minute || got > time.Minute+time.Second {
		t.Errorf("after 200 machines in a minute the mean is %v", got)
	}
}

func TestLearningDoesNotChangeWhatWasLearned(t *testing.T) {
	old := &v1alpha1.AcquisitionLag{Mean: metav1.Duration{Duration: time.Minute}, Samples: 3}
	before := *old
	learnLag(old, time.Hour)
	if *old != before {
		t.Errorf("it is now %+v", old)
	}
}

func TestTheExpectedLagIsTheLearnedMean(t *testing.T) {
	learned := &v1alpha1.AcquisitionLag{Mean: metav1.Duration{Duration: 90 * time.Second}, Samples: 1}
	for _, tc := range []struct {
		learned *v1alpha1.AcquisitionLag
		want    time.Duration
	}{{nil, time.Minute}, {&v1alpha1.AcquisitionLag{}, time.Minute}, {learned, 90 * time.Second}} {
		if got := expectedLag(tc.learned, time.Minute); got != tc.want {
			t.Errorf("learned %+v: expected %v, want %v", tc.learned, got, tc.want)
		}
	}
}

func TestLimitsAreThoseOfTheSpec(t *testing.T) {
	quantity := func(s string) *resource.Quantity { return new(resource.MustParse(s)) }
	for name, tc := range map[string]struct {
		limits v1alpha1.FleetLimits
		want   decide.Limits
	}{
		"none":                             {v1alpha1.FleetLimits{}, decide.Limits{}},
		"machines":                         {v1alpha1.FleetLimits{Machines: new(int32(5))}, decide.Limits{Machines: new(int64(5))}},
		"no machine":                       {v1alpha1.FleetLimits{Machines: new(int32(0))}, decide.Limits{Machines: new(int64(0))}},
		"CPU":                              {v1alpha1.FleetLimits{CPU: quantity("30500m")}, decide.Limits{MilliCPU: new(int64(30500))}},
		"memory":                           {v1alpha1.FleetLimits{Memory: quantity("100Gi")}, decide.Limits{MemoryBytes: new(int64(100 * testGiB))}},
		"dollars":                          {v1alpha1.FleetLimits{DollarsPerHour: new("0.56")}, decide.Limits{MicroDollarsPerHour: new(int64(560_000))}},
		"more dollars than anything costs": {v1alpha1.FleetLimits{DollarsPerHour: new("999999999")}, decide.Limits{MicroDollarsPerHour: new(int64(math.MaxInt64))}},
	} {
		if diff := cmp.Diff(tc.want, limitsOf(&tc.limits)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPricesAreThoseOfTheProviderThenOfTheCatalogue(t *testing.T) {
	catalogue := map[string]int64{"m5.large": 96_000, "small": 50_000, "free": 0}
	flavors := []provider.Flavor{
		{Name: "small", HasPrice: true, MicroDollarsPerHour: 7},
		{Name: "a", InstanceType: "m5.large"},
		{Name: "free", InstanceType: "unlisted"},
		{Name: "b", InstanceType: "unlisted"},
		{Name: "gift", HasPrice: true},
	}
	want := map[string]price{
		"small": {7, "Annotation", true}, "a": {96_000, "Catalogue", true}, "free": {0, "Catalogue", true}, "b": {}, "gift": {0, "Annotation", true},
	}
	if diff := cmp.Diff(want, pricesOf(flavors, catalogue), cmp.AllowUnexported(price{})); diff != "" {
		t.Errorf("prices (-want +got):\n%s", diff)
	}
	if got := pricesOf(flavors, nil)["a"]; got.known {
		t.Errorf("without a catalogue the price is %+v", got)
	}
}

func TestAFleetIsRefusedWhileAFlavorHasNoPrice(t *testing.T) {
	none := map[string]price{"c": {1, fromAnnotation, true}}
	if err := errUnpriced([]provider.Flavor{{Name: "c"}, {Name: "broken", Problem: "it is"}}, none); err != nil {
		t.Errorf("all that can be bought have prices: %v", err)
	}
	err := errUnpriced([]provider.Flavor{{Name: "b"}, {Name: "a"}, {Name: "c"}}, none)
	if err == nil || !strings.Contains(err.Error(), "for a, b: ") || !strings.Contains(err.Error(), "supercargo.dev/price-per-hour") {
		t.Errorf("the refusal is %v", err)
	}
	var many []provider.Flavor
	for i := range 13 {
		many = append(many, provider.Flavor{Name: fmt.Sprintf("f%02d", i)})
	}
	if err := errUnpriced(many, nil); err == nil || !strings.Contains(err.Error(), "f09 and 3 more: ") || strings.Contains(err.Error(), "f10") {
		t.Errorf("the refusal is %v", err)
	}
}

func TestAMachineDeploymentBelongsToTheFirstFleetThatNamesIt(t *testing.T) {
	holding := func(fleet, namespace string, flavors ...string) *stock {
		f := fleetNamed(fleet)
		f.Spec.ClusterAPI.Namespace = namespace
		s := &stock{fleet: f, inventory: &provider.Inventory{}}
		for _, name := range flavors {
			s.inventory.Flavors = append(s.inventory.Flavors, provider.Flavor{Name: name, Want: 1})
			s.inventory.Machines = append(s.inventory.Machines, provider.Machine{Name: "m-" + name, Flavor: name})
		}
		return s
	}
	claimed := map[string]string{}
	first, second, apart := holding("f", "x", "a", "b"), holding("g", "x", "b", "c"), holding("h", "y", "b")
	for _, s := range []*stock{first, second, apart} {
		disclaim(s, claimed)
	}
	if got := second.inventory.Flavors; !strings.Contains(got[0].Problem, "NodeFleet f") || got[0].Want != 0 || got[1].Problem != "" {
		t.Errorf("the second has %+v", got)
	}
	if got := second.inventory.Machines; len(got) != 1 || got[0].Name != "m-c" {
		t.Errorf("the second has the machines %+v", got)
	}
	for _, s := range []*stock{first, apart} {
		for _, f := range s.inventory.Flavors {
			if f.Problem != "" || len(s.inventory.Machines) != len(s.inventory.Flavors) {
				t.Errorf("fleet %s: %+v", s.fleet.Name, f)
			}
		}
	}
}

func TestOlderFleetsComeFirst(t *testing.T) {
	old, young := fleetNamed("z"), fleetNamed("a")
	young.CreationTimestamp = metav1.NewTime(epoch)
	twin := fleetNamed("b")
	fleets := []v1alpha1.NodeFleet{*young, *old, *twin}
	slices.SortFunc(fleets, seniority)
	if fleets[0].Name != "b" || fleets[1].Name != "z" || fleets[2].Name != "a" {
		t.Errorf("the order is %s, %s, %s", fleets[0].Name, fleets[1].Name, fleets[2].Name)
	}
}

// budgetOf is a PodDisruptionBudget that is spent.
func budgetOf(labels map[string]string) policyv1.PodDisruptionBudget {
	return policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}
}

func TestTextsAreClippedAtRunes(t *testing.T) {
	if got := clip(strings.Repeat("a", 1024)); len(got) != 1024 || strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes that fit became %d", 1024, len(got))
	}
	if got := clip(strings.Repeat("ä", 600)); len(got) > 1024 || !strings.HasSuffix(got, "ä…") || strings.Contains(got, "\uFFFD") {
		t.Errorf("it ends in %q", got[len(got)-8:])
	}
}
