package playground

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// stopTimeout is how long one component may take to end before Stop gives it up
// and continues to the next. Longer than the API server waits for the requests that it
// is serving, which is a minute.
const stopTimeout = 90 * time.Second

// errExited is how a component ends that wanted the whole process to exit.
var errExited = errors.New("it gave up and wanted the process to exit")

// component is one part of the control plane, running until it is stopped.
type component struct {
	name    string // as people know it: kube-apiserver
	log     string // name of its log file
	cancel  context.CancelFunc
	stopped atomic.Bool   // stop has been called
	done    chan struct{} // closed when run has returned
	err     error         // what run returned; written before done is closed
}

// componentError is an error with the component at fault, which leads to the
// log to quote.
type componentError struct {
	doing, name, log string
	err              error
}

func (e *componentError) Error() string { return fmt.Sprintf("%s %s: %v", e.doing, e.name, e.err) }
func (e *componentError) Unwrap() error { return e.err }

// startComponent runs run in a goroutine. Its context is cancelled by stop
// alone: the parts end one after the other, not all at once.
func startComponent(name, log string, run func(context.Context) error) *component {
	ctx, cancel := context.WithCancel(context.Background())
	c := &component{name: name, log: log, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		// Stands when run ends by runtime.Goexit, which is what klog.OsExit
		// does in a playground.
		c.err = errExited
		c.err = run(ctx)
	}()
	return c
}

// died returns why a component that has ended did so by itself, and nil when it
// was stopped.
func (c *component) died() error {
	if c.stopped.Load() {
		return nil
	}
	err := c.err
	if err == nil {
		err = errors.New("ended")
	}
	return &componentError{doing: "run", name: c.name, log: c.log, err: err}
}

// stop ends the component and waits until it has ended.
func (c *component) stop() error { return c.stopWithin(stopTimeout) }

func (c *component) stopWithin(timeout time.Duration) error {
	c.stopped.Store(true)
	c.cancel()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-c.done:
		return nil
	case <-timer.C:
		return &componentError{doing: "stop", name: c.name, log: c.log, err: fmt.Errorf("still running after %v", timeout)}
	}
}
