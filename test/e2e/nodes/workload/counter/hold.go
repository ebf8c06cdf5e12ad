package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// held keeps what the program holds from being closed by the garbage collector.
var held []any

// hold acquires one thing that is hard to restore on another node:
//
//	file:PATH    a file that is open
//	lock:PATH    a POSIX lock of a file, which it creates
//	map:PATH     a file that it makes, closes, and keeps mapped as shared memory
//	udp:ADDRESS  a UDP socket that is connected to the address
//	half-closed  a TCP connection that the peer, in the same process, has closed
func hold(what string) error {
	kind, of, _ := strings.Cut(what, ":")
	switch kind {
	case "file":
		return keep(os.Open(of))
	case "lock":
		f, err := os.OpenFile(of, os.O_RDWR|os.O_CREATE, 0o600)
		if err == nil {
			err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
		}
		return keep(f, err)
	case "map":
		return keep(mapped(of))
	case "udp":
		return keep(net.Dial("udp", of))
	case "half-closed":
		return halfClosed()
	}
	return fmt.Errorf("HOLD is %q, which is unknown", what)
}

func keep[T any](thing T, err error) error {
	held = append(held, thing)
	return err
}

// mapped maps 64 KiB of a file.
func mapped(path string) ([]byte, error) {
	const size = 64 << 10
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		return nil, err
	}
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// halfClosed uses plain TCP, because CRIU cannot dump an MPTCP socket.
func halfClosed() error {
	var plain net.ListenConfig
	plain.SetMultipathTCP(false)
	listener, err := plain.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	var dialer net.Dialer
	dialer.SetMultipathTCP(false)
	if err := keep(dialer.Dial("tcp", listener.Addr().String())); err != nil {
		return err
	}
	runtime.KeepAlive(held)
	peer, err := listener.Accept()
	if err != nil {
		return err
	}
	return peer.Close()
}
