package sizing

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// week returns the use of a container that is sampled every five minutes for a week.
func week(request float64, of func(hour, sample int) float64) *Use {
	u := NewUse(request)
	for h := range Hours {
		for s := range 12 {
			u.Add(time.Duration(h)*time.Hour+time.Duration(s)*5*time.Minute, of(h, s))
		}
	}
	return u
}

// end is the last hour of a week.
const end = (Hours - 1) * time.Hour

func near(a, b, relative float64) bool {
	return math.Abs(a-b) <= relative*max(math.Abs(a), math.Abs(b), 1e-9)
}

// TestAProfileIsTheMeanAndTheVarianceOfEachHour holds the running sums against those of a naive twin.
func TestAProfileIsTheMeanAndTheVarianceOfEachHour(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := map[int][]float64{}
		u := NewUse(1)
		at := 0
		for range rapid.IntRange(1, 400).Draw(t, "samples") {
			at += rapid.IntRange(0, 5).Draw(t, "hours later")
			x := rapid.Float64Range(0, 1000).Draw(t, "amount")
			u.Add(time.Duration(at)*time.Hour, x)
			samples[at] = append(samples[at], x)
		}
		p := u.Profile(time.Duration(at) * time.Hour)
		for age := range Hours {
			of := samples[at-age]
			if len(of) == 0 {
				continue
			}
			mean, squares := 0.0, 0.0
			for _, x := range of {
				mean += x / float64(len(of))
			}
			for _, x := range of {
				squares += (x - mean) * (x - mean)
			}
			if variance := squares / max(1, float64(len(of)-1)); math.Abs(p.Mean[age]-mean) > 0.01 || math.Abs(p.Variance[age]-variance) > 1 {
				t.Fatalf("%d hours ago: mean %v and variance %v, want %v and %v", age, p.Mean[age], p.Variance[age], mean, variance)
			}
		}
	})
}

func TestAnHourWithoutSamplesIsLikeTheSameHourOfOtherDays(t *testing.T) {
	u := NewUse(0)
	for day := range 3 {
		for h := range 24 {
			if day != 1 || h != 5 {
				u.Add(time.Duration(24*day+h)*time.Hour, float64(h))
			}
		}
	}
	p := u.Profile(71 * time.Hour)
	for age, want := range map[int]float64{0: 23, 71 - 29: 5, 72: 23, 72 + 23: 0} {
		if p.Mean[age] != want {
			t.Errorf("%d hours ago it is expected to have used %v, want %v", age, p.Mean[age], want)
		}
	}
}

