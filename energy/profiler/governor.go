package profiler

import (
	"strings"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/probe"
	"supercargo.dev/supercargo/energy/profile"
)

// mostGovernors is the maximum number of governors in a profile besides the machine's own.
const mostGovernors = 2

// governed is what was learned under each CPU governor.
type governed struct {
	// home is the machine's own governor; empty if it has none.
	home string
	// others are the profiles under other governors. guessed are the governors under which the
	// energy was not measured.
	others  []profile.Governed
	guessed []string
}

// governedBy learns from a probe's runs under governors other than the machine's own. Finished
// pods contribute nothing, because they ran under the machine's own.
//
// The energy must have been measured. A power model only has the CPU time, not the clock, so it
// would give a slower governor more energy. The report comes from a pod, so invalid governor
// names are ignored.
func governedBy(report probe.Report) (g governed) {
	if profile.IsGovernor(report.Home) {
		g.home = report.Home
	}
	for _, governor := range report.Others() {
		if g.home == "" || !profile.IsGovernor(governor) || len(g.others) == mostGovernors {
			continue
		}
		samples, modelled := report.Under(governor).Samples(probe.Power{})
		if modelled > 0 {
			g.guessed = append(g.guessed, governor)
			continue
		}
		if p, _, err := profile.Learn(samples); err == nil {
			g.others = append(g.others, profile.Governed{Governor: governor, Profile: p})
		}
	}
	return g
}

// models returns the learned models in the form of a MachineProfile.
func (l *learned) models(at time.Time, fingerprint string) *v1alpha1.MachineModels {
	m := l.Object(at, fingerprint)
	m.Governor = l.home
	for _, o := range l.others {
		m.Governors = append(m.Governors, o.Object())
	}
	return m
}

// under names the governors of the learned models, for a condition.
func (l *learned) under() string {
	if l.home == "" {
		return ""
	}
	text := ", under the CPU governor " + l.home
	for _, o := range l.others {
		text += "; also under " + o.Governor
	}
	if len(l.guessed) > 0 {
		text += "; not under " + strings.Join(l.guessed, ", ") + ", because no meter measured the energy"
	}
	return text
}
