// Package app builds the power meter of a node from its flags.
package app

import (
	"errors"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/meterapi"
	"supercargo.dev/supercargo/energy/nodemeter/meter"
	"supercargo.dev/supercargo/energy/powerquery"
	"supercargo.dev/supercargo/internal/platform/promql/prometheus"
)

// Options are the flags of the meter.
type Options struct {
	// Config connects to the API server.
	Config *rest.Config
	// Log receives log lines.
	Log logr.Logger

	// NodeName is the node, and Namespace that of the certificate.
	NodeName, Namespace string
	// ServeAddress is the host:port to serve at.
	ServeAddress string
	// HostRoot is the folder that contains the node's /sys.
	HostRoot string

	// PowerMeter selects the meter, HwmonSensors the board's sensors to add up, and RatedWatts
	// the highest plausible power of the machine, 0 for what the meter states.
	PowerMeter   string
	HwmonSensors []string
	RatedWatts   float64
	// Prometheus is a server to query for the node's power; none without a URL. PowerPreset or
	// PowerQuery is the query, PowerQueryEvery the time between queries, 0 for the default of
	// either, and PowerMaxAge the maximum age of a reading.
	Prometheus                   prometheus.Config
	PowerPreset, PowerQuery      string
	PowerQueryEvery, PowerMaxAge time.Duration
}

// AddFlags adds the flags, with their defaults.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.NodeName, "node-name", "", "`name` of the node whose power this reads (required)")
	f.StringVar(&o.Namespace, "namespace", meterapi.Namespace, "`namespace` with the Secret and the ConfigMap "+meterapi.Name+", which keep the certificate")
	f.StringVar(&o.ServeAddress, "serve-address", fmt.Sprintf(":%d", meterapi.Port), "`host:port` for "+meterapi.Path+" and /metrics, by HTTPS, for clients that the API server authorizes, and for /healthz and /readyz")
	f.StringVar(&o.HostRoot, "host-root", "/", "`directory` with the node's directory sys, of which class and devices are read")
	f.StringVar(&o.PowerMeter, "power-meter", string(meter.Auto), "source of the power of the node: rapl, hwmon, query (the server in --prometheus), model, auto (the best of these) or none")
	f.StringSliceVar(&o.HwmonSensors, "hwmon-sensors", nil, "power `sensors` to add up, as chip/sensor such as ina2xx/power1 (default: that of the whole machine, or those of the inputs of its power supplies)")
	f.Float64Var(&o.RatedWatts, "rated-watts", 0, "highest plausible `watts` of the machine; higher readings are dropped (default: the limit that the meter reports, if any)")
	o.Prometheus.AddFlags(f)
	f.StringVar(&o.PowerPreset, "power-preset", "", "source of power on the server: "+strings.Join(powerquery.NodePresets(), " or ")+"; with --power-meter=auto it takes precedence over the model")
	f.StringVar(&o.PowerQuery, "power-query", "", "`PromQL` that returns the node's power in watts, as one sample; replaces --power-preset; "+powerquery.Placeholder+" stands for the node's name. With --power-meter=auto it takes precedence over all other meters")
	f.DurationVar(&o.PowerQueryEvery, "power-query-every", 0, "how often to query the server; with --power-query, no more often than it scrapes these series (default: "+presetEvery.String()+" with a preset, "+ownEvery.String()+" with a query)")
	f.DurationVar(&o.PowerMaxAge, "power-max-age", 2*time.Minute, "maximum age of the server's readings")
}

// Defaults of the time between queries. The readings of a preset have timestamps, so queries that
// are more frequent than the server's scrapes only find readings sooner. Those of a user's query
// have none.
const (
	presetEvery = 5 * time.Second
	ownEvery    = 30 * time.Second
)

// check returns an error for each invalid flag.
func (o *Options) check() error {
	var errs []error
	if o.NodeName == "" {
		errs = append(errs, errors.New("--node-name is required"))
	}
	if wrong := validation.IsDNS1123Label(o.Namespace); len(wrong) > 0 {
		errs = append(errs, fmt.Errorf("--namespace=%s: %s", o.Namespace, strings.Join(wrong, ", ")))
	}
	if !filepath.IsAbs(o.HostRoot) {
		errs = append(errs, fmt.Errorf("--host-root=%s: must be an absolute path", o.HostRoot))
	}
	if _, _, err := net.SplitHostPort(o.ServeAddress); err != nil {
		errs = append(errs, fmt.Errorf("--serve-address=%s: %w", o.ServeAddress, err))
	}
	if !(o.RatedWatts >= 0) || math.IsInf(o.RatedWatts, 0) {
		errs = append(errs, fmt.Errorf("--rated-watts=%v: must be a number of watts, or 0 if unknown", o.RatedWatts))
	}
	if kinds := meter.Kinds(); !slices.Contains(kinds, meter.Kind(o.PowerMeter)) {
		errs = append(errs, fmt.Errorf("--power-meter=%s: must be one of %v", o.PowerMeter, kinds))
	}
	for _, sensor := range o.HwmonSensors {
		if chip, name, ok := strings.Cut(sensor, "/"); !ok || chip == "" || name == "" || strings.Contains(name, "/") {
			errs = append(errs, fmt.Errorf("--hwmon-sensors=%s: must be chip/sensor, such as ina2xx/power1", sensor))
		}
	}
	return errors.Join(append(errs, o.checkServer()...)...)
}

