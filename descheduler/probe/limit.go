package probe

import (
	"context"
	"sync"
	"syscall"
	"time"

	"k8s.io/utils/clock"
)

// period is that of the kernel's own limits on CPU time, and of Kubernetes' (100 ms).
const period = 100 * time.Millisecond

// limiter keeps a process to a part of the CPUs, as the bandwidth control of a cgroup
// does: in each period it may use so much CPU time, and then it is held until the
// next. What it used too much is taken off the next; what it did not use is lost.
//
// So the sizes of one probe can run in one container, one after the other.
type limiter struct {
	// quota is the CPU time of each period.
	quota time.Duration
	clock clock.Clock
	// used returns the CPU time that the process has used so far.
	used func() time.Duration

	mu    sync.Mutex
	began time.Time     // of the period
	base  time.Duration // CPU time at which the period's quota begins
}

// newLimiter starts a first period. Limits are in thousandths of a CPU.
func newLimiter(milliCPU int64, clk clock.Clock, used func() time.Duration) *limiter {
	return &limiter{quota: period * time.Duration(milliCPU) / 1000, clock: clk, used: used, began: clk.Now(), base: used()}
}

// pause returns how long whoever asks has to wait.
func (l *limiter) pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, used := l.clock.Now(), l.used()
	if passed := now.Sub(l.began) / period; passed > 0 {
		l.began = l.began.Add(passed * period)
		// The periods that have passed pay with their quotas for what was used in them; what
		// they leave is lost.
		l.base = min(l.base+passed*l.quota, used)
	}
	over := used - l.base - l.quota
	if over < 0 {
		return 0
	}
	// It is held for as many periods as it has used up.
	return l.began.Add(period * (1 + over/l.quota)).Sub(now)
}

// pace holds its caller up as long as the quota is used up, or until ctx ends.
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

// CPUTime returns the CPU time that this process has used so far.
func CPUTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0 // it cannot fail for the process itself
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
