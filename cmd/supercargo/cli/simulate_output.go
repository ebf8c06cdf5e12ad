package cli

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"supercargo.dev/supercargo/lab/outcome"
	"supercargo.dev/supercargo/lab/sim"
)

// publish writes the files that were asked for, then prints.
func (s *simulation) publish(runs []simulated, stdout io.Writer) error {
	shown, err := s.outcome(runs)
	if err != nil {
		return err
	}
	if s.flags.placements != "" {
		if err := writeWhole(s.flags.placements, func(w io.Writer) error { return writePlacements(w, runs) }); err != nil {
			return fmt.Errorf("--placements: %w", err)
		}
	}
	if s.flags.report != "" {
		if err := writeWhole(s.flags.report, shown.WriteHTML); err != nil {
			return fmt.Errorf("--report: %w", err)
		}
	}
	if s.flags.output == "json" {
		return shown.WriteJSON(stdout)
	}
	return shown.WriteTable(stdout)
}

// shown is what a simulation came to, in all its forms.
type shown interface {
	WriteJSON(io.Writer) error
	WriteTable(io.Writer) error
	WriteHTML(io.Writer) error
}

// outcome is a report of one seed, or a summary of several, of the named policies.
func (s *simulation) outcome(runs []simulated) (shown, error) {
	reports := make([]outcome.Report, len(s.workloads))
	for i, pods := range s.workloads {
		wait := s.waits[i]
		least := sim.Bounds{Lower: sim.LowerBound(s.scenario, pods), Served: sim.ServedBound(s.scenario, pods, wait), ServiceWait: wait}
		reports[i] = outcome.Report{Scenario: s.scenario.Name, Seed: s.flags.seed + uint64(i)}
		for _, r := range runs[i*len(s.policies) : (i+1)*len(s.policies)] {
			wall := r.wall
			if s.flags.deterministic {
				wall = 0
			}
			reports[i].Policies = append(reports[i].Policies, r.result.Outcome(r.policy, least, wall))
		}
		reports[i].SameEnd()
	}
	if len(reports) == 1 {
		return reports[0], nil
	}
	return outcome.Summarize(reports)
}

// writePlacements writes a row for each placement, in the order of the runs and then
// of time.
func writePlacements(w io.Writer, runs []simulated) error {
	rows := csv.NewWriter(w)
	if err := rows.Write([]string{"time_s", "pod", "node", "flavor", "reason", "policy", "seed"}); err != nil {
		return err
	}
	for _, r := range runs {
		seed := strconv.FormatUint(r.seed, 10)
		for _, p := range r.result.Placements {
			time := strconv.FormatFloat(p.At.Seconds(), 'f', -1, 64)
			if err := rows.Write([]string{time, p.Pod, p.Node, p.Flavor, p.Reason, r.policy, seed}); err != nil {
				return err
			}
		}
	}
	rows.Flush()
	return rows.Error()
}

// writeWhole writes a file so that it is there whole or as it was before. A link
// stays one, and what is no regular file, such as a pipe, is written to as it is.
func writeWhole(path string, write func(io.Writer) error) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if is, err := os.Stat(path); err == nil && !is.Mode().IsRegular() {
		return writeThrough(path, write)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	buffered := bufio.NewWriter(f)
	if err := write(buffered); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// writeThrough writes to what is there already.
func writeThrough(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// simulateProgress shows on a terminal how far the runs are and when they will be
// done. It is safe for concurrent use.
type simulateProgress struct {
	w        io.Writer
	terminal bool
	start    time.Time

	mu    sync.Mutex
	parts []float64 // of each run, what is done
	drawn time.Time
}

// redraw is the least time between two pictures of the bar.
const redraw = 100 * time.Millisecond

func newSimulateProgress(w io.Writer, runs int) *simulateProgress {
	f, ok := w.(*os.File)
	return &simulateProgress{w: w, terminal: ok && term.IsTerminal(int(f.Fd())), start: time.Now(), parts: make([]float64, runs)}
}

// show is the callback of a run.
func (p *simulateProgress) show(run int, now sim.Progress) {
	if now.Total > 0 {
		p.set(run, float64(now.Arrived+now.Done)/float64(2*now.Total))
	}
}

func (p *simulateProgress) finished(run int) { p.set(run, 1) }

func (p *simulateProgress) set(run int, part float64) {
	if !p.terminal {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parts[run] = min(part, 1)
	now := time.Now()
	if now.Sub(p.drawn) < redraw {
		return
	}
	p.drawn = now
	fmt.Fprint(p.w, "\r\033[K", p.line(now.Sub(p.start)))
}

// line is the bar after some time.
func (p *simulateProgress) line(elapsed time.Duration) string {
	var sum float64
	whole := 0
	for _, part := range p.parts {
		sum += part
		if part == 1 {
			whole++
		}
	}
	done := sum / float64(len(p.parts))
	left := "unknown"
	if done > 0.01 {
		left = time.Duration(float64(elapsed) * (1 - done) / done).Round(time.Second).String()
	}
	const width = 30
	bar := int(width * done)
	return fmt.Sprintf("[%s%s] %3.0f %%, %d of %d runs, %s left", strings.Repeat("#", bar), strings.Repeat(".", width-bar),
		100*done, whole, len(p.parts), left)
}

// end wipes the bar.
func (p *simulateProgress) end() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\033[K")
	}
}
