// Package process runs the components of a playground: goroutines of this process and children of it, which start in
// order, log to files, and stop in the reverse order. A component that ends by itself ends its [Group].
package process

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

// Component is one part of a playground, running until it is stopped.
type Component struct {
	name    string // the common name, such as kube-apiserver
	log     string // name of its log file
	cancel  context.CancelFunc
	stopped atomic.Bool   // Stop has been called
	done    chan struct{} // closed when run has returned
	err     error         // what run returned; written before done is closed
}

// Error is an error with the failed component, whose log [Group.Explain] quotes.
type Error struct {
	Doing string // "start"
	Name  string // of the component
	Log   string // name of its log file; empty if that tells nothing
	Err   error
}

func (e *Error) Error() string { return fmt.Sprintf("%s %s: %v", e.Doing, e.Name, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Start runs run in a goroutine. Only Stop cancels its context: the components stop one
// after the other, not all at once.
func Start(name, log string, run func(context.Context) error) *Component {
	ctx, cancel := context.WithCancel(context.Background())
	c := &Component{name: name, log: log, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		// This error remains if run ends by runtime.Goexit, which klog.OsExit calls in a
		// playground.
		c.err = errExited
		c.err = run(ctx)
	}()
	return c
}

// Done is closed when the component has ended.
func (c *Component) Done() <-chan struct{} { return c.done }

// Died returns the error of a component that ended by itself, or nil if it was stopped.
func (c *Component) Died() error {
	if c.stopped.Load() {
		return nil
	}
	err := c.err
	if err == nil {
		err = errors.New("ended")
	}
	return &Error{Doing: "run", Name: c.name, Log: c.log, Err: err}
}

// Stop stops the component and waits until it has ended.
func (c *Component) Stop() error { return c.stopWithin(stopTimeout) }

func (c *Component) stopWithin(timeout time.Duration) error {
	c.stopped.Store(true)
	c.cancel()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-c.done:
		return nil
	case <-timer.C:
		return &Error{Doing: "stop", Name: c.name, Log: c.log, Err: fmt.Errorf("still running after %v", timeout)}
	}
}
