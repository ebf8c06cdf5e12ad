package input_test

import (
	"errors"
	"testing"

	"supercargo.dev/supercargo/internal/input"
)

func TestAllFaultsAreToldAtOnceAndNothingElse(t *testing.T) {
	var f input.Faults
	f.If(false, "--a %d: want more", 1)
	f.In("--b", nil)
	if err := errors.Join(f...); err != nil {
		t.Errorf("%v, want nothing", err)
	}
	cause := errors.New("no number")
	f.If(true, "--c %d: want more", 2)
	f.In("--d", cause)
	if err := errors.Join(f...); err == nil || err.Error() != "--c 2: want more\n--d: no number" || !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
}
