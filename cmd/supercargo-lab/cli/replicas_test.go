package cli

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/lab/replicas"
	"supercargo.dev/supercargo/test/kit/commandtest"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// ratesFile writes an arrival-rate series and returns its name.
func ratesFile(t *testing.T, rows string) string {
	t.Helper()
	return filepath.Join(commandtest.Directory(t, map[string]string{"requests.csv": "time_s,rate_per_s\n" + rows}), "requests.csv")
}

// hours returns a series of constant rate.
func hours(t *testing.T, n int, rate float64) string {
	t.Helper()
	var b strings.Builder
	for i := range 2 * n {
		fmt.Fprintf(&b, "%d,%g\n", i*1800, rate)
	}
	return ratesFile(t, b.String())
}

// TestReplicasCountsWhatOneCanComputeByHand: six replicas of 10/s each answer 45 requests per second in
// 0.1281 s on average by queueing theory, and an hour has 14.4 intervals of 250 s.
func TestReplicasCountsWhatOneCanComputeByHand(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := supercargo(t, "", "replicas", "--trace", hours(t, 1, 45), "--law", "proportional", "--slo", "150ms",
		"--mu-b", "10", "--mu-c", "0", "--min", "6", "--max", "6", "-o", "json")
	if code != command.ExitOK {
		t.Fatalf("exit code %d and stderr %q", code, stderr)
	}
	var got replicas.Figures
	testfile.JSON(t, stdout, &got)
	if !(math.Abs(got.ContainerIntervals-6*14.4) < 1e-6) || got.MeanResponseSeconds == nil || !(math.Abs(*got.MeanResponseSeconds-0.1281) < 0.008) {
		t.Errorf("figures %+v, want 86.4 container intervals and about 0.128 s", got)
	}
	if got.ControlIntervals != 15 || !(math.Abs(float64(got.Requests)-45*3600) < 2500) {
		t.Errorf("figures %+v, want 15 intervals, the last of them short, and about 162,000 requests", got)
	}
}

func TestReplicasIsTheSameForTheSameSeed(t *testing.T) {
	t.Parallel()
	args := []string{"replicas", "--trace", hours(t, 1, 100), "--law", "predictive,inversequeue,doublethreshold,hpa", "-o", "json"}
	_, first, _ := supercargo(t, "", args...)
	_, second, _ := supercargo(t, "", args...)
	_, other, _ := supercargo(t, "", append(args, "--seed", "2")...)
	if first != second || first == "" {
		t.Error("the same seed gives other figures")
	}
	if first == other {
		t.Error("another seed gives the same figures")
	}
}

func TestReplicasTabulatesEveryLaw(t *testing.T) {
	t.Parallel()
	code, stdout, _ := supercargo(t, "time_s,rate_per_s\n0,50\n600,80\n", "replicas", "--trace", "-", "--interpolate", "--law", "predictive,qmdl,hpa-dhpa")
	for _, word := range []string{"VIOLATIONS", "predictive", "qmdl", "hpa-dhpa"} {
		if code != command.ExitOK || !strings.Contains(stdout, word) {
			t.Errorf("exit code %d, output %q, want %s in it", code, stdout, word)
		}
	}
}

func TestReplicasWritesEveryEvaluation(t *testing.T) {
	t.Parallel()
	samples := filepath.Join(t.TempDir(), "samples.csv")
	code, _, stderr := supercargo(t, "", "replicas", "--trace", hours(t, 1, 100), "--law", "inversequeue", "--samples", samples)
	if code != command.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	f, err := os.Open(samples)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1+14 || rows[0][0] != "time_s" || rows[1][0] != "250" || rows[2][0] != "500" {
		t.Fatalf("%d rows, the first %v and %v; want a header and an evaluation at the end of every 250 s of an hour", len(rows), rows[0], rows[1])
	}
	if rate, err := strconv.ParseFloat(rows[1][2], 64); err != nil || !(math.Abs(rate-100) < 5) {
		t.Errorf("the first evaluation measures %v/s (%v), want about 100", rows[1][2], err)
	}
}

