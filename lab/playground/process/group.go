package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// pollInterval is the polling interval of conditions.
const pollInterval = 50 * time.Millisecond

// errStopping is returned when a component is started in a group that is being stopped.
var errStopping = errors.New("the playground is being stopped")

// Group has the running components of one playground, and their logs. Its methods are safe for concurrent use.
type Group struct {
	dir    string // in which children run
	logDir string
	logs   *logs

	mu         sync.Mutex
	components []*Component // in the order they started
	stopping   bool

	done     chan struct{} // closed when a component has died or Stop has finished
	doneOnce sync.Once
	err      error // the reason why done was closed; written before it is closed

	stopOnce sync.Once
	stopErr  error
}

// NewGroup opens the log files in logDir. Children run in dir. Everything logged is also written to also, unless it
// is nil.
func NewGroup(dir, logDir string, also io.Writer) (*Group, error) {
	g := &Group{dir: dir, logDir: logDir, done: make(chan struct{})}
	var err error
	g.logs, err = openLogs(logDir, also, g.gaveUp)
	return g, err
}

// Done is closed when a component has ended by itself or the group has been stopped.
func (g *Group) Done() <-chan struct{} { return g.done }

// Err returns, once Done is closed, the error of the component that ended by itself, or nil if the group was
// stopped.
func (g *Group) Err() error {
	select {
	case <-g.done:
		return g.err
	default:
		return nil
	}
}

// Stop stops the components in the reverse order of their start, closes the logs, calls last, and closes Done.
// Further calls return the same error.
func (g *Group) Stop(last func() error) error {
	g.stopOnce.Do(func() {
		g.mu.Lock()
		g.stopping = true
		components := g.components
		g.mu.Unlock()

		var errs []error
		for i := len(components) - 1; i >= 0; i-- {
			errs = append(errs, g.Explain(components[i].Stop())) // before the logs are removed
		}
		errs = append(errs, g.logs.close(), last())
		g.stopErr = errors.Join(errs...)
		g.finish(nil)
	})
	return g.stopErr
}

// finish closes done with the reason err, if it is still open.
func (g *Group) finish(err error) {
	g.doneOnce.Do(func() {
		g.err = err
		close(g.done)
	})
}

// gaveUp records that a component tried to exit the process. Some do so while they are being stopped, which is
// ignored.
func (g *Group) gaveUp() {
	g.mu.Lock()
	stopping := g.stopping
	g.mu.Unlock()
	if !stopping {
		g.finish(g.Explain(&Error{Doing: "run", Name: "the Kubernetes components", Log: KubernetesLog, Err: errExited}))
	}
}

// Add registers a component that has just started, so that its end is noticed and Stop stops it. If the group is
// already stopping, it stops the component and returns an error.
func (g *Group) Add(c *Component) error {
	g.mu.Lock()
	stopping := g.stopping
	if !stopping {
		g.components = append(g.components, c)
	}
	g.mu.Unlock()
	if stopping {
		return errors.Join(fmt.Errorf("start %s: %w", c.name, errStopping), c.Stop())
	}
	go func() {
		<-c.done
		if err := c.Died(); err != nil {
			g.finish(g.Explain(err))
		}
	}()
	return nil
}

// Find returns the component with the given name, or nil if none runs.
func (g *Group) Find(name string) *Component {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.components, func(c *Component) bool { return c.name == name })
	if i < 0 {
		return nil
	}
	return g.components[i]
}

// ToFront makes a component of the group the one that Stop stops last.
func (g *Group) ToFront(c *Component) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.components, c); i > 0 {
		g.components = slices.Insert(slices.Delete(slices.Clone(g.components), i, i+1), 0, c)
	}
}

// Remove removes a stopped component.
func (g *Group) Remove(c *Component) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.components = slices.DeleteFunc(slices.Clone(g.components), func(o *Component) bool { return o == c })
}

// Poll calls check every 50 ms until it returns nil. It returns early when a component dies or ctx ends, in the
// latter case with the last error of check.
func (g *Group) Poll(ctx context.Context, check func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-g.done:
			return g.err
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

// Explain adds the last lines of the log of the failed component to err. An error that has them already, or names no
// component with a log, stays as it is.
func (g *Group) Explain(err error) error {
	var done *explained
	var c *Error
	if errors.As(err, &done) || !errors.As(err, &c) || c.Log == "" {
		return err
	}
	path := filepath.Join(g.logDir, c.Log)
	lines, readErr := lastLines(path, 12)
	if readErr != nil || lines == "" {
		return err // the error is sufficient alone
	}
	return &explained{error: err, quote: fmt.Sprintf("\nthe end of %s:\n%s", path, lines)}
}

// Log returns the writer of the log file with the given name.
func (g *Group) Log(name string) io.Writer { return g.logs.writer(name) }

// LastLogs calls show with the name and the last lines of each log that has any, at most n lines.
func (g *Group) LastLogs(n int, show func(name, lines string)) {
	for _, name := range logNames {
		if lines, err := lastLines(filepath.Join(g.logDir, name), n); err == nil && lines != "" {
			show(name, lines)
		}
	}
}
