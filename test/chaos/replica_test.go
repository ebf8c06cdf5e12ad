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

// replica is one process of a program. It is restarted whenever it ends, as a kubelet would do, and
// reaches the API server through its own proxy.
type replica struct {
	program *program
	name    string // autoscaler-1
	proxy   *proxy.Proxy
	args    []string
	// metrics is the URL of its metrics.
	metrics string
	log     *os.File
	events  *events

	mu       sync.Mutex
	process  *os.Process // nil while it does not run
	runs     int
	stopping bool
	exit     error // of the last run
	done     chan struct{}
}

// A replica is restarted after restartAfter. The wait doubles with each further run that is not longer
// than livesLong, up to restartAtMost.
const (
	restartAfter   = time.Second
	restartAtMost  = 10 * time.Second
	livesLong      = 20 * time.Second
	stopPatience   = 45 * time.Second
	pollEvery      = 500 * time.Millisecond
	requestTimeout = 20 * time.Second
)

// run restarts the process until stop is called.
func (r *replica) run(binary string) {
	// The kernel kills the child when the thread that started it ends (Pdeathsig).
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
		if lived > livesLong {
			wait = restartAfter
		}
		time.Sleep(wait) // what is simulated: the back-off of a kubelet
		wait = min(2*wait, restartAtMost)
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

// ended records the end of a run, and reports whether it was the last.
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

// alive reports whether the process runs.
func (r *replica) alive() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process != nil
}

// signal sends a signal to the process. It returns an error if the process does not run.
func (r *replica) signal(s syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return fmt.Errorf("%s does not run", r.name)
	}
	return r.process.Signal(s)
}

// stop sends SIGTERM to the process and waits until it has ended. It returns an error if the process
// does not end in time, or not with exit status 0.
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

// close closes the proxy and the log.
func (r *replica) close() error { return errors.Join(r.proxy.Close(), r.log.Close()) }
