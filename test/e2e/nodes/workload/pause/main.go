//go:build linux

// Pause holds the namespaces of a pod: it only reaps its children, until it is terminated.
package main

import (
	"errors"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGCHLD, unix.SIGTERM, unix.SIGINT)
	for s := range signals {
		if s != unix.SIGCHLD {
			return
		}
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if pid <= 0 && !errors.Is(err, unix.EINTR) {
				break
			}
		}
	}
}