// meter returns the node's power meter. The returned function closes its connections to the
// server, if any.
func (o *Options) meter() (*meter.Meter, func(), error) {
	m := meter.Options{
		Node: o.NodeName, Root: o.HostRoot, Proc: "/proc", Kind: meter.Kind(o.PowerMeter), Sensors: o.HwmonSensors, Rated: energy.Watts(o.RatedWatts),
		Log: o.Log.WithName("meter"),
	}
	hangUp := func() {}
	if o.asksServer() {
		preset, err := o.preset()
		if err != nil {
			return nil, nil, err
		}
		client, err := prometheus.New(o.server())
		if err != nil {
			return nil, nil, fmt.Errorf("--prometheus: %w", err)
		}
		hangUp = client.Close
		m.Server = &meter.Server{Querier: client, Preset: preset, Every: o.queryEvery(), MaxAge: o.PowerMaxAge}
	}
	made, err := meter.New(m)
	return made, hangUp, err
}

// asksServer reports whether a server is queried for the node's power.
func (o *Options) asksServer() bool { return o.Prometheus.URL != "" }

// checkServer validates the flags of the server that is queried for power.
func (o *Options) checkServer() []error {
	if !o.asksServer() {
		var errs []error
		if o.PowerMeter == string(meter.Query) {
			errs = append(errs, errors.New("--power-meter=query: --prometheus is required"))
		}
		for _, flag := range [][2]string{
			{"prometheus-ca", o.Prometheus.CAFile}, {"prometheus-token", o.Prometheus.TokenFile}, {"power-preset", o.PowerPreset}, {"power-query", o.PowerQuery},
		} {
			if flag[1] != "" {
				errs = append(errs, fmt.Errorf("--%s=%s: requires --prometheus", flag[0], flag[1]))
			}
		}
		return errs
	}
	var errs []error
	if kind := meter.Kind(o.PowerMeter); kind != meter.Auto && kind != meter.Query && slices.Contains(meter.Kinds(), kind) {
		errs = append(errs, fmt.Errorf("--prometheus=%s: --power-meter=%s queries no server: must be query or auto", o.Prometheus.URL, kind))
	}
	server := o.server()
	if err := server.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("--prometheus: %w", err))
	}
	preset, err := o.preset()
	if err != nil {
		errs = append(errs, err)
	} else if o.NodeName != "" {
		if _, err := (powerquery.Meter{Preset: preset}).Of(o.NodeName); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", o.asksBy(), err))
		}
	}
	if every := o.queryEvery(); every < time.Second || every > time.Hour {
		errs = append(errs, fmt.Errorf("--power-query-every=%v: must be from 1s to 1h", every))
	} else if o.PowerMaxAge < every || o.PowerMaxAge > time.Hour {
		errs = append(errs, fmt.Errorf("--power-max-age=%v: must be from --power-query-every (%v) to 1h", o.PowerMaxAge, every))
	}
	return errs
}

// asksBy returns the flag with the query.
func (o *Options) asksBy() string {
	if o.PowerQuery != "" {
		return "power-query"
	}
	return "power-preset"
}

// preset returns the query of the server.
func (o *Options) preset() (powerquery.Preset, error) {
	if (o.PowerPreset == "") == (o.PowerQuery == "") {
		return powerquery.Preset{}, errors.New("--prometheus: exactly one of --power-preset and --power-query is required")
	}
	if o.PowerQuery != "" {
		return powerquery.Own(o.PowerQuery), nil
	}
	preset, err := powerquery.ByName(o.PowerPreset)
	if err != nil {
		return preset, fmt.Errorf("--power-preset: %w", err)
	}
	return preset, nil
}

func (o *Options) queryEvery() time.Duration {
	switch {
	case o.PowerQueryEvery != 0:
		return o.PowerQueryEvery
	case o.PowerQuery != "":
		return ownEvery
	}
	return presetEvery
}

// server returns the configuration of queries, with the maximum age of a reading as lookback. A
// response has some hundred bytes.
func (o *Options) server() prometheus.Config {
	c := o.Prometheus
	c.Timeout, c.MaxBytes, c.Lookback = prometheus.DefaultTimeout, prometheus.DefaultMaxBytes, max(o.PowerMaxAge, 0)
	return c
}
