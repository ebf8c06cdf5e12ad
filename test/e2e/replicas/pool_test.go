//go:build replicas

package replicas

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The properties of each replica.
const (
	millicores = 50
	startupCPU = 15 * time.Millisecond // a third of a second at that share
	lineLength = 100
)

// replica is a worker process, from its order to its end.
type replica struct {
	name        string
	address     string
	group       group
	cmd         *exec.Cmd
	asked       time.Time
	ready, gone time.Time     // zero: not yet
	leave       chan struct{} // closed when it should stop
	serves      chan struct{} // closed when it is ready
	ended       chan struct{} // closed when it is gone
	used        time.Duration // CPU time at the last observation
}

// pool maps a number of replicas to processes, as a Deployment and its pods would: it starts missing replicas
// at once, adds a new replica to the balancer when it is ready, and removes a surplus replica from the
// balancer before it is told to finish and exit.
type pool struct {
	t        *testing.T
	program  string
	groups   *groups
	balancer *balancer // nil until the first are ready
	running  sync.WaitGroup

	mu      sync.Mutex
	wanted  []*replica // oldest first
	all     []*replica
	actions int
	errs    []error
}

// newPool starts the first replicas with nginx in front of them, and stops all when the test ends.
func newPool(t *testing.T, program string, n int) *pool {
	t.Helper()
	p := emptyPool(t, program)
	p.scale(n)
	p.open(n)
	return p
}

// emptyPool returns a pool without replicas.
func emptyPool(t *testing.T, program string) *pool {
	t.Helper()
	p := &pool{t: t, program: program, groups: newGroups(t)}
	t.Cleanup(p.stop)
	return p
}

// open waits for the first replicas, and starts nginx in front of them.
func (p *pool) open(n int) {
	t := p.t
	t.Helper()
	if err := until(t.Context(), fmt.Sprintf("%d replicas are ready", n), func() (bool, error) {
		ready, _ := p.count()
		return ready == n, p.failure()
	}); err != nil {
		t.Fatal(err)
	}
	b := startBalancer(t, p.serving())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.balancer, p.actions = b, 0
}

// scale sets the number of replicas to n. It removes the youngest first.
func (p *pool) scale(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n != len(p.wanted) {
		p.actions++
	}
	for len(p.wanted) > n {
		p.dismiss(p.wanted[len(p.wanted)-1])
	}
	for len(p.wanted) < n {
		p.begin(strconv.Itoa(len(p.all)))
	}
}

// begin starts a replica. The caller holds the lock.
func (p *pool) begin(name string) *replica {
	address, socket := p.listen()
	r := &replica{name: name, address: address, asked: time.Now(), leave: make(chan struct{}), serves: make(chan struct{}), ended: make(chan struct{})}
	r.group = p.groups.limited(p.t, name, millicores)
	r.cmd = exec.Command(p.program, "-groups", r.group.join(), "-startup", startupCPU.String(), "-line", strconv.Itoa(lineLength))
	r.cmd.Stderr, r.cmd.ExtraFiles = os.Stderr, []*os.File{socket}
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	r.cmd.Env = append(os.Environ(), "GOMAXPROCS=2") // one thread burns, one answers
	p.wanted, p.all = append(p.wanted, r), append(p.all, r)
	p.running.Go(func() {
		if err := p.live(r); err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.errs = append(p.errs, err)
		}
	})
	return r
}

// listen opens the listener of a replica, because the load may take any free port at any time.
func (p *pool) listen() (address string, socket *os.File) {
	p.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	defer listener.Close()
	if socket, err = listener.(*net.TCPListener).File(); err != nil {
		p.t.Fatal(err)
	}
	return listener.Addr().String(), socket
}

// dismiss tells a replica to stop. The caller holds the lock.
func (p *pool) dismiss(r *replica) {
	p.wanted = slices.DeleteFunc(p.wanted, func(other *replica) bool { return other == r })
	close(r.leave)
}

