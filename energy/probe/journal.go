package probe

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// journal records on disk what a probe has done, so that a later process can continue after a
// failure. It has one line for each idle time or run. A last line that a crash truncated is
// ignored, and so is a journal with a result older than journalAge.
type journal struct {
	file *os.File
}

// journalAge is the maximum age of recorded results.
const journalAge = 24 * time.Hour

// entry is a line: the first identifies the probe, the others are results.
type entry struct {
	Probe string `json:"probe,omitempty"`
	Idle  *Idle  `json:"idle,omitempty"`
	Run   *Run   `json:"run,omitempty"`
}

// openJournal opens the journal of a probe, and returns the results in it. It discards the
// journal of another probe.
func openJournal(path, probe string, now time.Time) (*journal, Report, error) {
	done, err := readJournal(path, probe, now.Add(-journalAge))
	if err != nil {
		return nil, Report{}, fmt.Errorf("read the journal of the probe: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, Report{}, fmt.Errorf("write the journal of the probe: %w", err)
	}
	// Rewritten, so that a truncated line is not left in the middle.
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, Report{}, fmt.Errorf("write the journal of the probe: %w", err)
	}
	j := &journal{file: f}
	err = j.add(entry{Probe: probe})
	for i := range done.Idle {
		err = errors.Join(err, j.add(entry{Idle: &done.Idle[i]}))
	}
	for i := range done.Runs {
		err = errors.Join(err, j.add(entry{Run: &done.Runs[i]}))
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return nil, Report{}, errors.Join(err, f.Close())
	}
	return j, done, nil
}

func readJournal(path, probe string, oldest time.Time) (done Report, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Report{}, nil
	}
	if err != nil {
		return Report{}, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for first := true; lines.Scan(); first = false {
		var e entry
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			break // truncated
		}
		switch {
		case first && e.Probe != probe:
			return Report{}, nil
		case e.Idle != nil && e.Idle.Started.Before(oldest), e.Run != nil && e.Run.Started.Before(oldest):
			return Report{}, nil
		case e.Idle != nil:
			done.Idle = append(done.Idle, *e.Idle)
		case e.Run != nil:
			done.Runs = append(done.Runs, *e.Run)
		}
	}
	return done, lines.Err()
}

// add writes a line that survives a crash.
func (j *journal) add(e entry) error {
	text, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(text, '\n'))
	}
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("write the journal of the probe: %w", err)
	}
	return nil
}

func (j *journal) close() error { return j.file.Close() }
