package profile

import (
	"regexp"
	"strings"
)

// Governed predicts for machines that run under a CPU governor.
type Governed struct {
	Governor string
	Profile  Profile
}

var governorName = regexp.MustCompile(`^[a-z0-9_,-]{1,64}$`)

// IsGovernor reports whether a text can be the name of a CPU governor, or those of several
// separated by commas.
func IsGovernor(text string) bool { return governorName.MatchString(text) }

// clocks orders governors by the clock at which they have a busy CPU run: the lowest, one
// that rises slowly, one that rises at once, the highest.
var clocks = map[string]int{"powersave": 0, "conservative": 2, "ondemand": 3, "schedutil": 3, "performance": 4}

// Under returns the models for a machine that runs under a CPU governor, and whether they were
// learned under it; if not, they are those of the nearest governor, by the clock that it
// aims at. Where it is not known under which governor the machine runs, or its own models were
// learned, these are taken to be right. Ties: those of [Machine.Governor], then by name.
func (m *Machine) Under(governor string) (p *Profile, exact bool) {
	if governor == m.Governor || governor == "" || m.Governor == "" && len(m.Others) == 0 {
		return &m.Profile, true
	}
	nearest, least := &m.Profile, apart(governor, m.Governor)
	for i := range m.Others {
		o := &m.Others[i]
		if o.Governor == governor {
			return &o.Profile, true
		}
		if d := apart(governor, o.Governor); d < least {
			nearest, least = &o.Profile, d
		}
	}
	return nearest, false
}

// apart is how far the clocks of two governors are apart, as far as they are known: those of
// several, or of the user's choice, are in the middle.
func apart(a, b string) int {
	d := clock(a) - clock(b)
	return max(d, -d)
}

func clock(governor string) int {
	if c, known := clocks[governor]; known {
		return c
	}
	sum, n := 0, 0
	for g := range strings.SplitSeq(governor, ",") {
		if c, known := clocks[g]; known {
			sum, n = sum+c, n+1
		}
	}
	if n == 0 {
		return clocks["conservative"]
	}
	return sum / n
}

// anotherGovernor is how far models are trusted that were learned under another governor:
// half, since it is known which machine it is, but not at which clock it works.
const anotherGovernor = 0.5

// Doubted returns the prediction of a model that was learned under another governor.
func (p Prediction) Doubted() Prediction {
	p.doubt(OtherGovernor, anotherGovernor)
	return p
}
