package demo

import (
	"fmt"
	"time"

	"supercargo.dev/supercargo/lab/replay"
)

const (
	// tolerated is the greatest lag that does not change the figures, as a share of the window: 0.1 s of
	// 40 s. Three times as much changed the difference between the profiles by three of 21 percent. Less
	// than leastTolerated is tolerated for any window.
	tolerated      = 1. / 400
	leastTolerated = 100 * time.Millisecond
	// patience is how long a lag must last, at full speed, to count: longer than the time that a lag is
	// the median of, so that no single burst of pods counts.
	patience = 4 * time.Second
	// faster is the factor between one speed and the next lower one.
	faster = 2
)

// pace is how slowly the demo replays the trace.
type pace struct {
	// slowdown is how many times as long as requested a replay takes, and most its maximum.
	slowdown, most float64
	// lag is the greatest lag of the control plane at the lowest speed, if it did not keep up even then.
	lag time.Duration
}

// slow returns a time of the full speed at the present one.
func (p *pace) slow(d time.Duration) time.Duration { return time.Duration(float64(d) * p.slowdown) }

// full returns a time of the present speed at the full one.
func (p *pace) full(d time.Duration) time.Duration { return time.Duration(float64(d) / p.slowdown) }

// speed returns the speed and the lag of the part that has ended, for its result. The next part has no lag so far.
func (p *pace) speed() Speed {
	s := Speed{p.slowdown, p.lag.Seconds()}
	p.lag = 0
	return s
}

// slower reports whether a lower speed is left, and changes to it.
func (p *pace) slower() bool {
	if p.slowdown >= p.most {
		return false
	}
	p.slowdown = min(p.slowdown*faster, p.most)
	return true
}

// behind is why a replay ended early: the control plane did not keep up with it.
type behind struct {
	what string
	lag  time.Duration
}

func (b *behind) Error() string {
	return fmt.Sprintf("the control plane is behind the trace: %s %.1f s late", b.what, b.lag.Seconds())
}

// reading is a lag of the control plane, in words, and the greatest that is tolerated.
type reading struct {
	what       string
	lag, limit time.Duration
}

// limitOf returns the greatest lag that is tolerated in a replay.
func limitOf(window time.Duration) time.Duration {
	return max(leastTolerated, time.Duration(tolerated*float64(window)))
}

// fixedReadings returns the lags of a replay on a fixed cluster, which has room for most pods at once.
func fixedReadings(now replay.Progress) []reading {
	limit := limitOf(now.Window)
	return []reading{{"pods are created", now.CreateLag, limit}, {"pods are bound", now.BindLag, limit}}
}

// fleetReadings returns the lags of a replay on a fleet, where pods wait for machines: these may take three times the time
// that they should. On two idle cores the controllers and the API server need up to as much as the machines themselves.
func fleetReadings(now replay.Progress, startup, expected time.Duration) []reading {
	return []reading{{"pods are created", now.CreateLag, limitOf(now.Window)}, {"machines are ready", startup - expected, 2 * expected}}
}

// monitor observes the lags of one replay.
type monitor struct {
	pace  *pace
	since time.Duration // since when a lag is not tolerated; -1 if it is
}

func newMonitor(p *pace) *monitor { return &monitor{pace: p, since: -1} }

// observe returns an error if the replay is to begin again at a lower speed, because a lag has lasted for too long. At the
// lowest speed it only notes the lag.
func (m *monitor) observe(elapsed time.Duration, readings []reading) *behind {
	var worst *behind
	for _, r := range readings {
		if r.lag > r.limit && (worst == nil || r.lag > worst.lag) {
			worst = &behind{r.what, r.lag}
		}
	}
	switch {
	case worst == nil:
		m.since = -1
	case m.since < 0:
		m.since = elapsed
	case elapsed-m.since < m.pace.slow(patience):
	case m.pace.slowdown < m.pace.most:
		return worst
	default:
		m.pace.lag = max(m.pace.lag, worst.lag)
	}
	return nil
}
