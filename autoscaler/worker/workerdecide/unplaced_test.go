package workerdecide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
)

// pending has n pods of flavor a that have waited for a node since begin, and 40 tasks of ten minutes that fill workers
// of four cores.
func pending(n int) (o Observation, m Memory) {
	for i := range n {
		o.Pods = append(o.Pods, Pod{Name: fmt.Sprintf("a-%02d", i), Flavor: "a", Worker: cores(4), Asked: begin, Trouble: "0/3 nodes are available"})
	}
	o.Reading = &Reading{}
	for i := range int64(40) {
		o.Reading.Tasks = append(o.Reading.Tasks, answer.Task{ID: i + 1, Category: "align", State: answer.Waiting, Declared: answer.Resources{Cores: exact(4)}})
	}
	o.Reading.Queue.Waiting = 40
	m.Categories = []Category{{Name: "align", Recent: []time.Duration{10 * time.Minute}, Ended: 1}}
	m.Resized = begin
	return o, m
}

// TestPodsOfAFlavorWithoutCapacityDoNotBlock has pods that wait for a node of flavor a: no more of them are counted on,
// and workers of flavor b are added. If the limit leaves no room, the pods that wait are drained first.
func TestPodsOfAFlavorWithoutCapacityDoNotBlock(t *testing.T) {
	flavors := func(troubleOfA string) []Flavor {
		return []Flavor{{Name: "a", Worker: cores(4), MicroDollarsPerHour: 100_000, Trouble: troubleOfA}, {Name: "b", Worker: cores(4), MicroDollarsPerHour: 200_000}}
	}
	for name, trouble := range map[string]string{"the fleet says so": "in back-off until later", "the fleet does not know": ""} {
		for _, most := range []int{20, 10} {
			t.Run(fmt.Sprintf("%s, at most %d", name, most), func(t *testing.T) {
				c := limits(func(c *Config) { c.Flavors, c.Max = flavors(trouble), most })
				o, m := pending(10)
				now := begin.Add(patience * c.Prior)
				d, m := must(t, c, o, m, now)
				if most == 10 {
					if len(d.Drain) != 10 || !strings.Contains(d.Reason, "10 workers have waited too long for a node of a flavor that is not available") {
						t.Fatalf("%+v, want the ten that wait drained", d)
					}
					o.Pods = nil
					d, _ = must(t, c, o, m, now.Add(c.Prior))
				}
				if d.Add == 0 || trouble != "" && d.Flavor != "b" || most == 20 && d.Flavor != "b" {
					t.Errorf("%+v, want workers of b", d)
				}
			})
		}
	}
}

// TestPodsThatWaitForANodeAreNotDrainedForNothing: there is no other flavor, or they have not waited for long.
func TestPodsThatWaitForANodeAreNotDrainedForNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		flavors []Flavor
		after   time.Duration
	}{
		"one flavor":                {[]Flavor{{Name: "a", Worker: cores(4)}}, time.Hour},
		"the other is in back-off":  {[]Flavor{{Name: "a", Worker: cores(4)}, {Name: "b", Worker: cores(4), Trouble: "in back-off"}}, time.Hour},
		"not for long":              {[]Flavor{{Name: "a", Worker: cores(4)}, {Name: "b", Worker: cores(4), MicroDollarsPerHour: 1 << 40}}, 2 * time.Minute},
		"not for long, in back-off": {[]Flavor{{Name: "a", Worker: cores(4), Trouble: "in back-off"}, {Name: "b", Worker: cores(4)}}, 50 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			c := limits(func(c *Config) { c.Flavors, c.Max = tc.flavors, 10 })
			o, m := pending(10)
			if d, _ := must(t, c, o, m, begin.Add(tc.after)); d.Add > 0 || len(d.Drain) > 0 {
				t.Errorf("%+v, want nothing changed", d)
			}
		})
	}
}
