package workerdecide

import (
	"fmt"
	"testing"
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
)

// BenchmarkDecide measures Decide for 500 busy workers and 100,000 waiting tasks of four alternating categories.
func BenchmarkDecide(b *testing.B) {
	r := &Reading{Queue: answer.Queue{Started: begin, Waiting: 100_000, OnWorkers: 8000, Workers: 500}}
	o := Observation{Reading: r}
	var m Memory
	m.Queue = QueueID{Started: begin}
	for i := range 4 {
		m.category(fmt.Sprintf("c%d", i)).observe(time.Duration(i+1)*time.Minute, 32)
	}
	for i := range int64(100_000) {
		t := answer.Task{ID: i, Category: fmt.Sprintf("c%d", i%4), State: answer.Waiting}
		t.Declared.Cores = exact(float64(1 + i%4))
		r.Tasks = append(r.Tasks, t)
	}
	for i := range 500 {
		name := fmt.Sprintf("w-%03d", i)
		r.Workers = append(r.Workers, connected(name, 16))
		o.Pods = append(o.Pods, Pod{Name: name, Flavor: "four", Worker: cores(16), Asked: begin, Started: begin})
		for k := range int64(16) {
			t := answer.Task{ID: 100_000 + int64(i)*16 + k, Category: "c0", State: answer.Running, Worker: "at/" + name, Started: begin, Now: begin.Add(time.Second)}
			t.Declared.Cores = exact(1)
			r.Tasks = append(r.Tasks, t)
		}
	}
	c := limits(func(c *Config) { c.Max, c.Flavors[0].Worker = 1000, cores(16) })
	if d, _ := must(b, c, o, m, begin.Add(time.Second)); d.TasksWaiting != 100_000 || d.Add != 500 {
		b.Fatalf("%d tasks wait, %d workers are added (%s)", d.TasksWaiting, d.Add, d.Reason)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Decide(c, o, m, begin.Add(time.Second)); err != nil {
			b.Fatal(err)
		}
	}
}
