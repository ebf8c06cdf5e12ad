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

// journal remembers on disk what a probe has done, so that who comes after a failure goes
// on. It has one line for each thing done; a last line that was cut off by a crash is
// passed over, and so is all of a journal of the day before yesterday.
type journal struct {
	file *os.File
}

// journalAge is how old what was done may be to be gone on with.
const journalAge = 24 * time.Hour

// entry is a line: the first says which probe it is, the others what was done.
type entry struct {
	Probe string `json:"probe,omitempty"`
	Idle  *Idle  `json:"idle,omitempty"`
	Run   *Run   `json:"run,omitempty"`
}

// openJournal opens the one of a probe at a path, and returns what it has done. The
// journal of another probe is thrown away.
func openJournal(path, probe string, now time.Time) (*journal, Report, error) {
	done, err := readJournal(path, probe, now.Add(-journalAge))
	if err != nil {
		return nil, Report{}, fmt.Errorf("read what was probed before: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, Report{}, fmt.Errorf("write down what is probed: %w", err)
	}
	// Written anew, so that what a crash has cut off is not in the middle.
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, Report{}, fmt.Errorf("write down what is probed: %w", err)
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
			break // cut off
		}
		switch {
		case first && e.Probe != probe:
			return Report{}, nil
		case e.Idle != nil:
			done.Idle = append(done.Idle, *e.Idle)
		case e.Run != nil && e.Run.Started.Before(oldest):
			return Report{}, nil
		case e.Run != nil:
			done.Runs = append(done.Runs, *e.Run)
		}
	}
	return done, lines.Err()
}

// add writes a line that outlives a crash.
func (j *journal) add(e entry) error {
	text, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(text, '\n'))
	}
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("write down what is probed: %w", err)
	}
	return nil
}

func (j *journal) close() error { return j.file.Close() }
