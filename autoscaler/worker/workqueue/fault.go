package workqueue

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
)

// IsGone reports whether the error of a [Client] says that no manager is at its address: the
// host refuses connections to the port, or the name of the host does not exist. A manager that
// is busy or stopped does neither: its kernel goes on taking connections, and they time out.
// A Service without ready endpoints refuses connections too.
func IsGone(err error) bool {
	var dns *net.DNSError
	return errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &dns) && dns.IsNotFound
}

// IsSilent reports whether the error of a [Client] says only that no whole answer has come in
// time, or that the network failed: nothing is known of the manager then.
func IsSilent(err error) bool {
	var network net.Error // time-outs, routes, names, connections that were reset
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &network)
}