// live runs one replica to its end.
func (p *pool) live(r *replica) (err error) {
	err = r.cmd.Start()
	for _, socket := range r.cmd.ExtraFiles {
		err = errors.Join(err, socket.Close()) // the replica has its own copy
	}
	if err != nil {
		return fmt.Errorf("start a replica: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- r.cmd.Wait() }()
	ended := false
	defer func() {
		if !ended {
			_ = r.cmd.Process.Signal(syscall.SIGTERM)
			err = errors.Join(err, <-exited)
		}
		err = errors.Join(err, r.group.remove())
		p.mu.Lock()
		defer p.mu.Unlock()
		r.gone = time.Now()
		close(r.ended)
	}()
	if err := until(p.context(), "replica "+r.address+" is ready", func() (bool, error) {
		select {
		case <-r.leave:
			return true, nil
		default:
		}
		_, err := get(context.Background(), "http://"+r.address+"/ready")
		return err == nil, err
	}); err != nil {
		return err
	}
	p.setReady(r)
	if err := p.rebalance(); err != nil {
		return err
	}
	close(r.serves)
	select {
	case err := <-exited:
		ended = true
		return fmt.Errorf("replica %s ended by itself: %w", r.address, err)
	case <-r.leave:
	}
	return p.rebalance()
}

// context outlives the test's context, so that operations in progress end in order.
func (p *pool) context() context.Context { return context.WithoutCancel(p.t.Context()) }

func (p *pool) setReady(r *replica) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.ready = time.Now()
}

// rebalance configures nginx with the current replicas.
func (p *pool) rebalance() error {
	p.mu.Lock()
	b := p.balancer
	p.mu.Unlock()
	if b == nil {
		return nil // open starts it with the ready replicas
	}
	return b.use(p.context(), p.serving)
}

// serving returns the addresses of the replicas that are wanted and ready.
func (p *pool) serving() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var addresses []string
	for _, r := range p.wanted {
		if !r.ready.IsZero() {
			addresses = append(addresses, r.address)
		}
	}
	return addresses
}

// count returns how many replicas are ready, and how many are wanted.
func (p *pool) count() (ready, wanted int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.wanted {
		if !r.ready.IsZero() {
			ready++
		}
	}
	return ready, len(p.wanted)
}

// startUp returns the mean start-up time of replicas.
func (p *pool) startUp() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var sum time.Duration
	n := 0
	for _, r := range p.all {
		if !r.ready.IsZero() {
			sum += r.ready.Sub(r.asked)
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / time.Duration(n)
}

// busy returns the CPU time that the ready replicas used since their last observation. Replicas that have
// just become ready do not count.
func (p *pool) busy() (used time.Duration, replicas int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.wanted {
		if r.ready.IsZero() {
			continue
		}
		total, err := r.group.used()
		if err != nil {
			p.errs = append(p.errs, err)
			continue
		}
		if r.used > 0 {
			used += total - r.used
			replicas++
		}
		r.used = total
	}
	return used, replicas
}

// cost returns the replica-seconds between two times, from order to end of each replica.
func (p *pool) cost(from, to time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var sum time.Duration
	for _, r := range p.all {
		end := to
		if !r.gone.IsZero() && r.gone.Before(to) {
			end = r.gone
		}
		start := from
		if r.asked.After(from) {
			start = r.asked
		}
		sum += max(0, end.Sub(start))
	}
	return sum
}

// failure returns the errors so far.
func (p *pool) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.errs...)
}

// stop ends all replicas, which finish their requests, and nginx.
func (p *pool) stop() {
	p.scale(0) // contexts of the test are done
	p.running.Wait()
	if p.balancer != nil {
		p.balancer.stop(p.t)
	}
	if err := p.failure(); err != nil {
		p.t.Errorf("replicas: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(p.groups.cpu, p.groups.name, "*", "cgroup.procs"))
	if err != nil || len(left) > 0 {
		p.t.Errorf("control groups are left: %v, %v", slices.Sorted(slices.Values(left)), err)
	}
}
