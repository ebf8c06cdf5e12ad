package replicadecide

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/queueing"
	"supercargo.dev/supercargo/internal/text/clip"
)

// Limits on list entries and on bytes of text in a status: objects in etcd must be small.
const (
	maxListed = 16
	maxText   = 1024
	// MaxMemory is the maximum size of a law's memory as JSON, in bytes.
	MaxMemory = 128 << 10
)

func clipped(texts []string) []string {
	if len(texts) > maxListed {
		texts = texts[:maxListed]
	}
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = clip.Bytes(text, maxText)
	}
	return out
}

// figure formats a number with six significant digits; NaN becomes empty. The status has it as text, because not every
// client preserves fractional numbers.
func figure(x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}

// duration rounds seconds to the microsecond. It returns nil if they cannot be represented.
func duration(seconds float64) *metav1.Duration {
	if !(seconds >= 0 && seconds < (10*365*24*time.Hour).Seconds()) {
		return nil
	}
	return &metav1.Duration{Duration: time.Duration(math.Round(seconds*1e6)) * time.Microsecond}
}

// ObservationOf returns the observation for the status.
func ObservationOf(out *Outcome) v1alpha1.ReplicaObservation {
	o := &out.Observation
	return v1alpha1.ReplicaObservation{
		Time: metav1.NewTime(o.At.Add(-o.Age).Truncate(time.Second)), ArrivalRate: figure(o.ArrivalRate), ResponseTime: duration(o.ResponseTime),
		QueueLength: figure(o.QueueLength), UtilizationPercent: figure(o.Utilization),
		SpecReplicas: int32(o.Desired), ReadyReplicas: int32(o.Ready), Notes: clipped(out.Notes),
	}
}

// DecisionOf returns the decision for the status, with its expected effect.
func (p *Policy) DecisionOf(out *Outcome) *v1alpha1.ReplicaDecision {
	d := &v1alpha1.ReplicaDecision{
		Time: metav1.NewTime(out.Observation.At.Truncate(time.Second)), Mode: p.Mode, From: int32(out.From), To: int32(out.Replicas),
		Reasons: clipped(out.Reasons), Observation: ObservationOf(out),
	}
	o := &out.Observation
	d.Expected.ArrivalRate = figure(o.ArrivalRate)
	if rate := o.ArrivalRate; p.model != nil && rate > 0 && !math.IsInf(rate, 0) {
		s := queueing.System{Servers: out.Replicas, ArrivalRate: rate, ServiceRate: p.model.ServiceRate(rate)}
		d.Expected.ResponseTime, d.Expected.UtilizationPercent = duration(s.Response()), figure(p.load(rate, out.Replicas))
	} else if o.Utilization >= 0 && !math.IsInf(o.Utilization, 0) {
		d.Expected.UtilizationPercent = figure(o.Utilization * float64(o.Ready) / float64(out.Replicas))
	}
	if out.Replicas > o.Ready {
		d.Expected.ReadySeconds = int64(math.Ceil(o.StartUp.Seconds()))
	}
	return d
}

// Settle records the measured effect of a decision next to the expected one, and reports whether it did. It does so at
// the first evaluation with all measurements at which the decided number of pods has been Ready, since readyAt, for
// MaxAge. Earlier measurements also cover other numbers of replicas. Decisions in mode Observe have no effect to
// measure.
func (p *Policy) Settle(d *v1alpha1.ReplicaDecision, out *Outcome, readyAt time.Time) bool {
	o := &out.Observation
	if d == nil || d.Measured != nil || d.Mode == v1alpha1.ReplicasObserve || out.Missing != "" || out.Off ||
		readyAt.IsZero() || o.Ready != int(d.To) || o.At.Sub(readyAt) < p.MaxAge {
		return false
	}
	d.Measured = &v1alpha1.ReplicaOutcome{
		ArrivalRate: figure(o.ArrivalRate), ResponseTime: duration(o.ResponseTime), UtilizationPercent: figure(o.Utilization),
		ReadySeconds: max(0, int64(readyAt.Sub(d.Time.Time).Seconds())),
	}
	return true
}

// Save encodes memory for the status. It fails if the result is longer than MaxMemory.
func (p *Policy) Save(m law.Memory, now time.Time) (*v1alpha1.LawMemory, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the memory of law %s: %w", p.Name(), err)
	}
	if len(text) > MaxMemory {
		return nil, fmt.Errorf("the memory of law %s has %d bytes, must be at most %d to be saved: it is lost at a restart; configure fewer models", p.Name(), len(text), MaxMemory)
	}
	return &v1alpha1.LawMemory{Of: clip.Bytes(p.Of, 256), Time: metav1.NewTime(now.Truncate(time.Second)), Data: runtime.RawExtension{Raw: text}}, nil
}

// Recall decodes saved memory. It ignores memory of another law, SLO or service. If memory cannot be decoded, it
// returns an error together with fresh memory.
func (p *Policy) Recall(saved *v1alpha1.LawMemory) (law.Memory, error) {
	if saved == nil || saved.Of != clip.Bytes(p.Of, 256) {
		return p.Restore(nil)
	}
	m, err := p.Restore(saved.Data.Raw)
	if err != nil {
		fresh, _ := p.Restore(nil)
		return fresh, err
	}
	return m, nil
}
