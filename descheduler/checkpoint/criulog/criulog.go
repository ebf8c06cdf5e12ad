// Package criulog reads the logs of CRIU.
package criulog

import (
	"bufio"
	"os"
	"strings"
)

// most is the maximum number of errors that are reported.
const most = 4

// Errors returns the first lines of a log with errors, joined, or why there are none.
func Errors(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return "CRIU has not written a log"
	}
	defer f.Close()
	var found []string
	for lines := bufio.NewScanner(f); lines.Scan() && len(found) < most; {
		if strings.Contains(lines.Text(), "Error") {
			found = append(found, lines.Text())
		}
	}
	if len(found) == 0 {
		return "the log of CRIU has no error"
	}
	return strings.Join(found, "; ")
}
