package workqueue

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
)

// IsGone reports whether the error of a [Client] means that no manager is at its address: the host refuses connections
// to the port, or the host name does not exist. A manager that is busy or stopped does neither: its kernel still
// accepts connections, and they time out. A Service without ready endpoints refuses connections too.
func IsGone(err error) bool {
	var dns *net.DNSError
	return errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &dns) && dns.IsNotFound
}

// IsSilent reports whether the error of a [Client] means only that the answer was not complete in time, or that the
// network failed. The state of the manager is not known then.
func IsSilent(err error) bool {
	var network net.Error // timeouts, routes, names, connections that were reset
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &network)
}
