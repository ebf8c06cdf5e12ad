package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// outcome is the result of a test.
type outcome string

const (
	passedOutcome  outcome = "passed"
	failedOutcome  outcome = "failed"
	skippedOutcome outcome = "skipped"
)

// wholePackage represents a test program that failed although each of its tests passed.
const wholePackage = "(the whole package)"

// outcomes maps full test names to outcomes. Tests that fail only because of a subtest are left out.
type outcomes map[string]outcome

func (o outcomes) failed() []string {
	var failed []string
	for name, got := range o {
		if got == failedOutcome {
			failed = append(failed, name)
		}
	}
	slices.Sort(failed)
	return failed
}

func (o outcomes) passed() int {
	n := 0
	for _, got := range o {
		if got == passedOutcome {
			n++
		}
	}
	return n
}

// maxLine bounds one line of go test's report.
const maxLine = 16 << 20

// readOutcomes reads the output of go tool test2json. A test that began and did not end, for example because
// the program crashed, has failed.
func readOutcomes(r io.Reader) (outcomes, error) {
	found := outcomes{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var event struct{ Action, Test string }
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, fmt.Errorf("parse %.80q: %w", lines.Text(), err)
		}
		if event.Test == "" {
			continue
		}
		switch event.Action {
		case "run", "fail":
			found[event.Test] = failedOutcome
		case "pass":
			found[event.Test] = passedOutcome
		case "skip":
			found[event.Test] = skippedOutcome
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	for name, got := range found {
		if got != failedOutcome {
			continue
		}
		for {
			at := strings.LastIndex(name, "/")
			if at < 0 {
				break
			}
			name = name[:at]
			delete(found, name)
		}
	}
	return found, nil
}
