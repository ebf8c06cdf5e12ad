// Package poll asks for something again and again, waits in between, and tells what is wrong with it once.
package poll

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Every asks at once and then at each interval, more than 0, until ctx ends, and has each
// answer's error noted, nil included. The error of a question that ctx has ended is not
// noted: it is no fault of who was asked.
//
// One question ends before the next begins. Where one takes longer than the interval, the
// next follows at once and those in between are left out.
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

// Wait waits for a time, or until a signal comes on a channel, which may be nil. It returns false if
// ctx has ended.
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

// Changes returns a note that passes an error on to say unless it reads as the one before
// did, and nil after an error. What comes first is passed on if it is an error. The note may
// be called by several goroutines at once; say is called by one at a time.
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
