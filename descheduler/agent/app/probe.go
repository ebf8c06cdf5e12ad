package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/agent/detect"
	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/meterapi"
	"supercargo.dev/supercargo/energy/probe"
	"supercargo.dev/supercargo/energy/probe/governor"
	"supercargo.dev/supercargo/internal/text/jsondoc"
)

// ProbeOptions are the flags of the probe.
type ProbeOptions struct {
	CPU, Memory  string
	Seed         uint64
	Amount       int
	Unlimited    bool
	Idle         time.Duration
	Governors    []string
	Sysfs, State string
	// MeterURL is the URL of the node's meter, MeterName the name in its certificate,
	// MeterAuthorities its certificate authorities in PEM, and MeterToken the file with the token
	// for it.
	MeterURL, MeterName, MeterAuthorities, MeterToken string

	Report  string
	Machine string
	Log     logr.Logger
}

// NewProbeCommand returns the command of a probe's pod. It can be called by hand, but is not
// meant to be.
func NewProbeCommand() *cobra.Command {
	var o ProbeOptions
	cmd := &cobra.Command{
		Use:    "probe",
		Short:  "Measure the speed and the energy of this machine",
		Hidden: true,
		Example: `  # Probe an otherwise idle node, as the descheduler's Job does
  node-agent probe --cpu 250m,500m,1,2 --memory 64Mi,256Mi,1Gi --meter https://127.0.0.1:8086 \
    --meter-authorities "$(cat ca.crt)" --meter-token token

  # Probe this machine without changing governors, and without a meter
  node-agent probe --cpu 1,2 --memory 64Mi --sysfs= --state-dir /tmp/probe --report -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Log = klog.Background()
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, os.Interrupt)
			defer stop()
			return Probe(ctx, o, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.CPU, "cpu", "", "`amounts` of CPU to probe, such as 250m,500m,1 (required, like --memory)")
	f.StringVar(&o.Memory, "memory", "", "`amounts` of memory to probe, such as 64Mi,1Gi")
	f.Uint64Var(&o.Seed, "seed", 1, "random seed `number` of the data")
	f.IntVar(&o.Amount, "amount", 100, "amount of work, in `percent`; profiles assume 100")
	f.BoolVar(&o.Unlimited, "unlimited", false, "do not limit CPU time; the container's own limit applies")
	f.DurationVar(&o.Idle, "idle", 30*time.Second, "how long to measure the machine without load under each governor, if it has a meter")
	f.StringSliceVar(&o.Governors, "governors", []string{governor.Powersave, governor.Performance}, "CPU `governors` to probe besides the current one, if the machine has them")
	f.StringVar(&o.Sysfs, "sysfs", "/sys", "`directory` of /sys, in which governors can be written; empty to leave governors alone")
	f.StringVar(&o.State, "state-dir", DefaultProbeState, "`directory` on disk for the progress of the probe and the original governors")
	f.StringVar(&o.MeterURL, "meter", "", "`URL` of the node meter, which reads the machine's power; empty for none")
	f.StringVar(&o.MeterName, "meter-name", meterapi.ServerName(meterapi.Namespace), "`name` in the certificate of the node meter")
	f.StringVar(&o.MeterAuthorities, "meter-authorities", "", "certificate authorities of the node meter, in `PEM`")
	f.StringVar(&o.MeterToken, "meter-token", meterapi.TokenFile, "`file` with the token for the node meter")
	f.StringVar(&o.Report, "report", "/dev/termination-log", "`file` for the report, at most 4096 bytes (the limit of Kubernetes); - prints it in full")
	f.StringVar(&o.Machine, "machine", "", "`fingerprint` that the machine must have (default: any)")
	return cmd
}

// DefaultProbeState is where a probe keeps what must survive it.
const DefaultProbeState = "/var/lib/supercargo/probe"

// Probe probes this machine until it is done or ctx ends, and writes a report in both cases. An
// error means that work is left to do.
func Probe(ctx context.Context, o ProbeOptions, out io.Writer) error {
	report, err := o.probe(ctx)
	if err != nil && report.Failure == "" {
		report.Failure = err.Error()
	}
	return errors.Join(err, o.write(report, out))
}

func (o *ProbeOptions) probe(ctx context.Context) (report probe.Report, err error) {
	sizes, err := probe.ParseSizes(o.CPU, o.Memory)
	if err != nil {
		return report, err
	}
	hardware, err := (detect.Host{Root: "/"}).Hardware(runtime.GOARCH)
	if err != nil {
		return report, err
	}
	if is := hardware.Fingerprint(); o.Machine != "" && o.Machine != is {
		return report, fmt.Errorf("--machine=%s: the fingerprint of this machine is %s (%+v): wait until the node agent has updated the annotation of the Node", o.Machine, is, hardware)
	}
	options := probe.Options{
		Sizes: sizes, Try: o.Governors, Seed: o.Seed, Amount: o.Amount, Unlimited: o.Unlimited, Idle: o.Idle,
		Journal: filepath.Join(o.State, "journal"), Machine: hardware.Fingerprint(), Clock: clock.RealClock{}, Log: o.Log,
	}
	if o.MeterURL != "" {
		secure := &meterapi.Secure{ServerName: o.MeterName, TokenFile: o.MeterToken, Authorities: func(context.Context) ([]byte, error) { return []byte(o.MeterAuthorities), nil }}
		options.Meter = &nodeMeter{client: meterapi.Client{URL: o.MeterURL, HTTP: secure.Client()}, log: o.Log}
	}
	if o.Sysfs != "" {
		governors, err := governor.Open(o.Sysfs, o.State)
		if err != nil {
			return report, err
		}
		defer func() { err = errors.Join(err, governors.Close()) }()
		options.Governors = governors
	}
	return probe.Start(ctx, options)
}

// write writes the report. If it is too long, it drops the results under governors other than the
// machine's own.
func (o *ProbeOptions) write(report probe.Report, out io.Writer) error {
	if o.Report == "-" {
		return jsondoc.Write(out, report)
	}
	text, err := report.Encode()
	if err != nil {
		text, err = report.OnlyHome().Encode()
	}
	if err == nil {
		err = os.WriteFile(o.Report, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("--report=%s: %w", o.Report, err)
	}
	return nil
}

// nodeMeter queries the node's meter, which reads the machine's power every second, or gets it
// from a server that collects it.
type nodeMeter struct {
	client meterapi.Client
	log    logr.Logger
	vain   bool // the last query had no result
}

// How long to wait for the meter, after a query with a result and after one without. The meter
// may read its source only every five seconds. A tenth of the queried interval is added, because
// readings may be that far apart.
const (
	meterPatience = 15 * time.Second
	vainPatience  = 5 * time.Second
)

// Energy queries until the meter has the first reading after to, or its patience ends.
func (m *nodeMeter) Energy(ctx context.Context, from, to time.Time) (used energy.Joules, measured, known bool) {
	patience := meterPatience
	if m.vain {
		patience = vainPatience
	}
	ctx, cancel := context.WithTimeout(ctx, patience+to.Sub(from)/10)
	defer cancel()
	defer func() { m.vain = !known }()
	for {
		u, has, err := m.client.Usage(ctx, from, to)
		if err == nil && has {
			return u.Total(), u.Modelled == 0, true
		}
		select {
		case <-ctx.Done():
			if err != nil {
				m.log.Info("Failed to read the energy of the machine from the node meter", "error", err.Error())
			}
			return 0, false, false
		case <-time.After(time.Second / 2):
		}
	}
}

// hardware returns the value of the node's annotation.
func (n *node) hardware(object *corev1.Node) (string, error) {
	hw, err := n.host.Hardware(object.Status.NodeInfo.Architecture)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(v1alpha1.MachineHardware{
		Fingerprint: hw.Fingerprint(), Architecture: hw.Architecture, CPUModel: hw.CPUModel, Threads: int32(min(hw.Threads, 1<<16)),
	})
	return string(text), err
}
