package probe

import (
	"context"
	"sync"
	"syscall"
	"time"

	"k8s.io/utils/clock"
)

// period is the default period of CPU limits in the kernel and in Kubernetes (100 ms).
const period = 100 * time.Millisecond

// limiter limits the CPU time of a process, as the bandwidth control of a cgroup does: in each
// period it may use its quota, and then it is throttled until the next. Excess use is subtracted
// from later periods; unused quota is lost.
//
// So one container can run all sizes of a probe in turn.
type limiter struct {
	// quota is the CPU time in each period.
	quota time.Duration
	clock clock.Clock
	// used returns the total CPU time of the process.
	used func() time.Duration

	mu    sync.Mutex
	began time.Time     // start of the period
	base  time.Duration // CPU time at which the period's quota starts
}

// newLimiter starts the first period. The limit is in milli-CPU.
func newLimiter(milliCPU int64, clk clock.Clock, used func() time.Duration) *limiter {
	return &limiter{quota: period * time.Duration(milliCPU) / 1000, clock: clk, used: used, began: clk.Now(), base: used()}
}

// pause returns how long the caller must wait.
func (l *limiter) pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, used := l.clock.Now(), l.used()
	if passed := now.Sub(l.began) / period; passed > 0 {
		l.began = l.began.Add(passed * period)
		// The quotas of past periods pay for the CPU time used in them; the rest of these quotas
		// is lost.
		l.base = min(l.base+passed*l.quota, used)
	}
	over := used - l.base - l.quota
	if over < 0 {
		return 0
	}
	// The wait lasts as many periods as the excess.
	return l.began.Add(period * (1 + over/l.quota)).Sub(now)
}

// pace blocks while the quota is used up, or until ctx ends.
func (l *limiter) pace(ctx context.Context) {
	for {
		wait := l.pause()
		if wait <= 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-l.clock.After(wait):
		}
	}
}

// CPUTime returns the total CPU time of this process.
func CPUTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0 // it cannot fail for the own process
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
