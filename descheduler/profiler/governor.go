package profiler

import (
	"strings"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/probe"
	"supercargo.dev/supercargo/internal/energy/profile"
)

// mostGovernors is how many governors beside the machine's own a profile takes.
const mostGovernors = 2

// governed is what was learned under which CPU governors.
type governed struct {
	// home is the one that the machine has, empty if it has none.
	home string
	// others is what was learned under others; guessed are those under which no meter knew
	// the energy.
	others  []profile.Governed
	guessed []string
}

// governedBy learns from what a probe did under other governors than the machine's own.
// Finished pods teach nothing about these: they ran as the machines are.
//
// Energy must have been measured. A power model knows how long the CPUs were busy, but not
// at which clock, and would have a governor take more energy by as much as it is slower. The
// report comes from a pod: names that no governor can have are passed over.
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

// models returns what was learned as a MachineProfile holds it.
func (l *learned) models(at time.Time, fingerprint string) *v1alpha1.MachineModels {
	m := l.Object(at, fingerprint)
	m.Governor = l.home
	for _, o := range l.others {
		m.Governors = append(m.Governors, o.Object())
	}
	return m
}

// under says under which governors it was learned, for a condition.
func (l *learned) under() string {
	if l.home == "" {
		return ""
	}
	text := ", under the CPU governor " + l.home
	for _, o := range l.others {
		text += "; also under " + o.Governor
	}
	if len(l.guessed) > 0 {
		text += "; not under " + strings.Join(l.guessed, ", ") + ", since no meter knows the energy"
	}
	return text
}
