//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// Program is a program that runs on a node, as a daemon of that machine would: in its namespaces, and no
// longer than the node. Its methods may be called from any goroutine.
type Program struct {
	// Name is the file name of the program, and of its log.
	Name string

	// Env is added to the environment, which contains only PATH, HOME and LANG. It may be changed before
	// Start.
	Env []string

	node *Node
	path string
	args []string

	mu      sync.Mutex
	process *process // nil before the first start
}

// Program returns a program of the node, not yet started. path is a file on this machine, or the name of a
// program that `nodes.sh install` has built.
func (n *Node) Program(path string, args ...string) *Program {
	if filepath.Base(path) == path {
		path = program(path)
	}
	return &Program{Name: filepath.Base(path), node: n, path: path, args: args}
}

// LogPath returns the file with the output of the program, of all its starts.
func (p *Program) LogPath() string { return p.node.logPath(p.Name) }

// Start starts the program, which must not be running, on the node, which must be up.
func (p *Program) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return fmt.Errorf("start %s on node %s: it is running", p.Name, p.node.Name)
	}
	space, err := p.node.space()
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	log, err := os.OpenFile(p.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start %s on node %s: %w", p.Name, p.node.Name, err)
	}
	defer log.Close()
	cmd := space.command(p.path, p.args)
	cmd.Env = append(cmd.Env, p.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	process, err := start(cmd, space.enter)
	if err != nil {
		return fmt.Errorf("start %s on node %s: %w", p.Name, p.node.Name, err)
	}
	p.process = process
	return nil
}

// Kill ends the program with SIGKILL, but not its children. It returns when the program has ended. Killing a
// program that has already ended is no error.
func (p *Program) Kill(ctx context.Context) error { return p.signal(ctx, syscall.SIGKILL) }

// Stop sends SIGTERM to the program, and waits until it has ended.
func (p *Program) Stop(ctx context.Context) error { return p.signal(ctx, syscall.SIGTERM) }

// Restart kills the program, if it is running, and starts it again.
func (p *Program) Restart(ctx context.Context) error {
	if err := p.Kill(ctx); err != nil {
		return err
	}
	return p.Start()
}

// Running reports whether the program has been started and has not ended.
func (p *Program) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running()
}

func (p *Program) running() bool {
	if p.process == nil {
		return false
	}
	select {
	case <-p.process.done:
		return false
	default:
		return true
	}
}

func (p *Program) signal(ctx context.Context, sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return nil
	}
	if err := p.process.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s %v on node %s: %w", p.Name, sig, p.node.Name, err)
	}
	ctx, cancel := within(ctx, stopTimeout)
	defer cancel()
	select {
	case <-p.process.done:
		return nil // its exit status is irrelevant after the signal
	case <-ctx.Done():
		return fmt.Errorf("wait for %s on node %s to end after %v: %w", p.Name, p.node.Name, sig, context.Cause(ctx))
	}
}
