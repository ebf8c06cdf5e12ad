package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/cli/dashboard/connection"
	"supercargo.dev/supercargo/internal/platform/guard"
	"supercargo.dev/supercargo/internal/platform/servingcert"
)

// mostConnections is the maximum number of connections from one address, which may be that of a proxy: each
// open page has one, and needs more while it loads.
const mostConnections = mostStreams + 32

// ServeOptions configure [Serve].
type ServeOptions struct {
	// Options configure the page. Serve sets Show and Report.
	Options
	// Config connects to the API server that reviews tokens and access.
	Config *rest.Config
	// Address is the host:port to listen on. Listener replaces it if it is not nil.
	Address  string
	Listener net.Listener
	// Hosts are accepted host names, besides localhost and IP addresses. The certificate is valid for them.
	Hosts []string
	// Certificate is the namespace and name of the Secret and the ConfigMap with the serving certificate.
	Certificate types.NamespacedName
	// Log is the logger.
	Log logr.Logger
}

// reportTo returns a function that logs the state of the connection.
func reportTo(log logr.Logger) func(connection.Status) {
	return func(s connection.Status) {
		log.Info("The connection to the API server: "+s.At(s.Label, logTime), "state", s.State, "details", s.At(s.Line, logTime), "notes", s.Notes)
	}
}

func logTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Serve serves the page with HTTPS until ctx ends, to users whom the API server authenticates and who may
// get [Path].
func Serve(ctx context.Context, o ServeOptions) error {
	reviews, err := guard.New(o.Config, Audience, o.Log.WithName("guard"))
	if err != nil {
		return fmt.Errorf("serve the page: %w", err)
	}
	log, hosts := o.Log.WithName("certificate"), append([]string{"localhost", "127.0.0.1"}, o.Hosts...)
	certificate := &servingcert.Keeper{
		Secret:  servingcert.Secret{Client: o.Link.client, Live: o.Link.client, Name: o.Certificate, MustExist: true, Hosts: hosts, Log: log},
		Publish: servingcert.ToConfigMap(o.Link.client, o.Certificate), Clock: clock.RealClock{}, Log: log,
	}
	group, ctx := errgroup.WithContext(ctx)
	page := NewServer(ServerOptions{
		Admit: func(ctx context.Context, token string) (string, *guard.Refusal) {
			return reviews.Admit(ctx, token, "get", Path)
		},
		Hosts: o.Hosts, Done: ctx.Done(), Log: o.Log,
	})
	server := &guard.Server{
		Address: o.Address, Listener: o.Listener, Handler: page.Handler(), MostOneAddress: mostConnections, Certificate: certificate.GetCertificate, Log: o.Log,
	}
	o.Show, o.Report = page.Show, reportTo(o.Log)
	group.Go(func() error { return certificate.Run(ctx) })
	group.Go(func() error { return server.Serve(ctx) })
	group.Go(func() error { return Run(ctx, o.Options) })
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("serve the page: %w", err)
	}
	return nil
}
