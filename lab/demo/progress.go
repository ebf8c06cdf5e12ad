package demo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"supercargo.dev/supercargo/internal/text/plural"
	"supercargo.dev/supercargo/lab/replay"
)

// Progress shows the progress of the demo: a bar on a terminal, and a line every ten seconds
// elsewhere.
type Progress struct {
	w         io.Writer
	terminal  bool
	profile   string
	printedAt time.Duration // Elapsed at the last line
}

// plainEvery is the interval between lines without a terminal.
const plainEvery = 10 * time.Second

// NewProgress returns a Progress that writes to w.
func NewProgress(w io.Writer) *Progress {
	f, ok := w.(*os.File)
	return &Progress{w: w, terminal: ok && term.IsTerminal(int(f.Fd()))}
}

// say writes one line.
func (p *Progress) say(format string, args ...any) {
	fmt.Fprintf(p.w, format+"\n", args...)
}

// slower reports whether err is that the control plane was behind and a lower speed is left. It then
// changes to that speed, and says so.
func (p *Progress) slower(err error, to *pace) bool {
	late := (*behind)(nil)
	if !errors.As(err, &late) || !to.slower() {
		return false
	}
	p.say("%s: starting again at 1/%g of the speed", late, to.slowdown)
	return true
}

// begin starts a profile.
func (p *Progress) begin(profile string) {
	p.profile, p.printedAt = profile, 0
	if !p.terminal {
		p.say("profile %s: replaying the trace", profile)
	}
}

// show is the progress callback of the replay.
func (p *Progress) show(now replay.Progress) {
	now.Elapsed = min(now.Elapsed, now.Window) // pods are deleted after the window
	state := fmt.Sprintf("%d of %s created, %d bound, %d ended", now.Created, plural.Count(now.Pods, "pod"), now.Bound, now.Gone)
	if !p.terminal {
		if now.Elapsed-p.printedAt >= plainEvery {
			p.printedAt = now.Elapsed
			p.say("profile %s: %.0f of %.0f s, %s", p.profile, now.Elapsed.Seconds(), now.Window.Seconds(), state)
		}
		return
	}
	const width = 30
	done := int(width * now.Elapsed.Seconds() / now.Window.Seconds())
	fmt.Fprintf(p.w, "\r\033[K%-10s [%s%s] %s", p.profile, strings.Repeat("#", done), strings.Repeat(".", width-done), state)
}

// end finishes a profile's bar.
func (p *Progress) end() {
	if p.terminal {
		fmt.Fprintln(p.w)
	}
}