// TestAYoungContainerMayStillUseItsRequest: in its first hours nothing shrinks to what was seen in them.
func TestAYoungContainerMayStillUseItsRequest(t *testing.T) {
	for _, tc := range []struct {
		name  string
		hours int
		want  float64
	}{
		{"unknown", 0, 10},
		{"known for two hours", 2, 2 + 4.0/6*8},
		{"known for five hours", 5, 2 + 1.0/6*8},
		{"known for six hours", 6, 2},
	} {
		u := NewUse(10)
		for h := range tc.hours {
			u.Add(time.Duration(h)*time.Hour, 2)
		}
		if got := u.Profile(time.Duration(tc.hours) * time.Hour).Mean[100]; !near(got, tc.want, 1e-9) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestWhatIsNoSampleIsIgnored(t *testing.T) {
	u := NewUse(7)
	u.Add(5*time.Hour, 3)
	for _, x := range []float64{math.NaN(), math.Inf(1), -1} {
		u.Add(6*time.Hour, x)
	}
	u.Add(4*time.Hour, 100) // it comes too late
	if amount, deviation, known := u.Last(); amount != 3 || deviation != 0 || !known || u.Known() != 1 {
		t.Errorf("last is %v, %v, %v of %d hours; want 3 of one hour", amount, deviation, known, u.Known())
	}
	u.Gap()
	if _, _, known := u.Last(); known {
		t.Error("after a gap, the last sample is known")
	}
}

func TestWhatIsOlderThanAWeekIsForgotten(t *testing.T) {
	u := NewUse(0)
	for h := range 2 * Hours {
		u.Add(time.Duration(h)*time.Hour, map[bool]float64{true: 100, false: 1}[h < Hours])
	}
	if p := u.Profile((2*Hours - 1) * time.Hour); !near(p.Overall, 1, 1e-9) || u.Known() != Hours {
		t.Errorf("mean %v of %d hours, want 1 of %d", p.Overall, u.Known(), Hours)
	}
	u.Add(5*Hours*time.Hour, 8) // three weeks later
	if u.Known() != 1 {
		t.Errorf("after three weeks without samples, %d hours are known, want 1", u.Known())
	}
}

// TestTheQuantileOfANormalSumIsThatOfTheTextbook: 20 containers of mean 1 and variance 0.04, all hours equal.
func TestTheQuantileOfANormalSumIsThatOfTheTextbook(t *testing.T) {
	profiles := make([]*Profile, 20)
	for i := range profiles {
		profiles[i] = flat(1, 0.04)
	}
	for risk, z := range map[float64]float64{0.1: 1.2816, 0.01: 2.3263, 0.001: 3.0902} {
		if got, want := Required(profiles, risk), 20+z*math.Sqrt(20*0.04); !near(got, want, 0.002) {
			t.Errorf("risk %v: %v, want %v", risk, got, want)
		}
	}
}

func flat(mean, variance float64) *Profile {
	p := &Profile{Overall: mean, Most: math.Inf(1)}
	for h := range Hours {
		p.Mean[h], p.Variance[h] = mean, variance
	}
	return p
}

// TestWhatWorksAtDifferentTimesSharesAMachine: two containers that need 10 by day and by night need 10 together, two
// that need it at the same time need 20.
func TestWhatWorksAtDifferentTimesSharesAMachine(t *testing.T) {
	day := week(10, func(h, _ int) float64 { return map[bool]float64{true: 10, false: 0}[h%24 < 12] }).Profile(end)
	night := week(10, func(h, _ int) float64 { return map[bool]float64{true: 0, false: 10}[h%24 < 12] }).Profile(end)
	if got := Required([]*Profile{day, night}, 0.01); !near(got, 10, 0.02) {
		t.Errorf("apart they need %v, want 10", got)
	}
	if got := Required([]*Profile{day, day}, 0.01); !near(got, 20, 0.02) {
		t.Errorf("together they need %v, want 20", got)
	}
}

// TestSharesAddUpToWhatIsRequired, or to more where one gets its mean although it rests when others work; and what
// is required is exceeded by the stated risk.
func TestSharesAddUpToWhatIsRequired(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		profiles := make([]*Profile, rapid.IntRange(1, 8).Draw(t, "containers"))
		for i := range profiles {
			p := &Profile{Most: math.Inf(1)}
			if rapid.Bool().Draw(t, "has a maximum") {
				p.Most = rapid.Float64Range(100, 200).Draw(t, "most")
			}
			for h := range Hours {
				p.Mean[h] = rapid.Float64Range(0, 100).Draw(t, "mean")
				p.Variance[h] = rapid.Float64Range(0, 400).Draw(t, "variance")
				p.Overall += p.Mean[h] / Hours
			}
			profiles[i] = p
		}
		risk := rapid.Float64Range(0.0005, 0.2).Draw(t, "risk")
		required, shares := Shares(profiles, risk)
		sum, most := 0.0, 0.0
		for i, s := range shares {
			sum += s
			most += profiles[i].Most
			if p := profiles[i]; s < p.Overall || s > p.Most {
				t.Errorf("container %d gets %v, want at least its mean %v and at most %v", i, s, p.Overall, p.Most)
			}
		}
		if sum < required*(1-1e-6) {
			t.Errorf("shares add up to %v, less than the required %v", sum, required)
		}
		if got := Overload(profiles, required); !near(got, risk, 0.01) && required < most {
			t.Errorf("the required amount is exceeded with probability %v, want %v", got, risk)
		}
	})
}

func TestEqualContainersGetEqualShares(t *testing.T) {
	p := week(5, func(h, s int) float64 { return float64(h%24) + float64(s%3) }).Profile(end)
	required, shares := Shares([]*Profile{p, p, p, p}, 0.01)
	for _, s := range shares {
		if !near(s, required/4, 1e-6) {
			t.Errorf("shares are %v of %v, want a quarter each", shares, required)
		}
	}
}

func TestNoContainersNeedNothing(t *testing.T) {
	required, shares := Shares(nil, 0.01)
	if required != 0 || len(shares) != 0 || Required(nil, 0.01) != 0 || Overload(nil, 0) != 0 {
		t.Errorf("%v, %v, want nothing", required, shares)
	}
}

// TestRecentHoursCountMore: 10 in the last 72 hours, nothing in the 96 before.
func TestRecentHoursCountMore(t *testing.T) {
	p := week(10, func(h, _ int) float64 { return map[bool]float64{true: 10, false: 0}[h >= Hours-72] }).Profile(end)
	if got, want := Overload([]*Profile{p}, 5), 0.5/(1-math.Exp2(-float64(Hours)/halfLife)); !near(got, want, 0.001) {
		t.Errorf("more than 5 is expected in %v of the time, want %v", got, want)
	}
}

