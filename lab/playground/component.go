package playground

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// stopTimeout is how long Stop waits for one component before it continues with the next. It is
// longer than the minute for which the API server waits for the requests that it is serving.
const stopTimeout = 90 * time.Second

// errExited is the error of a component that tried to exit the whole process.
var errExited = errors.New("it failed and tried to exit the process")

// component is one part of the control plane, running until it is stopped.
type component struct {
	name    string // the common name, such as kube-apiserver
	log     string // name of its log file
	cancel  context.CancelFunc
	stopped atomic.Bool   // stop has been called
	done    chan struct{} // closed when run has returned
	err     error         // what run returned; written before done is closed
}

// componentError is an error with the failed component, whose log is quoted.
type componentError struct {
	doing, name, log string
	err              error
}

func (e *componentError) Error() string { return fmt.Sprintf("%s %s: %v", e.doing, e.name, e.err) }
func (e *componentError) Unwrap() error { return e.err }

// startComponent runs run in a goroutine. Only stop cancels its context: the components stop one
// after the other, not all at once.
func startComponent(name, log string, run func(context.Context) error) *component {
	ctx, cancel := context.WithCancel(context.Background())
	c := &component{name: name, log: log, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		// This error remains if run ends by runtime.Goexit, which klog.OsExit calls in a
		// playground.
		c.err = errExited
		c.err = run(ctx)
	}()
	return c
}

// died returns the error of a component that ended by itself, or nil if it was stopped.
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

// stop stops the component and waits until it has ended.
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
