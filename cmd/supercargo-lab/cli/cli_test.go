package cli

import (
	"testing"

	"supercargo.dev/supercargo/test/kit/commandtest"
)

// supercargo runs a command line in this process.
func supercargo(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return commandtest.Run(t, Run, stdin, args...)
}