func TestNothingIsExpectedAboveTheMost(t *testing.T) {
	p := flat(1, 1)
	p.Most = 1.5
	if got := Overload([]*Profile{p, p}, 3); got != 0 {
		t.Errorf("more than both ever use is expected in %v of the time", got)
	}
	if got := Overload([]*Profile{p, p}, 2.9); got < 0.1 {
		t.Errorf("less than both may use is exceeded in %v of the time only", got)
	}
	if got := Required([]*Profile{p, p}, 1e-9); !near(got, 3, 1e-6) {
		t.Errorf("they need %v, want 3", got)
	}
}

// TestTheChangeIsThatOfTwoSamples: every other pair of samples is 4 higher, so that two samples later use differs by 4.
func TestTheChangeIsThatOfTwoSamples(t *testing.T) {
	u := NewUse(0)
	for i := range 400 {
		u.Add(time.Duration(i)*5*time.Minute, float64(10+4*(i/2%2)))
	}
	if amount, deviation, known := u.Last(); amount != 14 || !near(deviation, 4, 1e-9) || !known {
		t.Errorf("last is %v, and the deviation %v, want 14 and 4", amount, deviation)
	}
}

// TestTheStatedRiskIsRealised by containers whose use is as assumed: it draws their use again.
func TestTheStatedRiskIsRealised(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	profiles := make([]*Profile, 10)
	for i := range profiles {
		at, level := random.IntN(24), 1+random.Float64()*5
		profiles[i] = week(0, func(h, _ int) float64 {
			return max(0, level*(2+math.Sin(float64(h-at)*2*math.Pi/24))+random.NormFloat64()*level/3)
		}).Profile(end)
	}
	for _, risk := range []float64{0.05, 0.01} {
		required := Required(profiles, risk)
		s, exceeded := newSums(profiles), 0
		const draws = 200_000
		for range draws {
			x, hour := random.Float64(), 0
			for ; hour < Hours-1 && x > s.weight[hour]; hour++ {
				x -= s.weight[hour]
			}
			sum := 0.0
			for _, p := range profiles {
				sum += p.Mean[hour] + random.NormFloat64()*math.Sqrt(p.Variance[hour])
			}
			if sum > required {
				exceeded++
			}
		}
		if got := float64(exceeded) / draws; !near(got, risk, 0.15) {
			t.Errorf("risk %v is realised as %v", risk, got)
		}
	}
}

// TestTheCorrectionKeepsToTheStatedRiskWhateverHappens as its bound says: an adversary overloads every machine whenever
// λ is below what is safe.
func TestTheCorrectionKeepsToTheStatedRiskWhateverHappens(t *testing.T) {
	const safe, machines, intervals = 6, 7, 30 * 288
	for _, stated := range []float64{0.1, 0.01, 0.001} {
		var c Correction
		overloads := 0
		for range intervals {
			overloaded := 0
			if c.Risk(stated) > target*stated*math.Exp(-safe) {
				overloaded = machines
			}
			overloads += overloaded
			c.Observe(overloaded, machines, stated)
		}
		if got, bound := float64(overloads)/(machines*intervals), target*stated*(1+safe/(step*intervals))+1.0/intervals; got > bound || got == 0 {
			t.Errorf("stated %v: realised %v, want at most the bound of %v, and more than none", stated, got, bound)
		}
	}
}

func TestTheCorrectionForgetsAndIgnoresWhatIsNoInterval(t *testing.T) {
	var c Correction
	if got := c.Risk(0.01); got != 0.005 {
		t.Errorf("at first it plans for %v, want half of what is stated", got)
	}
	c.Observe(1, 10, 0.01)
	after := c.Risk(0.01)
	if after >= 0.005 {
		t.Errorf("after an overload it plans for %v, want less than before", after)
	}
	c.Observe(0, 0, 0.01)
	c.Observe(1, 1, 0)
	if got := c.Risk(0.01); got != after {
		t.Errorf("what is no interval changes it to %v", got)
	}
	for _, tc := range []struct {
		stated, want float64
	}{{0.01, most}, {0.25, 0.125}} {
		for range 2000 {
			c.Observe(0, 10, tc.stated)
		}
		if got := c.Risk(tc.stated); !near(got, tc.want, 1e-6) {
			t.Errorf("after a week without overload it plans for %v, want %v", got, tc.want)
		}
	}
	for range 2000 {
		c.Observe(10, 10, 0.01)
	}
	if got := c.Risk(0.01); got != least {
		t.Errorf("after a week of overload it plans for %v, want %v", got, least)
	}
}

func BenchmarkShares(b *testing.B) {
	profiles := make([]*Profile, 30)
	for i := range profiles {
		profiles[i] = week(1, func(h, s int) float64 { return float64((h*i + s) % 17) }).Profile(end)
	}
	for b.Loop() {
		Shares(profiles, 0.01)
	}
}
