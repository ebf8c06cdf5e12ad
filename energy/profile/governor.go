package profile

import (
	"regexp"
	"strings"
)

// Governed is a profile for machines that run under a CPU governor.
type Governed struct {
	Governor string
	Profile  Profile
}

var governorName = regexp.MustCompile(`^[a-z0-9_,-]{1,64}$`)

// IsGovernor reports whether text can be the name of a CPU governor, or a comma-separated list of names.
func IsGovernor(text string) bool { return governorName.MatchString(text) }

// clocks ranks governors by the clock frequency at which they run a busy CPU: the lowest, one that rises slowly, one
// that rises at once, the highest.
var clocks = map[string]int{"powersave": 0, "conservative": 2, "ondemand": 3, "schedutil": 3, "performance": 4}

// Under returns the models for a machine that runs under a CPU governor, and whether they apply exactly. If none were
// learned under it, they are those of the governor with the nearest rank in clocks; ties go to [Machine.Governor], then
// to the first name. If the governor of the machine, or those of all models, are unknown, the profile is assumed to be
// exact.
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

// apart returns the distance of two governors in clocks. Several governors count as their mean; unknown ones, such as
// the user's choice, are in the middle.
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

// anotherGovernor is the trust in models that were learned under another governor: half, since the machine is known but
// its clock frequency is not.
const anotherGovernor = 0.5

// Doubted returns the prediction with the trust for a model that was learned under another governor.
func (p Prediction) Doubted() Prediction {
	p.doubt(OtherGovernor, anotherGovernor)
	return p
}
