//go:build replicas

package replicas

import (
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"testing"
	"time"

	"supercargo.dev/supercargo/autoscaler/adapter/nginx"
	"supercargo.dev/supercargo/autoscaler/replica/law"
)

// sight observes a service as a law does: through nginx, and the CPU time of its replicas.
type sight struct {
	pool   *pool
	follow *nginx.Follower
	seen   []nginx.Request // since the last observation
	all    []nginx.Request
	lost   int // lines that could not be read
	last   time.Time
	inside float64 // requests in progress at the last observation
}

func newSight(t *testing.T, p *pool) *sight {
	s := &sight{pool: p, last: time.Now()}
	s.follow = &nginx.Follower{Path: filepath.Join(p.balancer.dir, "access.log"), Skipped: func() { s.lost++ }, Take: func(line []byte) {
		r, err := nginx.ParseLine(line)
		if err != nil {
			s.lost++
			return
		}
		s.seen, s.all = append(s.seen, r), append(s.all, r)
	}}
	t.Cleanup(s.follow.Close)
	return s
}

// observe returns the measurements since the last observation.
func (s *sight) observe(ctx context.Context) (law.Observation, error) {
	if err := s.follow.Poll(); err != nil {
		return law.Observation{}, err
	}
	connections, err := s.pool.balancer.connections(ctx)
	if err != nil {
		return law.Observation{}, err
	}
	now := time.Now()
	past := now.Sub(s.last).Seconds()
	used, measured := s.pool.busy()
	o := law.Observation{At: now, StartUp: s.pool.startUp(), Utilization: math.NaN(), ResponseTime: math.NaN(),
		QueueLength: float64(max(connections.Reading+connections.Writing, 1) - 1)} // without this request
	// The log contains requests once they have been answered. Requests that arrived but are not answered yet
	// are in progress: without them a crowd would seem no larger than the capacity of the replicas.
	o.ArrivalRate = max(0, float64(len(s.seen))+o.QueueLength-s.inside) / past
	o.Ready, o.Desired = s.pool.count()
	if measured > 0 {
		o.Utilization = 100 * used.Seconds() / (past * float64(measured) * millicores / 1000)
	}
	var sum float64
	n := 0
	for _, r := range s.seen {
		if r.Status < 500 {
			sum += r.Seconds
			n++
		}
	}
	if n > 0 {
		o.ResponseTime = sum / float64(n)
	}
	s.seen, s.last, s.inside = s.seen[:0], now, o.QueueLength
	return o, s.pool.failure()
}

// step is one decision of a law, for the report.
type step struct {
	AtSeconds          float64 `json:"atSeconds"`
	ArrivalRate        float64 `json:"arrivalRatePerSecond"`
	ResponseSeconds    float64 `json:"responseSeconds"`
	QueueLength        float64 `json:"queueLength"`
	UtilizationPercent float64 `json:"utilizationPercent"`
	Ready              int     `json:"ready"`
	Desired            int     `json:"desired"`
	Decided            int     `json:"decided"`
	Held               bool    `json:"held,omitempty"`
	Reason             string  `json:"reason"`
}

// steer lets a law decide until ctx ends, starting at the end of the first control interval. It serializes
// and restores the law's memory at every decision, like a controller that restarts each time.
func steer(ctx context.Context, s *sight, l law.Law, begin time.Time) ([]step, error) {
	var steps []step
	var saved []byte
	next := time.NewTimer(time.Until(begin.Add(interval)))
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return steps, nil
		case <-next.C:
		}
		o, err := s.observe(ctx)
		switch {
		case ctx.Err() != nil:
			return steps, nil
		case err != nil:
			return steps, err
		}
		memory, err := l.Restore(saved)
		if err != nil {
			return steps, err
		}
		memory, d := l.Decide(memory, o)
		if saved, err = json.Marshal(memory); err != nil {
			return steps, err
		}
		s.pool.scale(d.Replicas)
		steps = append(steps, step{AtSeconds: round(o.At.Sub(begin).Seconds()), ArrivalRate: round(o.ArrivalRate), ResponseSeconds: round(known(o.ResponseTime)),
			QueueLength: o.QueueLength, UtilizationPercent: round(known(o.Utilization)), Ready: o.Ready, Desired: o.Desired,
			Decided: d.Replicas, Held: d.Held, Reason: d.Reasons[0]})
		next.Reset(max(0, d.Next-time.Since(o.At)))
	}
}

// known returns x, or -1 for a missing measurement: JSON has no NaN.
func known(x float64) float64 {
	if math.IsNaN(x) {
		return -1
	}
	return x
}

func round(x float64) float64 { return math.Round(x*1e4) / 1e4 }
