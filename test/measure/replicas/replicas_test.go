package replicas

import (
	"math"
	"os"
	"testing"
	"time"
)

func TestTheSourceAnswersByTheQueueingModel(t *testing.T) {
	const at = 0
	rate, err := value(`rate{of="web-0"}`, at)
	if err != nil || rate != meanRate {
		t.Errorf("the rate is %v, %v, want %v at the middle of the swing", rate, err, meanRate)
	}
	response, err := value(`response{of="web-0"}`, at)
	if err != nil || !(response > 1/ratePerReplica) {
		t.Errorf("the response time is %v, %v, want above that of one request alone", response, err)
	}
	queue, err := value(`queue{of="web-0"}`, at)
	if err != nil || math.Abs(queue-rate*response) > 1e-9*queue {
		t.Errorf("the queue is %v, %v, want %v by Little's law", queue, err, rate*response)
	}
	for _, query := range []string{"up", `rate{of="web-x"}`, `size{of="web-1"}`} {
		if v, err := value(query, at); err == nil {
			t.Errorf("%s is answered with %v", query, v)
		}
	}
}

func TestAProcessTellsItsTimeAndMemory(t *testing.T) {
	pid := os.Getpid()
	for spent := time.Duration(0); spent < 20*time.Millisecond; { // two ticks of CPU time, regardless of wall time
		var err error
		if spent, err = cpuTime(pid); err != nil {
			t.Fatal(err)
		}
	}
	if mib, err := peakMemory(pid); err != nil || !(mib > 1 && mib < 1<<16) {
		t.Errorf("peak memory is %v MiB, %v", mib, err)
	}
	if _, err := cpuTime(-1); err == nil {
		t.Error("a process that is not there has CPU time")
	}
}
