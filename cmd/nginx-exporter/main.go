// Command nginx-exporter is a sidecar that exports nginx's stub_status page and access log as
// Prometheus metrics. It is small and independent of Kubernetes.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/autoscaler/adapter/nginx"
	"supercargo.dev/supercargo/autoscaler/adapter/nginx/exporter"
	"supercargo.dev/supercargo/internal/platform/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1) //nolint:gocritic // the signals' handler ends with the program
	}
}

func newCommand() *cobra.Command {
	o := exporter.Options{Clock: clock.RealClock{}}
	var printFormat bool
	cmd := &cobra.Command{
		Use:   "nginx-exporter",
		Short: "Export nginx's stub_status page and access log as Prometheus metrics",
		Example: `  # Print the log format for the http block of nginx's configuration, for use with "access_log FILE supercargo;"
  nginx-exporter --print-log-format

  # Run beside nginx
  nginx-exporter --status-url http://127.0.0.1:8080/stub_status --access-log /var/log/nginx/supercargo.log`,
		Version:       version.Version,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if printFormat {
				fmt.Fprintln(cmd.OutOrStdout(), nginx.LogFormat)
				return nil
			}
			o.Log = logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil))
			return exporter.Run(cmd.Context(), o, nil)
		},
	}
	cmd.Flags().BoolVar(&printFormat, "print-log-format", false, "print the log_format directive for nginx.conf and end")
	o.AddFlags(cmd.Flags())
	return cmd
}