func TestReplicasRefusesBadInputByItsName(t *testing.T) {
	t.Parallel()
	good := hours(t, 1, 50)
	for _, tc := range []struct {
		name string
		args []string
		says []string
	}{
		{"no series", nil, []string{"-f is required: a CSV file of arrival rates"}},
		{"no such file", []string{"--trace", "none.csv"}, []string{"-f: open none.csv"}},
		{"bad cell", []string{"--trace", ratesFile(t, "0,1\n60,many\n")}, []string{"requests.csv:3: rate_per_s: \"many\""}},
		{"times that go back", []string{"--trace", ratesFile(t, "0,1\n60,1\n30,1\n")}, []string{"requests.csv:4: time_s"}},
		{"unknown law", []string{"--trace", good, "--law", "astrology"}, []string{"--law \"astrology\"", "inversequeue"}},
		{"a target that is none", []string{"--trace", good, "--law", "hpa-0"}, []string{`--law "hpa-0"`, "hpa-N with N from 1 to 100"}},
		{"a target that is no whole percentage", []string{"--trace", good, "--law", "hpa-050"}, []string{`--law "hpa-050"`}},
		{"a law twice", []string{"--trace", good, "--law", "hpa,hpa"}, []string{"hpa is set twice"}},
		{"all faults at once", []string{"--trace", good, "--slo", "0s", "--interval", "1ms", "--mu-b", "-1", "--mu-c", "-1", "--alpha", "1", "--min", "0",
			"--max", "-1", "--pod-start", "-1s", "--warmup", "-1s", "--response-window", "-1s", "--scale", "0", "-o", "xml", "--connections", "-1"},
			[]string{"--slo", "--interval", "--mu-b", "--mu-c", "--alpha", "--min", "--max", "--pod-start", "--warmup", "--response-window", "--scale", "--output", "--connections"}},
		{"an SLO nobody can keep", []string{"--trace", ratesFile(t, "0,100\n60,800\n")}, []string{"--slo", "800 requests/s", "takes 0.102"}},
		{"a warm-up longer than the series", []string{"--trace", good, "--warmup", "2h"}, []string{"--warmup 2h0m0s", "lasts 1h0m0s"}},
		{"samples of two laws", []string{"--trace", good, "--law", "hpa,qmdl", "--samples", "x.csv"}, []string{"--samples", "used with one law only"}},
		{"samples into nowhere", []string{"--trace", good, "--samples", filepath.Join(t.TempDir(), "no", "x.csv")}, []string{"--samples"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := supercargo(t, "", append([]string{"replicas"}, tc.args...)...)
			if code != command.ExitUsage || stdout != "" {
				t.Errorf("exit code %d with %q on stdout, want %d and nothing", code, stdout, command.ExitUsage)
			}
			for _, says := range tc.says {
				if !strings.Contains(stderr, says) {
					t.Errorf("stderr is %q, want it to mention %q", stderr, says)
				}
			}
		})
	}
}

func TestTheTargetOfAnHPAIsInItsName(t *testing.T) {
	code, stdout, stderr := supercargo(t, "", "replicas", "--trace", hours(t, 1, 300), "--law", "hpa,hpa-50,hpa-80", "--warmup", "0s", "-o", "json")
	if code != command.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var got struct {
		Laws []struct {
			Name               string  `json:"law"`
			ContainerIntervals float64 `json:"containerIntervals"`
		} `json:"laws"`
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || len(got.Laws) != 3 {
		t.Fatalf("%v in %s", err, stdout)
	}
	plain, half, most := got.Laws[0], got.Laws[1], got.Laws[2]
	if half.Name != "hpa-50" || half.ContainerIntervals != plain.ContainerIntervals || most.ContainerIntervals >= half.ContainerIntervals {
		t.Errorf("%+v: want hpa-50 to be hpa, and hpa-80 to need fewer replicas", got.Laws)
	}
}
