//go:build soak

package consolidation

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// sample records the state every second.
func (l *ledger) sample(ctx context.Context, began time.Time) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			l.mu.Lock()
			if l.stopped.IsZero() {
				s := l.now()
				s.Seconds = now.Sub(began).Seconds()
				l.series = append(l.series, s)
				l.check()
			}
			l.mu.Unlock()
		}
	}
}

// stop closes the account.
func (l *ledger) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = time.Now()
}

// outcome contains the results of one run.
type outcome struct {
	Name     string        `json:"name"`
	Makespan time.Duration `json:"makespanNanoseconds"`
	Jobs     int           `json:"jobs"`
	// JobPods is the number of completions, and Work their total work.
	JobPods  int           `json:"jobPods"`
	Work     time.Duration `json:"workNanoseconds"`
	Failures int           `json:"failuresThatJobsCount"`
	// Unfinished is the number of Jobs that were not done long after the last arrival.
	Unfinished int `json:"jobsNotDone"`
	// Dollars is the cost of all nodes while they have pods, by started billing periods, and AllDollars their
	// cost if none is ever released.
	Dollars    float64  `json:"dollars"`
	AllDollars float64  `json:"dollarsOfAllNodes"`
	MeanNodes  float64  `json:"meanNodesWithPods"`
	Sums       sums     `json:"sums"`
	Broken     []string `json:"brokenPromises,omitempty"`
	Unmoved    []string `json:"migrationsThatCameToNothing,omitempty"`
	Series     []sample `json:"series"`
}

// outcome summarizes the observations.
func (c *cluster) outcome(name string) *outcome {
	c.Helper()
	l := c.ledger
	o := &outcome{Name: name, Makespan: l.stopped.Sub(c.began)}
	for _, j := range c.jobs() {
		o.Jobs++
		o.JobPods += int(*j.Spec.Completions)
		o.Failures += int(j.Status.Failed)
		if j.Status.Succeeded < *j.Spec.Completions {
			o.Unfinished++
		}
		work, err := time.ParseDuration(j.Spec.Template.Annotations[annotationWork])
		if err != nil {
			c.Fatal(err)
		}
		o.Work += work * time.Duration(*j.Spec.Completions)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.nodes {
		price := float64(n.price) / 1e6 / float64(time.Hour)
		o.Dollars += price * float64(n.meter.read(l.stopped))
		o.AllDollars += price * float64(o.Makespan)
	}
	for _, s := range l.series {
		o.MeanNodes += float64(s.Nodes) / float64(len(l.series))
	}
	o.Sums, o.Broken, o.Unmoved, o.Series = l.sums, l.broken, l.unmoved, l.series
	return o
}

// table formats runs side by side.
func table(all []*outcome) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	row := func(what string, value func(*outcome) string) {
		fmt.Fprint(w, what)
		for _, o := range all {
			fmt.Fprint(w, "\t", value(o))
		}
		fmt.Fprintln(w)
	}
	count := func(what string, value func(*outcome) int) {
		row(what, func(o *outcome) string { return fmt.Sprint(value(o)) })
	}
	seconds := func(what string, value func(*outcome) time.Duration) {
		row(what, func(o *outcome) string { return fmt.Sprintf("%.1f s", value(o).Seconds()) })
	}
	row("", func(o *outcome) string { return o.Name })
	row("dollars of nodes with pods", func(o *outcome) string { return fmt.Sprintf("$%.4f", o.Dollars) })
	row("dollars of all nodes", func(o *outcome) string { return fmt.Sprintf("$%.4f", o.AllDollars) })
	row("nodes with pods, mean", func(o *outcome) string { return fmt.Sprintf("%.1f", o.MeanNodes) })
	count("times a node became empty", func(o *outcome) int { return o.Sums.Emptied })
	count("nodes closed", func(o *outcome) int { return o.Sums.Closings })
	count("pods moved with their state", func(o *outcome) int { return o.Sums.Moved })
	count("migrations rolled back", func(o *outcome) int { return o.Sums.RolledBack })
	count("migrations refused", func(o *outcome) int { return o.Sums.Refused })
	count("pods evicted", func(o *outcome) int { return o.Sums.Evictions })
	count("of services", func(o *outcome) int { return o.Sums.ServiceEvicted })
	seconds("work of Jobs", func(o *outcome) time.Duration { return o.Work })
	seconds("work lost", func(o *outcome) time.Duration { return o.Sums.Lost })
	count("pods that lost work", func(o *outcome) int { return o.Sums.LostPods })
	seconds("time that pods were frozen", func(o *outcome) time.Duration { return o.Sums.Frozen })
	count("failures that Jobs count", func(o *outcome) int { return o.Failures })
	count("Jobs that were not done in the end", func(o *outcome) int { return o.Unfinished })
	count("moves within the residence time", func(o *outcome) int { return o.Sums.WithinResidence })
	count("nodes emptied at once, most", func(o *outcome) int { return o.Sums.MostEmptying })
	count("pods moving at once, most", func(o *outcome) int { return o.Sums.MostInFlight })
	seconds("all work done after", func(o *outcome) time.Duration { return o.Makespan })
	_ = w.Flush() // into memory, cannot fail
	return text.String()
}

// writeReport writes the setting and all outcomes as JSON.
func writeReport(path string, s setting, all []*outcome) error {
	text, err := json.MarshalIndent(struct {
		Time    time.Time  `json:"time"`
		Setting setting    `json:"setting"`
		Runs    []*outcome `json:"runs"`
	}{time.Now().UTC(), s, all}, "", " ")
	if err != nil {
		return fmt.Errorf("write its outcome: %w", err)
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}
