package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/internal/text/plural"
	"supercargo.dev/supercargo/lab/comparison"
)

// publish writes the requested files, then prints.
func (s *simulation) publish(result *comparison.Result, stdout io.Writer) error {
	document, err := result.Document()
	if err != nil {
		return err
	}
	if s.flags.placements != "" {
		if err := command.WriteWhole(s.flags.placements, result.WritePlacements); err != nil {
			return fmt.Errorf("--placements: %w", err)
		}
	}
	if s.flags.report != "" {
		if err := command.WriteWhole(s.flags.report, document.WriteHTML); err != nil {
			return fmt.Errorf("--report: %w", err)
		}
	}
	if s.flags.output == "json" {
		return document.WriteJSON(stdout)
	}
	return document.WriteTable(stdout)
}

// simulateProgress shows on a terminal the progress of the runs and the remaining time. It is safe for
// concurrent use.
type simulateProgress struct {
	w        io.Writer
	terminal bool
	start    time.Time

	mu    sync.Mutex
	parts []float64 // the completed fraction of each run
	drawn time.Time
}

// redraw is the minimum time between two updates of the bar.
const redraw = 100 * time.Millisecond

func newSimulateProgress(w io.Writer, runs int) *simulateProgress {
	f, ok := w.(*os.File)
	return &simulateProgress{w: w, terminal: ok && term.IsTerminal(int(f.Fd())), start: time.Now(), parts: make([]float64, runs)}
}

// set sets the completed fraction of a run.
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

// line returns the bar after an elapsed time.
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
	return fmt.Sprintf("[%s%s] %3.0f %%, %d of %s, %s left", strings.Repeat("#", bar), strings.Repeat(".", width-bar),
		100*done, whole, plural.Count(len(p.parts), "run"), left)
}

// end clears the bar.
func (p *simulateProgress) end() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\033[K")
	}
}
