//go:build linux

// Command service is a web service that serves one request at a time, each with as much CPU time as the
// request specifies, and keeps further requests in a finite queue.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// inherited is the file descriptor of the listener, which the parent process passes: only a port that is
// already bound is certain to be free.
const inherited = 3

func main() {
	groups := flag.String("groups", "", "control groups to join, separated by commas")
	startup := flag.Duration("startup", 0, "CPU time to burn before serving")
	line := flag.Int64("line", 100, "requests inside; more are answered 503")
	flag.Parse()
	if err := run(*groups, *startup, *line); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(groups string, startup time.Duration, line int64) error {
	for group := range strings.SplitSeq(groups, ",") {
		if group == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0); err != nil {
			return fmt.Errorf("join a control group: %w", err)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	burn(startup)
	listener, err := net.FileListener(os.NewFile(inherited, "listener"))
	if err != nil {
		return fmt.Errorf("serve on the listener that was handed over: %w", err)
	}
	s := &service{limit: line, turn: make(chan struct{}, 1)}
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// Accepted requests are still served.
	if err := server.Shutdown(context.Background()); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// service serves one request at a time.
type service struct {
	limit  int64
	inside atomic.Int64
	turn   chan struct{} // holds the request being served; others wait in order of arrival
}

// ServeHTTP burns as much CPU time as the query's work specifies.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/ready" {
		return
	}
	work, err := time.ParseDuration(r.URL.Query().Get("work"))
	if err != nil || work < 0 {
		http.Error(w, "work: want a duration", http.StatusBadRequest)
		return
	}
	if s.inside.Add(1) > s.limit {
		s.inside.Add(-1)
		http.Error(w, "the line is full", http.StatusServiceUnavailable)
		return
	}
	defer s.inside.Add(-1)
	select {
	case s.turn <- struct{}{}:
	case <-r.Context().Done():
		return // the client has gone
	}
	defer func() { <-s.turn }()
	if r.Context().Err() == nil {
		fmt.Fprintf(w, "%x\n", burn(work))
	}
}

// burn hashes until the thread has used the CPU time. Time during which the control group throttles it does
// not count.
func burn(work time.Duration) [sha256.Size]byte {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var sum [sha256.Size]byte
	for end := threadTime() + work; threadTime() < end; {
		for range 20 {
			sum = sha256.Sum256(sum[:])
		}
	}
	return sum
}

// threadTime returns the CPU time of this thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // every Linux has this clock
	}
	return time.Duration(t.Nano())
}
