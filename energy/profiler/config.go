package profiler

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"supercargo.dev/supercargo/energy/meterapi"
)

// Mode is whether decisions are carried out.
type Mode string

const (
	// Off neither probes nor learns.
	Off Mode = "Off"
	// Observe reports what it would probe. It refits existing profiles and creates none.
	Observe Mode = "Observe"
	// Act probes.
	Act Mode = "Act"
)

// Config configures probing and learning.
type Config struct {
	// Mode is whether decisions are carried out.
	Mode Mode
	// NodeSelector selects the nodes that may be probed by their labels; empty for all. Nodes of
	// the control plane are never probed.
	NodeSelector string
	// Namespace is that of the Jobs of probes and the records of machine types.
	Namespace string
	// Image is the image of the node agent, which includes the probe.
	Image string
	// Timeout is the timeout of a probe.
	Timeout time.Duration
	// AtOnce is the maximum number of machine types to probe at the same time.
	AtOnce int
	// Backoff is the wait after a failed probe. It doubles with each further failure.
	Backoff time.Duration
	// Period is the time between refits of a profile.
	Period time.Duration
	// MeterPort is the port of node meters, MeterNamespace the namespace of the ConfigMap with
	// the authorities of their certificate, and MeterToken the file with the token for them.
	MeterPort                  int
	MeterNamespace, MeterToken string
	// Amount is the amount of work of a probe, in percent of the standard.
	Amount int

	// settle is how long a node must have been reserved before its probe starts.
	settle time.Duration
}

// Defaults returns the defaults of the flags.
func Defaults() Config {
	return Config{
		Mode: Observe, Namespace: "supercargo-probing", Image: "registry.invalid/supercargo/node-agent:v0.1.0", Timeout: 2 * time.Hour, AtOnce: 1, Backoff: 10 * time.Minute,
		Period: 24 * time.Hour, MeterPort: meterapi.Port, MeterNamespace: meterapi.Namespace, MeterToken: meterapi.TokenFile, Amount: 100, settle: defaultSettle,
	}
}

const (
	// defaultSettle is ample time for a scheduler to see the taint, and to bind a pod for which
	// it chose the node before.
	defaultSettle = 5 * time.Second
	// mostBackoff is the longest wait after failures.
	mostBackoff = 24 * time.Hour
)

// AddFlags adds the flags. The values of c are their defaults.
func (c *Config) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar((*string)(&c.Mode), "probing", string(c.Mode), "what to do about machine types with unknown speed and energy: Off, Observe (report what it would probe) or Act (probe an empty node)")
	flags.StringVar(&c.NodeSelector, "probe-node-selector", c.NodeSelector, "label `selector` of the nodes that can be probed (default: all except those of the control plane)")
	flags.StringVar(&c.Namespace, "probe-namespace", c.Namespace, "`namespace` of the Jobs of probes, and of the ConfigMaps with what was learned")
	flags.StringVar(&c.Image, "probe-image", c.Image, "`image` of the probe, which is that of the node agent")
	flags.DurationVar(&c.Timeout, "probe-timeout", c.Timeout, "timeout of a probe")
	flags.IntVar(&c.AtOnce, "max-probes", c.AtOnce, "maximum machine types to probe at the same time")
	flags.DurationVar(&c.Backoff, "probe-backoff", c.Backoff, "how long to wait after a failed probe; doubles with each further failure, up to a day")
	flags.DurationVar(&c.Period, "learning-period", c.Period, "how often to fit the profiles of machine types again, from probes and finished pods")
	flags.IntVar(&c.MeterPort, "meter-port", c.MeterPort, "`port` at which node meters serve the energy that their nodes have used")
	flags.StringVar(&c.MeterNamespace, "meter-namespace", c.MeterNamespace, "`namespace` of the node meters, with ConfigMap "+meterapi.Name+", which has the authorities of their certificate")
	flags.StringVar(&c.MeterToken, "meter-token", c.MeterToken, "`file` with the token for node meters, for audience "+meterapi.Audience)
	flags.IntVar(&c.Amount, "probe-amount", c.Amount, "amount of work of a probe, in `percent`; only profiles with the same amount are comparable")
}

// Validate returns the first error in the configuration, with the name of its flag.
func (c *Config) Validate() error {
	if c.Mode != Off && c.Mode != Observe && c.Mode != Act {
		return fmt.Errorf("--probing: %q: must be Off, Observe or Act", c.Mode)
	}
	if _, err := labels.Parse(c.NodeSelector); err != nil {
		return fmt.Errorf("--probe-node-selector: %w", err)
	}
	if c.MeterNamespace == "" || c.MeterToken == "" {
		return fmt.Errorf("--meter-namespace, --meter-token: both are required")
	}
	if c.Namespace == "" || c.Image == "" {
		return fmt.Errorf("--probe-namespace, --probe-image: both are required")
	}
	for _, f := range []struct {
		flag             string
		got, least, most int64
	}{
		{"probe-timeout", int64(c.Timeout), int64(time.Minute), int64(7 * 24 * time.Hour)}, {"max-probes", int64(c.AtOnce), 1, 1000},
		{"probe-backoff", int64(c.Backoff), int64(time.Second), int64(mostBackoff)}, {"learning-period", int64(c.Period), int64(time.Minute), int64(365 * 24 * time.Hour)},
		{"meter-port", int64(c.MeterPort), 1, 65535}, {"probe-amount", int64(c.Amount), 1, 10000},
	} {
		if f.got < f.least || f.got > f.most {
			return fmt.Errorf("--%s: %d: must be from %d to %d", f.flag, f.got, f.least, f.most)
		}
	}
	return nil
}
