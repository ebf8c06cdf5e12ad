package meter

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"supercargo.dev/supercargo/energy"
)

// load is the CPU time of the node since it started, in ticks.
type load struct {
	busy, all uint64
	cpus      int // online CPUs
}

// since returns the share of the time since an earlier load in which the CPUs were busy; false if
// the kernel's clock has not advanced or went back.
func (l load) since(before load) (float64, bool) {
	if l.all <= before.all || l.busy < before.busy || l.busy-before.busy > l.all-before.all {
		return 0, false
	}
	return float64(l.busy-before.busy) / float64(l.all-before.all), true
}

// mostStatBytes bounds how much of /proc/stat or /proc/cpuinfo is read. The lines of the CPUs
// come first.
const mostStatBytes = 1 << 20

func readLoad(proc string) (load, error) {
	f, err := os.Open(filepath.Join(proc, "stat"))
	if err != nil {
		return load{}, fmt.Errorf("read the load of the node: %w", err)
	}
	defer f.Close()
	l, err := parseStat(io.LimitReader(f, mostStatBytes))
	if err != nil {
		return load{}, fmt.Errorf("read the load of the node: %s: %w", f.Name(), err)
	}
	return l, nil
}

// parseStat parses /proc/stat. The columns are user, nice, system, idle, iowait, irq, softirq and
// steal; guest time is part of user. Time that a hypervisor gave to others (steal) counts as
// idle: the node does no work in it, and its share of the machine's power is smaller.
func parseStat(r io.Reader) (load, error) {
	var l load
	lines := bufio.NewScanner(r)
	found := false
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || !strings.HasPrefix(fields[0], "cpu") {
			continue
		}
		if fields[0] != "cpu" {
			l.cpus++
			continue
		}
		if found || len(fields) < 5 {
			return load{}, fmt.Errorf("%q: must be one line of user, nice, system and idle time", lines.Text())
		}
		found = true
		for i, text := range fields[1:min(len(fields), 9)] {
			ticks, err := strconv.ParseUint(text, 10, 62)
			if err != nil {
				return load{}, fmt.Errorf("%q: %w", lines.Text(), err)
			}
			l.all += ticks
			if i != 3 && i != 4 && i != 7 {
				l.busy += ticks
			}
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) { // the line of interrupts, after the CPUs
		return load{}, err
	}
	if !found {
		return load{}, errors.New("no line with the times of the CPUs")
	}
	return l, nil
}

// modelled is the meter of a node without a real one: a power model and the utilization of the
// CPUs.
type modelled struct {
	proc   string
	model  func(cpus int) energy.Model
	last   load
	lastAt time.Time
}

func (m *modelled) source() energy.Source { return energy.SourceModel }

// rated returns 0: a model never exceeds its own full power.
func (m *modelled) rated() energy.Watts { return 0 }

// read returns the mean power since the last reading. CPU time has a resolution of a hundredth of
// a second for each CPU, so on a small node the power has steps of some hundredths of the
// difference between idle and full power.
func (m *modelled) read(now func() time.Time) (measurement, error) {
	l, err := readLoad(m.proc)
	if err != nil {
		m.lastAt = time.Time{}
		return measurement{}, err
	}
	at, before, beforeAt := now(), m.last, m.lastAt
	m.last, m.lastAt = l, at
	if beforeAt.IsZero() {
		return measurement{none: true}, nil
	}
	r := measurement{Reading: energy.Reading{Source: energy.SourceModel, At: at}, since: beforeAt}
	u, ok := l.since(before)
	if !ok {
		r.fault = energy.NoTimePassed
		if l.all < before.all {
			r.fault = energy.CounterReset
		}
		return r, nil
	}
	r.Watts = m.model(l.cpus).At(u)
	return r, nil
}
