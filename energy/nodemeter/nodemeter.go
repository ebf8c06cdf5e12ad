// Package nodemeter runs the power meter of a node, and serves its readings to callers that the
// API server authorizes: as metrics, and at [meterapi.Path].
//
// It is a program separate from the node agent, because it only needs to read some files of the
// node, while the agent is effectively root there.
package nodemeter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/meterapi"
	"supercargo.dev/supercargo/energy/nodemeter/meter"
	"supercargo.dev/supercargo/internal/platform/guard"
	"supercargo.dev/supercargo/internal/platform/poll"
	"supercargo.dev/supercargo/internal/platform/servingcert"
)

const (
	// knowEvery is how often the Node and the MachineProfiles are read, and knowSoon that after
	// an error.
	knowEvery = 5 * time.Minute
	knowSoon  = 5 * time.Second
)

// Config configures the meter of a node.
type Config struct {
	// Client connects to the API server.
	Client *rest.Config
	// Node is the node's name.
	Node string
	// Namespace is that of the Secret and the ConfigMap named [meterapi.Name], with the
	// certificate.
	Namespace string
	// Meter reads the node's power.
	Meter *meter.Meter
	// ServeAddress is the host:port to serve at. Listener replaces it if it is not nil.
	ServeAddress string
	Listener     net.Listener
	// Clock is the current time; nil for the real one.
	Clock clock.WithTicker
	// Log receives log lines.
	Log logr.Logger
}

// Run reads the meter and serves until ctx ends, or until an error that a restart may fix.
func Run(ctx context.Context, c Config) error {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("set up the node meter: register the API types: %w", err)
	}
	api, err := client.New(c.Client, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("set up the node meter: create the client: %w", err)
	}
	guards, err := guard.New(c.Client, meterapi.Audience, c.Log.WithName("guard"))
	if err != nil {
		return fmt.Errorf("set up the node meter: %w", err)
	}
	name, log := types.NamespacedName{Namespace: c.Namespace, Name: meterapi.Name}, c.Log.WithName("certificate")
	certificate := &servingcert.Keeper{
		Secret:  servingcert.Secret{Client: api, Live: api, Name: name, MustExist: true, Hosts: []string{meterapi.ServerName(c.Namespace)}, Log: log},
		Publish: servingcert.ToConfigMap(api, name), Clock: c.Clock, Log: log,
	}
	server := &guard.Server{
		Address: c.ServeAddress, Listener: c.Listener, Handler: handler(c.Meter, guards.Protect, certificate.Ready), Certificate: certificate.GetCertificate, Log: c.Log,
	}
	k := &knower{api: api, node: c.Node, meter: c.Meter, clock: c.Clock, log: c.Log}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.Meter.Run(ctx) })
	group.Go(func() error { return certificate.Run(ctx) })
	group.Go(func() error { return server.Serve(ctx) })
	group.Go(func() error { return k.run(ctx) })
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("run the node meter: %w", err)
	}
	return nil
}

// handler serves the meter's readings to callers that protect authorizes, and the health of the
// program, which contains nothing about the node, to everyone.
func handler(m *meter.Meter, protect func(http.Handler) http.Handler, ready func(context.Context) error) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", protect(promhttp.HandlerFor(registry, promhttp.HandlerOpts{})))
	mux.Handle("GET "+meterapi.Path, protect(meterapi.Handler(m.Usage)))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := ready(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}

// knower gives the meter the description of the node in the API server.
type knower struct {
	api   client.Client
	node  string
	meter *meter.Meter
	clock clock.WithTicker
	log   logr.Logger
	wrong string // the last reported error
}

func (k *knower) run(ctx context.Context) error {
	poll.Repeat(ctx, k.clock, knowEvery, knowSoon, k.read, func(err error) {
		if err != nil && err.Error() != k.wrong { // once
			k.wrong = err.Error()
			k.log.Error(err, "Failed to read the Node; retrying, with a generic power model until then")
		}
	})
	return ctx.Err()
}

// read reads the objects once. Without the kind MachineProfile, or permission to read it, the
// meter continues with its own table.
func (k *knower) read(ctx context.Context) error {
	var node corev1.Node
	if err := k.api.Get(ctx, types.NamespacedName{Name: k.node}, &node); err != nil {
		return fmt.Errorf("get node %s: %w", k.node, err)
	}
	machine := machineOf(&node)
	k.meter.Know(machine)
	var profiles v1alpha1.MachineProfileList
	if err := k.api.List(ctx, &profiles); err != nil {
		if ctx.Err() == nil && err.Error() != k.wrong {
			k.wrong = err.Error()
			k.log.Info("Failed to list MachineProfiles; the built-in power model applies", "error", err)
		}
		return nil
	}
	k.wrong = ""
	k.meter.SetModel(powerOf(profiles.Items, machine.Type))
	return nil
}

// machineOf returns the description of a Node's machine. Supercargo's label takes precedence over
// that of the cloud.
func machineOf(node *corev1.Node) meter.Machine {
	return meter.Machine{
		Type:       cmp.Or(node.Labels[v1alpha1.LabelMachineType], node.Labels[corev1.LabelInstanceTypeStable]),
		ProviderID: node.Spec.ProviderID, Zone: node.Labels[corev1.LabelTopologyZone], Architecture: node.Status.NodeInfo.Architecture,
		Cores: node.Status.Allocatable.Cpu().AsApproximateFloat64(),
	}
}
