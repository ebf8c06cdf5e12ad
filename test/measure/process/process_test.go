package process_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"supercargo.dev/supercargo/test/measure/process"
)

func TestAProgramTellsWhatItTookAndWhyItFailed(t *testing.T) {
	out, used, err := process.Output(t.Context(), "/bin/sh", "-c", "echo done")
	if err != nil || string(out) != "done\n" || used.Time <= 0 || !(used.PeakMemoryMiB > 0 && used.PeakMemoryMiB < 1024) {
		t.Errorf("%q, %+v, %v", out, used, err)
	}
	if _, _, err := process.Output(t.Context(), "/bin/sh", "-c", "echo no such pod >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "no such pod") {
		t.Errorf("error %v, want what the program wrote", err)
	}
}

func TestAProgramThatEndsByItselfIsAnError(t *testing.T) {
	log, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	stop, err := process.Start(exec.Command("/bin/sleep", "600"), log)
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Errorf("a program that runs until it is stopped: %v", err)
	}
	short := exec.Command("/bin/sh", "-c", "exit 3")
	if stop, err = process.Start(short, log); err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return errors.Is(syscall.Kill(short.Process.Pid, 0), syscall.ESRCH), nil // it has been waited for
	})
	if err != nil {
		t.Fatal(err)
	}
	err = stop()
	if err == nil || !strings.Contains(err.Error(), "by itself") {
		t.Errorf("a program that ended: %v", err)
	}
}
