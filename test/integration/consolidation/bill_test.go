//go:build soak

package consolidation

import (
	"testing"
	"time"
)

// meter computes the paid time of a machine that is released when its last pod leaves, and bought again when
// a pod comes. Every started billing period is paid. A pod that comes while the machine is still paid keeps
// it.
type meter struct {
	period time.Duration
	used   bool
	paid   time.Duration // in total
	until  time.Time     // until when it is paid
}

// set records whether the machine has a pod from now on.
func (m *meter) set(used bool, now time.Time) {
	if used == m.used {
		return
	}
	m.read(now)
	if m.used = used; used && m.until.Before(now) {
		m.until = now // it is bought again
	}
	m.read(now)
}

// read returns the paid time up to now. Time must not decrease.
func (m *meter) read(now time.Time) time.Duration {
	for m.used && !m.until.After(now) {
		m.until = m.until.Add(m.period)
		m.paid += m.period
	}
	return m.paid
}

func TestEveryStartedPeriodOfAMachineIsPaid(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name string
		// seconds at which its first pod comes and its last pod leaves, in turn
		changes []int
		read    int // second of the reading
		want    time.Duration
	}{
		{"it never had a pod", nil, 1000, 0},
		{"a pod that has just come", []int{5}, 5, time.Minute},
		{"a pod that goes at once", []int{5, 6}, 1000, time.Minute},
		{"a pod that stays", []int{5}, 5 + 150, 3 * time.Minute},
		{"a moment beyond a period", []int{5, 66}, 1000, 2 * time.Minute},
		{"a pod comes while it is still paid", []int{0, 10, 50, 55}, 1000, time.Minute},
		{"and stays longer than that", []int{0, 10, 50, 70}, 1000, 2 * time.Minute},
		{"a pod comes after it was released", []int{0, 10, 90, 95}, 1000, 2 * time.Minute},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			m, used := meter{period: time.Minute}, false
			for _, at := range tc.changes {
				used = !used
				m.set(used, noon.Add(time.Duration(at)*time.Second))
			}
			if got := m.read(noon.Add(time.Duration(tc.read) * time.Second)); got != tc.want {
				t.Errorf("paid for %v, want %v", got, tc.want)
			}
		})
	}
}
