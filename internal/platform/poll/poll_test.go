package poll

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestItIsAskedAtOnceAndAtEachInterval(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	clock := clocktesting.NewFakeClock(noon)
	questions, noted, ended := make(chan int), make(chan error), make(chan struct{})
	const last = 5
	asked := 0
	go func() {
		defer close(ended)
		Every(ctx, clock, 10*time.Second, func(ctx context.Context) error {
			asked++
			questions <- asked
			if asked == last {
				<-ctx.Done()
			}
			return fmt.Errorf("fault %d", asked)
		}, func(err error) { noted <- err })
	}()
	for i := 1; i < last; i++ {
		if got := <-questions; got != i {
			t.Errorf("question %d comes as number %d", got, i)
		}
		if err := <-noted; err == nil || err.Error() != fmt.Sprintf("fault %d", i) {
			t.Errorf("question %d is noted as %v", i, err)
		}
		clock.Step(9 * time.Second)
		select {
		case got := <-questions:
			t.Errorf("question %d comes before its time", got)
		default:
		}
		clock.Step(time.Second)
	}
	<-questions
	cancel() // during the last call
	select {
	case err := <-noted:
		t.Errorf("a question that was ended is noted as %v", err)
	case <-ended:
	}
}

func TestNoQuestionFollowsTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	Every(ctx, clocktesting.NewFakeClock(noon), time.Second, func(context.Context) error {
		asked++
		return nil
	}, func(error) { cancel() })
	if asked != 1 {
		t.Errorf("asked %d times, want once: it ended when that was noted", asked)
	}
}

func TestAnErrorIsToldWhenItsTextChanges(t *testing.T) {
	var told []string
	note := Changes(func(err error) { told = append(told, fmt.Sprint(err)) })
	for _, text := range []string{"", "down", "down", "slow", "slow", "", "", "slow"} {
		var err error
		if text != "" {
			err = errors.New(text) // a new error value each time
		}
		note(err)
	}
	if want := []string{"down", "slow", "<nil>", "slow"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// TestSeveralMayNoteAtOnce is mainly for the race detector.
func TestSeveralMayNoteAtOnce(t *testing.T) {
	told := 0
	note := Changes(func(error) { told++ })
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { note(errors.New("down")) })
	}
	all.Wait()
	if told != 1 {
		t.Errorf("the same fault is told %d times by twenty, want once", told)
	}
}

func TestAWaitEndsWithItsTimeASignalOrTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	clock, signal, ended := clocktesting.NewFakeClock(noon), make(chan struct{}, 1), make(chan bool)
	wait := func() { go func() { ended <- Wait(ctx, clock, time.Minute, signal) }() }
	wait()
	for !clock.HasWaiters() {
		runtime.Gosched()
	}
	clock.Step(time.Minute)
	if !<-ended {
		t.Error("its time is taken for the end of the context")
	}
	signal <- struct{}{}
	if wait(); !<-ended {
		t.Error("a signal is taken for the end of the context")
	}
	cancel()
	if wait(); <-ended {
		t.Error("the end of the context is not told")
	}
}

// TestAfterAnErrorItIsAskedAgainSooner runs in a bubble whose time passes at once.
func TestAfterAnErrorItIsAskedAgainSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		var asked []time.Duration
		var noted []string
		Repeat(ctx, clock.RealClock{}, time.Minute, time.Second, func(context.Context) error {
			asked = append(asked, time.Since(start))
			switch len(asked) {
			case 2:
				return errors.New("down")
			case 4:
				cancel()
				return errors.New("ended")
			}
			return nil
		}, func(err error) { noted = append(noted, fmt.Sprint(err)) })
		if want := []time.Duration{0, time.Minute, time.Minute + time.Second, 2*time.Minute + time.Second}; !slices.Equal(asked, want) {
			t.Errorf("asked after %v, want %v", asked, want)
		}
		if want := []string{"<nil>", "down", "<nil>"}; !slices.Equal(noted, want) {
			t.Errorf("noted %v, want %v: a call that was ended is not noted", noted, want)
		}
	})
}
