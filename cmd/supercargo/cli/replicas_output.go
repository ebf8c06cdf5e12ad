package cli

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"

	"supercargo.dev/supercargo/lab/replicas/loop"
)

// replicasFigures are what one law made of a series.
type replicasFigures struct {
	Law                   string   `json:"law"`
	SLOViolationPercent   float64  `json:"sloViolationPercent"`
	ContainerIntervals    float64  `json:"containerIntervals"`
	ScalingActions        int      `json:"scalingActions"`
	MaxReplicas           int      `json:"maxReplicas"`
	MeanReplicas          float64  `json:"meanReplicas"`
	OverloadSeconds       float64  `json:"overloadSeconds"`
	MeanResponseSeconds   *float64 `json:"meanResponseSeconds"` // null: no request ended
	MaxUtilizationPercent *float64 `json:"maxUtilizationPercent"`
	ControlIntervals      int      `json:"controlIntervals"`
	SLOViolations         int      `json:"sloViolations"`
	Looks                 int      `json:"looks"`
	HeldLooks             int      `json:"heldLooks"`
	Requests              int64    `json:"requests"`
	RejectedRequests      int64    `json:"rejectedRequests"`
	TimedOutRequests      int64    `json:"timedOutRequests"`
}

// replicasDocument is what is printed. The figures of a run of one law stand at
// the top, as scripts expect them; laws lists those of every run.
type replicasDocument struct {
	Trace           string  `json:"trace"`
	Seed            uint64  `json:"seed"`
	SLOSeconds      float64 `json:"sloSeconds"`
	IntervalSeconds float64 `json:"intervalSeconds"`
	WarmupSeconds   float64 `json:"warmupSeconds"`
	HorizonSeconds  float64 `json:"horizonSeconds"`
	*replicasFigures
	Laws []replicasFigures `json:"laws"`
}

func newReplicasDocument(r *replicasRun, results []loop.Result) replicasDocument {
	d := replicasDocument{
		Trace: r.flags.trace, Seed: r.flags.seed, SLOSeconds: r.config.SLO.Seconds(), IntervalSeconds: r.config.Interval.Seconds(),
		WarmupSeconds: r.config.Warmup.Seconds(), HorizonSeconds: loop.Horizon(r.rates).Seconds(),
	}
	for i, result := range results {
		m := result.Measured
		d.Laws = append(d.Laws, replicasFigures{
			Law: r.laws[i].Name(), SLOViolationPercent: result.ViolationPercent(), ContainerIntervals: m.ReplicaSeconds / d.IntervalSeconds,
			ScalingActions: result.Actions, MaxReplicas: result.MaxReplicas, MeanReplicas: m.ReplicaSeconds / m.Seconds,
			OverloadSeconds: m.OverloadSeconds, MeanResponseSeconds: orNull(m.Response()), MaxUtilizationPercent: orNull(m.PeakUtilization),
			ControlIntervals: result.Intervals, SLOViolations: result.Violations, Looks: result.Looks, HeldLooks: result.Held,
			Requests: m.Arrived, RejectedRequests: m.Rejected, TimedOutRequests: m.TimedOut,
		})
	}
	if len(d.Laws) == 1 {
		d.replicasFigures = &d.Laws[0]
	}
	return d
}

// orNull is nothing where x is no finite number, which JSON has no word for.
func orNull(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

func (d replicasDocument) write(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(d)
}

// tabulate prints a line for each law.
func (d replicasDocument) tabulate(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %.4g h, the first %.4g h left out; SLO %.4g s, control interval %.4g s.\n\n", d.Trace,
		d.HorizonSeconds/3600, d.WarmupSeconds/3600, d.SLOSeconds, d.IntervalSeconds)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "LAW\tVIOLATIONS\tCONTAINER INTERVALS\tREPLICAS\tMOST\tACTIONS\tOVERLOAD\tRESPONSE\tLOST REQUESTS\n")
	for _, l := range d.Laws {
		response := "-"
		if l.MeanResponseSeconds != nil {
			response = fmt.Sprintf("%.4f s", *l.MeanResponseSeconds)
		}
		fmt.Fprintf(t, "%s\t%.2f %%\t%.0f\t%.2f\t%d\t%d\t%.0f s\t%s\t%d\n", l.Law, l.SLOViolationPercent, l.ContainerIntervals, l.MeanReplicas,
			l.MaxReplicas, l.ScalingActions, l.OverloadSeconds, response, l.RejectedRequests+l.TimedOutRequests)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// maxParallel is how many laws run at once.
func maxParallel() int { return max(1, runtime.GOMAXPROCS(0)) }

// lookFile writes every look of a law as CSV. With no file it does nothing.
type lookFile struct {
	file   *os.File
	buffer *bufio.Writer
	rows   *csv.Writer
	err    error
}

func newLookFile(path string) (*lookFile, error) {
	if path == "" {
		return &lookFile{}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("--samples: %w", err)
	}
	l := &lookFile{file: f, buffer: bufio.NewWriter(f)}
	l.rows = csv.NewWriter(l.buffer)
	l.err = l.rows.Write([]string{"time_s", "rate_per_s", "measured_rate_per_s", "response_s", "queue_length", "utilization_percent",
		"ready", "wanted", "replicas", "next_s", "held", "reasons"})
	return l, nil
}

// add writes one look; a value that was not measured stays empty.
func (l *lookFile) add(s loop.Step) {
	if l.file == nil || l.err != nil {
		return
	}
	number := func(x float64) string {
		if math.IsNaN(x) {
			return ""
		}
		return strconv.FormatFloat(x, 'g', 8, 64)
	}
	l.err = l.rows.Write([]string{number(s.Seconds), number(s.Rate), number(s.ArrivalRate), number(s.ResponseTime), number(s.QueueLength),
		number(s.Utilization), strconv.Itoa(s.Ready), strconv.Itoa(s.Wanted), strconv.Itoa(s.Replicas), number(s.Next.Seconds()),
		strconv.FormatBool(s.Held), strings.Join(s.Reasons, "; ")})
}

func (l *lookFile) close() error {
	if l.file == nil {
		return nil
	}
	l.rows.Flush()
	if err := errors.Join(l.err, l.rows.Error(), l.buffer.Flush(), l.file.Close()); err != nil {
		return fmt.Errorf("--samples: write %s: %w", l.file.Name(), err)
	}
	return nil
}
