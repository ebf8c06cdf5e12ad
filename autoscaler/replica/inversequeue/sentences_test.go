package inversequeue

import (
	"math"
	"strings"
	"testing"

	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/test/kit/sentences"
)

func TestEachReasonIsGivenWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	say := func(m Memory, o law.Observation, change ...func(*Config)) string {
		c := Default()
		for _, f := range change {
			f(&c)
		}
		_, d := Decide(c, m, o)
		return strings.Join(d.Reasons, "; ")
	}
	idle := law.Observation{ResponseTime: math.NaN(), Desired: 40, Ready: 40}
	inside := idle
	inside.QueueLength = 3
	quiet := func(n int) Memory { return Memory{Quiet: law.Quiet{Evaluations: n}} }
	few := seen(400, 0.09, 30)
	long := law.Observation{ArrivalRate: 400, ResponseTime: 0.09, QueueLength: 2000, Desired: 38, Ready: 38}
	slow := seen(400, 0.5, 39)
	blind := few
	blind.QueueLength = math.NaN()
	guided, first := say(known(), seen(400, 0.09, 40)), say(Memory{}, seen(400, 0.09, 40))
	sizes := func(n int, tooFew *int) Memory {
		r := Reference{ArrivalRate: 400, TooFew: tooFew}
		for i := range n {
			r.Sizes = append(r.Sizes, Size{40 + i, []int64{90000}})
		}
		return Memory{Models: []Reference{r}}
	}
	most := func(n int) func(*Config) { return func(c *Config) { c.Max = n } }
	tooFew := say(known(), seen(400, 0.09, 40), most(30))
	bound := 60
	restarted := say(sizes(0, &bound), seen(400, 0.09, 70))
	again := say(Memory{Models: []Reference{{ArrivalRate: 400, Sizes: []Size{{200, []int64{86000}}}}}}, seen(400, 0.086, 200))
	sampling := say(sizes(1, nil), seen(400, 0.09, 40))
	lateText := func() string {
		m, _ := Decide(Default(), Memory{}, seen(400, 0.09, 40))
		o := seen(400, 0.11, 45)
		return say(m, o)
	}()
	sentences.Check(t, []string{"decide.go", "mapping.go", "overload.go", "reference.go"}, []sentences.Case{
		{"no requests arrived, but some are still in the system", say(quiet(0), inside), say(quiet(0), idle)},
		{"no requests arrived in the last %s, %d in a row are needed", say(quiet(1), idle), say(quiet(2), idle)},
		{"no requests arrived", say(quiet(2), idle), first},
		{"%s cannot serve %.4g requests/s by the queueing model, %d can", say(Memory{}, few), first},
		{"%.4g requests in the system are more than %.3g times the %.4g of a stable queue", say(Memory{}, long), first},
		{"response time %.4g s is above that of any stable queue", say(Memory{}, slow), first},
		{"response time %.4g s, reference %.4g s learned at %.4g requests/s: %s by the queueing model", guided, first},
		{"%d replicas achieve", guided, tooFew},
		{"%d replicas are", tooFew, guided},
		{" too few", tooFew, guided},
		{"%s to serve the requests and drain the queue of %.4g", say(Memory{}, long), first},
		{" to serve the requests", say(Memory{}, blind), first},
		{"%s at %.4g requests/s: %s, %s", first, guided},
		{"first sample", first, sampling},
		{"sampling again from the beginning", again, first},
		{"by the queueing model", first, restarted},
		{"the maximum, which is too few by the queueing model", say(Memory{}, seen(400, 0.09, 40), most(36)), first},
		{"since %d %s as too few", restarted, first},
		{"sampling at %.4g requests/s: %s known, %d needed", sampling, first},
		{"response time %.4g s may have been measured before %s Ready: keeping %d", lateText, first},
	}, map[string]string{
		"1 replica achieves": "the singular", "1 replica is": "the singular",
		"1 replica was": "the singular", "%d replicas were": "the plural of the last sentence",
	})
}
