//go:build replicas

package replicas

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestNoRequestIsLostWhileReplicasComeAndGo changes the number of replicas up and down five times a second,
// faster than any law and faster than replicas start.
func TestNoRequestIsLostWhileReplicasComeAndGo(t *testing.T) {
	const (
		lasts = 8 * time.Second
		apart = 30 * time.Millisecond // far below the capacity of two replicas
	)
	hurry(t)
	p := newPool(t, buildService(t), 3)
	var requests []arrival
	for at := time.Duration(0); at < lasts; at += apart {
		requests = append(requests, arrival{at: at, work: 100 * time.Microsecond})
	}
	s := newSight(t, p)
	if err := s.follow.Poll(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan *answers, 1)
	go func() { ended <- send(t.Context(), p.balancer.listen, time.Now(), requests) }()
	draw := rand.New(rand.NewPCG(seed, 1))
	change := time.NewTicker(lasts / 40)
	defer change.Stop()
	var got *answers
	for got == nil {
		select {
		case got = <-ended:
		case <-change.C:
			p.scale(2 + draw.IntN(6))
		}
	}
	if err := until(t.Context(), "all requests are in the log", func() (bool, error) {
		err := s.follow.Poll()
		return len(s.all) >= len(requests), err
	}); err != nil {
		t.Error(err)
	}
	if len(s.all) != len(requests) || s.lost > 0 || got.Statuses[200] != len(requests) || got.Fault != nil {
		t.Errorf("of %d requests %d are in the log, %d lines are garbled, and clients got %v, error %v: want each answered 200", len(requests), len(s.all), s.lost, got.Statuses, got.Fault)
	}
	t.Logf("%d changes, %d configurations of nginx", p.actions, p.balancer.generation)
}
