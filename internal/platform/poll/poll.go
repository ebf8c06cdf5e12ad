// Package poll runs a check repeatedly and reports its errors once.
package poll

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Every calls ask immediately and then at each interval, which must be positive, until ctx is done. It passes the error
// of each call, including nil, to note, except for a call that ended because ctx is done.
//
// Calls do not overlap. If one takes longer than the interval, the next follows immediately and those in between are
// skipped.
func Every(ctx context.Context, c clock.WithTicker, interval time.Duration, ask func(context.Context) error, note func(error)) {
	ticker := c.NewTicker(interval)
	defer ticker.Stop()
	for {
		err := ask(ctx)
		if ctx.Err() != nil {
			return
		}
		note(err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// Repeat calls ask immediately and then again and again until ctx is done: every after a call without an error, and
// after an error already retryAfter later. It passes the error of each call, including nil, to note, except for a call
// that ended because ctx is done.
func Repeat(ctx context.Context, c clock.WithTicker, every, retryAfter time.Duration, ask func(context.Context) error, note func(error)) {
	for {
		err := ask(ctx)
		if ctx.Err() != nil {
			return
		}
		note(err)
		pause := every
		if err != nil {
			pause = retryAfter
		}
		if !Wait(ctx, c, pause, nil) {
			return
		}
	}
}

// Wait waits for d, or until a signal arrives on a channel, which may be nil. It returns false if ctx is done.
func Wait(ctx context.Context, c clock.WithTicker, d time.Duration, signal <-chan struct{}) bool {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-signal:
	case <-timer.C():
	}
	return true
}

// Changes returns a note function that passes an error to say if its text differs from that of the previous one, and
// nil after an error. A first nil is not passed on. note may be called concurrently; calls of say do not overlap.
func Changes(say func(error)) (note func(error)) {
	var mu sync.Mutex
	last := ""
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != last {
			last = text
			say(err)
		}
	}
}
