package replicas

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"supercargo.dev/supercargo/internal/text/jsondoc"
	"supercargo.dev/supercargo/lab/replicas/loop"
)

// Figures are the results of one law.
type Figures struct {
	Law                   string   `json:"law"`
	SLOViolationPercent   float64  `json:"sloViolationPercent"`
	ContainerIntervals    float64  `json:"containerIntervals"`
	ScalingActions        int      `json:"scalingActions"`
	MaxReplicas           int      `json:"maxReplicas"`
	MeanReplicas          float64  `json:"meanReplicas"`
	OverloadSeconds       float64  `json:"overloadSeconds"`
	MeanResponseSeconds   *float64 `json:"meanResponseSeconds"` // null if no request ended
	MaxUtilizationPercent *float64 `json:"maxUtilizationPercent"`
	ControlIntervals      int      `json:"controlIntervals"`
	SLOViolations         int      `json:"sloViolations"`
	EvaluationWriter      int      `json:"looks"`
	HeldEvaluations       int      `json:"heldLooks"`
	Requests              int64    `json:"requests"`
	RejectedRequests      int64    `json:"rejectedRequests"`
	TimedOutRequests      int64    `json:"timedOutRequests"`
}

// Document is the printed result. The figures of a run with one law are at the top level, as
// scripts expect; laws has those of every run.
type Document struct {
	Trace           string  `json:"trace"`
	Seed            uint64  `json:"seed"`
	SLOSeconds      float64 `json:"sloSeconds"`
	IntervalSeconds float64 `json:"intervalSeconds"`
	WarmupSeconds   float64 `json:"warmupSeconds"`
	HorizonSeconds  float64 `json:"horizonSeconds"`
	*Figures
	Laws []Figures `json:"laws"`
}

// NewDocument returns the results of laws on the series of a file. results[i] belongs to the law
// names[i]. All runs used c, except for its Decider.
func NewDocument(trace string, c loop.Config, names []string, results []loop.Result) Document {
	d := Document{
		Trace: trace, Seed: c.Seed, SLOSeconds: c.SLO.Seconds(), IntervalSeconds: c.Interval.Seconds(),
		WarmupSeconds: c.Warmup.Seconds(), HorizonSeconds: loop.Horizon(c.Rates).Seconds(),
	}
	for i, result := range results {
		m := result.Measured
		d.Laws = append(d.Laws, Figures{
			Law: names[i], SLOViolationPercent: result.ViolationPercent(), ContainerIntervals: m.ReplicaSeconds / d.IntervalSeconds,
			ScalingActions: result.Actions, MaxReplicas: result.MaxReplicas, MeanReplicas: m.ReplicaSeconds / m.Seconds,
			OverloadSeconds: m.OverloadSeconds, MeanResponseSeconds: orNull(m.Response()), MaxUtilizationPercent: orNull(m.PeakUtilization),
			ControlIntervals: result.Intervals, SLOViolations: result.Violations, EvaluationWriter: result.EvaluationWriter, HeldEvaluations: result.Held,
			Requests: m.Arrived, RejectedRequests: m.Rejected, TimedOutRequests: m.TimedOut,
		})
	}
	if len(d.Laws) == 1 {
		d.Figures = &d.Laws[0]
	}
	return d
}

// orNull returns nil if x is not a finite number, which JSON cannot represent.
func orNull(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// WriteJSON writes the document as JSON.
func (d Document) WriteJSON(w io.Writer) error {
	return jsondoc.Write(w, d)
}

// WriteTable writes a row for each law.
func (d Document) WriteTable(w io.Writer) error {
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
