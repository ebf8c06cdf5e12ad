//go:build chaos

package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"supercargo.dev/supercargo/test/chaos/ledger"
	"supercargo.dev/supercargo/test/chaos/proxy"
)

// replica is one process of a program, which is started again whenever it ends, as a kubelet
// does, and has a proxy of its own.
type replica struct {
	program *program
	name    string // autoscaler-1
	proxy   *proxy.Proxy
	args    []string
	// metrics is where it serves them: a URL.
	metrics string
	log     *os.File
	events  *events

	mu       sync.Mutex
	process  *os.Process // nil while none runs
	runs     int
	stopping bool
	exit     error // of the last run
	done     chan struct{}
}

// The waits before a replica is started again: the first, and the longest after several that
// did not live long.
const (
	restartAfter   = time.Second
	restartAtMost  = 10 * time.Second
	livesLong      = 20 * time.Second
	stopPatience   = 45 * time.Second
	pollEvery      = 500 * time.Millisecond
	requestTimeout = 20 * time.Second
)

// run keeps it running until stop.
func (r *replica) run(binary string) {
	// The kernel ends the child with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(r.done)
	for wait := restartAfter; ; {
		began := time.Now()
		err := r.once(binary)
		lived := time.Since(began)
		if r.ended(err, lived) {
			return
		}
		if wait *= 2; lived > livesLong {
			wait = restartAfter
		}
		time.Sleep(min(wait, restartAtMost)) // a back-off, not a wait for something
	}
}

// once runs the process until it ends.
func (r *replica) once(binary string) error {
	cmd := exec.Command(binary, r.args...)
	cmd.Dir = filepath.Dir(r.log.Name())
	cmd.Stdout, cmd.Stderr = r.log, r.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	r.mu.Lock()
	if r.stopping {
		r.mu.Unlock()
		return nil
	}
	r.runs++
	actor := ledger.Actor(fmt.Sprintf("%s.%d", r.name, r.runs))
	r.proxy.Serves(actor)
	_, _ = fmt.Fprintf(r.log, "==== %s starts at %s\n", actor, time.Now().UTC().Format(time.RFC3339Nano))
	err := cmd.Start()
	if err == nil {
		r.process = cmd.Process
	}
	r.mu.Unlock()
	if err != nil {
		return err
	}
	r.events.note("started", map[string]any{"replica": actor, "pid": cmd.Process.Pid})
	return cmd.Wait()
}

// ended notes the end of a run, and reports whether it was the last.
func (r *replica) ended(err error, lived time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process, r.exit = nil, err
	how := "exit status 0"
	if err != nil {
		how = err.Error()
	}
	r.events.note("ended", map[string]any{"replica": fmt.Sprintf("%s.%d", r.name, r.runs), "how": how, "lived": lived.Seconds()})
	return r.stopping
}

// alive reports whether its process runs.
func (r *replica) alive() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process != nil
}

// signal sends a signal to the process, if one runs.
func (r *replica) signal(s syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return fmt.Errorf("%s does not run", r.name)
	}
	return r.process.Signal(s)
}

// stop asks the process to end, for good, and returns an error if it does not, or not with
// exit status 0.
func (r *replica) stop() error {
	r.mu.Lock()
	r.stopping = true
	running := r.process != nil
	if running {
		_ = r.process.Signal(syscall.SIGCONT)
		_ = r.process.Signal(syscall.SIGTERM)
	}
	r.mu.Unlock()
	select {
	case <-r.done:
	case <-time.After(stopPatience):
		_ = r.signal(syscall.SIGKILL)
		<-r.done
		return fmt.Errorf("%s has not ended %v after SIGTERM", r.name, stopPatience)
	}
	if running && r.exit != nil {
		return fmt.Errorf("%s ended with %w after SIGTERM", r.name, r.exit)
	}
	return nil
}

// close ends the proxy and the log.
func (r *replica) close() error { return errors.Join(r.proxy.Close(), r.log.Close()) }
