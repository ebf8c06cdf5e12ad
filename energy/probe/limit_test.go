package probe

import (
	"context"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
)

// process is a CPU-bound process under a limiter: each step uses CPU time on a number of CPUs,
// and it waits as long as the limiter requires.
type process struct {
	clock *clocktesting.FakeClock
	used  time.Duration
	*limiter
}

func newProcess(milliCPU int64) *process {
	p := &process{clock: clocktesting.NewFakeClock(time.Unix(1000, 0))}
	p.limiter = newLimiter(milliCPU, p.clock, func() time.Duration { return p.used })
	return p
}

func (p *process) step(cpus int, takes time.Duration) {
	p.clock.Step(takes)
	p.used += takes * time.Duration(cpus)
	p.clock.Step(p.pause())
}

func TestAProcessGetsItsPartOfTheCPUs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		milliCPU := rapid.Int64Range(50, 4000).Draw(t, "limit")
		cpus := rapid.IntRange(1, 8).Draw(t, "workers")
		p := newProcess(milliCPU)
		begin := p.clock.Now()
		for p.clock.Since(begin) < 20*time.Second {
			p.step(cpus, time.Millisecond*time.Duration(rapid.IntRange(1, 3).Draw(t, "chunk")))
		}
		want := min(float64(milliCPU)/1000, float64(cpus))
		got := p.used.Seconds() / p.clock.Since(begin).Seconds()
		// One chunk in excess at the end, and a period that has started.
		if got > want*1.01+0.01 || got < want*0.98-0.01 {
			t.Fatalf("%d workers limited to %d m use %v CPUs, want %v", cpus, milliCPU, got, want)
		}
	})
}

func TestWhatIsNotUsedIsLost(t *testing.T) {
	p := newProcess(500)
	p.clock.Step(10 * period) // it waits for something else
	if wait := p.pause(); wait != 0 {
		t.Fatalf("it has used nothing and is held for %v", wait)
	}
	for range 49 {
		if p.step(1, time.Millisecond); p.used > 50*time.Millisecond {
			t.Fatal("it uses more than the quota of one period")
		}
	}
	before := p.clock.Now()
	p.step(1, time.Millisecond)
	if stood := p.clock.Since(before) - time.Millisecond; stood != 50*time.Millisecond {
		t.Errorf("with its quota used up it is held for %v, want the other half of the period", stood)
	}
}

func TestNobodyWaitsLongerThanItsContext(t *testing.T) {
	p := newProcess(100)
	p.used += time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.pace(ctx)
}

func TestCPUTimeGrowsWithWork(t *testing.T) {
	before := CPUTime()
	if _, err := (Work{Task: MatMul, Amount: 1, Workers: 1}).run(t.Context(), memory(LeastBytes)); err != nil {
		t.Fatal(err)
	}
	if used := CPUTime() - before; used <= 0 || used > time.Minute {
		t.Errorf("work took %v of CPU time", used)
	}
}
