package restoreapi

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// sameUser returns an error if a process of another user is at the other end. The folder keeps others out already.
func sameUser(connection *net.UnixConn) error {
	raw, err := connection.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("identify who asks for a checkpoint: %w", err)
	}
	if int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("a process of user %d asked for a checkpoint", peer.Uid)
	}
	return nil
}
