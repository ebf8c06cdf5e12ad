package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"supercargo.dev/supercargo/cli/dashboard"
	"supercargo.dev/supercargo/cli/dashboard/connection"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/internal/input"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

// dashboardFlags are the flags of `supercargo dashboard`.
type dashboardFlags struct {
	cluster       *command.ClusterFlags
	address       string
	acceptHosts   []string
	open          bool
	prices        string
	auditInterval time.Duration
	cycle         time.Duration
	authorize     bool
	certificate   string
}

func newDashboardCommand() *cobra.Command {
	flags := dashboardFlags{cluster: command.NewClusterFlags()}
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Serve a live page about a cluster: costs, nodes, pods and decisions",
		Long: `Serve a live web page about a cluster: its dollars and watts per hour, beside what the same pods
could cost; each node with its pods, by class and time bin; pending pods and why they are pending;
decisions, with their expected and measured results; migrations, step by step; ReplicaPolicies and
WorkerPools.

The command reads the current cluster of the kubeconfig with your permissions, and changes nothing.
It needs nothing of Supercargo in the cluster. It omits what you may not read, and reports that.

The printed address contains a token that gives access to the page. The connection is not encrypted:
use an --address that others can reach only on a network that you trust.

With --authorize, for a Deployment in the cluster, the command serves HTTPS instead. Users log in with a
token that the API server authenticates, and must be allowed to get the nonResourceURL /dashboard. They
see all that the command's own account may read. See docs/dashboard.md.`,
		Example: `  # Open the page of the current cluster in a browser
  supercargo dashboard --open

  # Serve the page of another cluster on a fixed port
  supercargo dashboard --context production --address 127.0.0.1:9000

  # In a pod: to users who may get /dashboard
  supercargo dashboard --authorize --address :8443 --accept-host supercargo-dashboard.supercargo-system.svc

  # Use the prices that you really pay
  supercargo dashboard --prices prices.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDashboard(cmd.Context(), flags, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	flags.cluster.AddTo(cmd, false)
	f.StringVar(&flags.address, "address", "127.0.0.1:0", "`host:port` to serve the page on; port 0 chooses a free port")
	command.AlsoSpelled(cmd, "listen", "address")
	f.StringSliceVar(&flags.acceptHosts, "accept-host", nil, "host `names` to accept in requests, besides IP addresses and localhost; can be repeated")
	f.BoolVar(&flags.open, "open", false, "open the page in a browser")
	command.AddPrices(f, &flags.prices)
	f.DurationVar(&flags.auditInterval, "audit-interval", time.Minute, "how often to compute what the pods could cost; less often if that takes long; 0 to disable")
	f.DurationVar(&flags.cycle, "scaling-cycle", 5*time.Minute, "width of a time bin: scalingCycle in the arguments of the scheduler's TimeBin plugin")
	f.BoolVar(&flags.authorize, "authorize", false, "serve HTTPS, to users whom the API server authenticates by a token, and who may get the nonResourceURL /dashboard")
	f.StringVar(&flags.certificate, "certificate-secret", "supercargo-system/supercargo-dashboard", "`namespace/name` of the Secret and the ConfigMap, which must exist, to keep the serving certificate and its authorities in, with --authorize")
	return cmd
}

// runDashboard serves the page until ctx ends.
func runDashboard(ctx context.Context, flags dashboardFlags, stdout, stderr io.Writer) error {
	prices, err := flags.check()
	if err != nil {
		return command.BadInput(err)
	}
	config, err := flags.cluster.Config()
	if err != nil {
		return err
	}
	config.QPS = -1 // no client-side rate limit: lists are paged, and the API server has its own limits
	link, err := dashboard.Connect(config)
	if err != nil {
		return err
	}
	options := dashboard.Options{Link: link, Prices: prices, AuditInterval: flags.auditInterval, Cycle: flags.cycle}
	if flags.authorize {
		return flags.serve(ctx, options, config, stdout)
	}
	page, err := dashboard.ServePage(ctx, flags.address, command.Lower(flags.acceptHosts))
	if err != nil {
		return command.BadInput(fmt.Errorf("--address %s: %w", flags.address, err))
	}
	fmt.Fprintln(stdout, page.Address)
	terminal := &lines{to: stderr}
	if flags.open {
		go command.OpenPage(ctx, page.Address, terminal)
	}
	options.Show, options.Report = page.Server.Show, terminal.report
	err = dashboard.Run(page.Serving, options)
	if err == nil {
		err = context.Cause(page.Serving)
	}
	page.End()
	if ctx.Err() != nil {
		return nil // stopped by the user
	}
	return err
}

// serve serves the page to users whom the API server authorizes, until ctx ends.
func (f *dashboardFlags) serve(ctx context.Context, page dashboard.Options, config *rest.Config, stdout io.Writer) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", f.address)
	if err != nil {
		return command.BadInput(fmt.Errorf("--address %s: %w", f.address, err))
	}
	fmt.Fprintf(stdout, "https://%s/\n", listener.Addr())
	log := klog.Background()
	ctrllog.SetLogger(log)
	namespace, name, _ := strings.Cut(f.certificate, "/")
	return dashboard.Serve(ctx, dashboard.ServeOptions{
		Options: page, Config: config, Listener: listener, Hosts: command.Lower(f.acceptHosts), Certificate: types.NamespacedName{Namespace: namespace, Name: name}, Log: log,
	})
}

// check returns the prices, or all errors in the flags.
func (f *dashboardFlags) check() (prices []catalogue.Price, err error) {
	var errs input.Faults
	errs.If(f.auditInterval < 0, "--audit-interval %v: must be more than 0, or 0 for never", f.auditInterval)
	errs.If(f.cycle <= 0, "--scaling-cycle %v: must be more than 0", f.cycle)
	if _, _, err := net.SplitHostPort(f.address); err != nil {
		errs = append(errs, fmt.Errorf("--address %q: must be host:port, such as 127.0.0.1:8080", f.address))
	}
	namespace, name, _ := strings.Cut(f.certificate, "/")
	errs.If(namespace == "" || name == "" || strings.Contains(name, "/"), "--certificate-secret %q: must be namespace/name", f.certificate)
	errs.If(f.authorize && f.open, "--open: not with --authorize, which is for a Deployment in the cluster")
	if f.prices != "" {
		errs = append(errs, command.ReadPrices(f.prices, &prices))
	}
	return prices, errors.Join(errs...)
}

// lines writes lines from several goroutines.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

// Write implements io.Writer.
func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(text)
}

// report writes the state of the connection, with the time.
func (l *lines) report(s connection.Status) {
	clock := func(t time.Time) string { return t.Format(time.TimeOnly) }
	var text strings.Builder
	for _, line := range append([]string{strings.TrimSuffix(s.At(s.Label, clock)+": "+s.At(s.Line, clock), ": ")}, s.Notes...) {
		fmt.Fprintln(&text, clock(time.Now()), line)
	}
	fmt.Fprint(l, text.String())
}
