package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/test/kit/promserver"
	"supercargo.dev/supercargo/test/kit/recorded"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// nodesServer has the series of the metrics adapter's recorder for half an hour from noon: a node that
// exists throughout, with a batch pod until 12:45; one that is created, and cordoned; and one that is
// deleted.
func nodesServer(t *testing.T) *promserver.Server {
	t.Helper()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	s := promserver.Start(t)
	c := recorded.Start(t, s, noon.Add(-10*time.Second))
	c.Add(recorded.Node("a", "m1.large"), recorded.Node("b", ""), recorded.Pod("job", "a", "1500m", noon.Add(45*time.Minute)))
	c.Until(noon.Add(10 * time.Minute))
	c.Add(recorded.Node("c", "m1.large"))
	c.Until(noon.Add(20 * time.Minute))
	c.Change("c", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	c.Remove(recorded.Node("b", ""))
	c.Until(noon.Add(30 * time.Minute))
	return s
}

func TestReportNodesSaysWhatThereWasAndUntilWhenItIsBusy(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := supercargo(t, "", "report", "nodes", "--prometheus", nodesServer(t).URL, "--from", "2026-01-02T12:00:00Z", "--to", "2026-01-02T13:30:00+01:00")
	want := `2026-01-02T12:00:00Z to 2026-01-02T12:30:00Z, sampled every 30s; nodes as of 2026-01-02T12:30:00Z

MACHINE TYPE  NODES  READY  PODS  CORES  AVAILABLE CORES  MEAN CORES  LEAST CORES  GIB    AVAILABLE GIB  MEAN GIB  LEAST GIB  LAST FINISH           REMAINING
(unknown)     0      0      0     -      -                3.50        3.50         -      -              7.00      7.00       -                     -
m1.large      2      1      1     8.00   2.00             3.15        2.00         16.00  6.00           8.30      6.00       2026-01-02T12:45:00Z  15m0s

NODE  MACHINE TYPE  STATE                  PODS  CORES  AVAILABLE CORES  MEAN CORES  LEAST CORES  GIB   AVAILABLE GIB  MEAN GIB  LEAST GIB  LAST FINISH           REMAINING  JOINED                LEFT                  PRESENT FOR
a     m1.large      ready                  1     4.00   2.00             2.00        2.00         8.00  6.00           6.00      6.00       2026-01-02T12:45:00Z  15m0s      -                     -                     30m30s
b     (unknown)     absent                 0     4.00   -                3.50        3.50         8.00  -              7.00      7.00       -                     -          -                     2026-01-02T12:20:30Z  20m30s
c     m1.large      not ready or cordoned  0     4.00   0.00             1.75        0.00         8.00  0.00           3.50      0.00       -                     -          2026-01-02T12:10:30Z  -                     20m0s
`
	if diff := cmp.Diff(want, stdout); code != command.ExitOK || stderr != "" || diff != "" {
		t.Errorf("exit code %d, stderr %q (-want +got):\n%s", code, stderr, diff)
	}
}

// nodesDocument has the fields of the report that scripts use.
type nodesDocument struct {
	At           time.Time `json:"at"`
	From         time.Time `json:"from"`
	StepSeconds  float64   `json:"stepSeconds"`
	MachineTypes []struct {
		MachineType string `json:"machineType"`
		CPU         struct {
			Available float64 `json:"available"`
		} `json:"cpu"`
	} `json:"machineTypes"`
	Nodes []struct {
		Node             string     `json:"node"`
		State            string     `json:"state"`
		RemainingSeconds float64    `json:"remainingSeconds"`
		Finish           *time.Time `json:"finish"`
		Memory           struct {
			Capacity       float64 `json:"capacity"`
			MeanAvailable  float64 `json:"meanAvailable"`
			LeastAvailable float64 `json:"leastAvailable"`
		} `json:"memory"`
		Came         *time.Time `json:"came"`
		ThereSeconds float64    `json:"thereSeconds"`
	} `json:"nodes"`
	Notes []string `json:"notes"`
}

func reportNodesAsJSON(t *testing.T, args ...string) nodesDocument {
	t.Helper()
	code, stdout, stderr := supercargo(t, "", append([]string{"report", "nodes", "-o", "json"}, args...)...)
	if code != command.ExitOK || stderr != "" {
		t.Fatalf("exit code %d and stderr %q, want 0 and nothing", code, stderr)
	}
	var d nodesDocument
	testfile.JSON(t, stdout, &d)
	return d
}

func TestReportNodesOfAMoment(t *testing.T) {
	t.Parallel()
	url := nodesServer(t).URL
	d := reportNodesAsJSON(t, "--prometheus", url, "--at", "2026-01-02T12:15:00Z", "--since", "10m", "--step", "20s")
	if len(d.Nodes) != 3 || d.Nodes[0].RemainingSeconds != 1800 || d.Nodes[0].Memory.Capacity != 8<<30 || d.Nodes[1].State != "ready" || d.Nodes[1].Finish != nil || d.Nodes[2].State != "ready" {
		t.Errorf("%+v", d.Nodes)
	}
	if c := d.Nodes[2]; c.Came == nil || c.ThereSeconds != 300 || c.Memory.MeanAvailable != 7<<30 || c.Memory.LeastAvailable != 7<<30 {
		t.Errorf("%+v, want a node that is there for five of the ten minutes before", c)
	}
	if len(d.MachineTypes) != 2 || d.MachineTypes[1].CPU.Available != 5.5 || d.StepSeconds != 20 || !d.From.Equal(d.At.Add(-10*time.Minute)) || len(d.Notes) != 0 {
		t.Errorf("%+v", d)
	}
	// A time within the range, which shows the state at that time.
	d = reportNodesAsJSON(t, "--prometheus", url, "--from", "2026-01-02T12:00:00Z", "--to", "2026-01-02T12:30:00Z", "--at", "2026-01-02T12:05:00Z")
	if len(d.Nodes) != 3 || d.Nodes[0].RemainingSeconds != 2400 || d.Nodes[2].State != "absent" {
		t.Errorf("%+v", d.Nodes)
	}
}

func TestEachAmountOfReportNodesIsAlsoThereWithItsUnit(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := supercargo(t, "", "report", "nodes", "-o", "json", "--prometheus", nodesServer(t).URL, "--at", "2026-01-02T12:15:00Z", "--since", "10m")
	if code != command.ExitOK || stderr != "" {
		t.Fatalf("exit code %d and stderr %q, want 0 and nothing", code, stderr)
	}
	var d struct {
		MachineTypes []struct{ CPU, Memory map[string]float64 } `json:"machineTypes"`
		Nodes        []struct{ CPU, Memory map[string]float64 } `json:"nodes"`
	}
	testfile.JSON(t, stdout, &d)
	for _, tc := range []struct {
		of   map[string]float64
		want map[string]float64
	}{
		{d.Nodes[0].CPU, map[string]float64{
			"capacity": 4, "available": 2, "meanAvailable": 2, "leastAvailable": 2,
			"capacityCores": 4, "availableCores": 2, "meanAvailableCores": 2, "leastAvailableCores": 2,
		}},
		{d.Nodes[0].Memory, map[string]float64{
			"capacity": 8 << 30, "available": 6 << 30, "meanAvailable": 6 << 30, "leastAvailable": 6 << 30,
			"capacityBytes": 8 << 30, "availableBytes": 6 << 30, "meanAvailableBytes": 6 << 30, "leastAvailableBytes": 6 << 30,
		}},
	} {
		if diff := cmp.Diff(tc.want, tc.of); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if of := d.MachineTypes[1]; of.CPU["availableCores"] != 5.5 || of.Memory["availableBytes"] != 13<<30 {
		t.Errorf("of the type, %v and %v are available; want 5.5 cores and 13 GiB", of.CPU, of.Memory)
	}
}

func TestReportNodesSaysOfWhichTimeNothingIsKnown(t *testing.T) {
	t.Parallel()
	url := nodesServer(t).URL
	d := reportNodesAsJSON(t, "--prometheus", url, "--at", "2026-01-02T13:30:00Z", "--since", "3h")
	if len(d.Notes) != 2 || !strings.Contains(d.Notes[0], "begins at 2026-01-02T12:00:00Z") || !strings.Contains(d.Notes[1], "ends at 2026-01-02T12:30:00Z") {
		t.Errorf("%q", d.Notes)
	}
	d = reportNodesAsJSON(t, "--prometheus", url, "--at", "2026-01-02T12:30:00Z", "--since", "1m", "--step", "50s")
	if len(d.Notes) != 0 {
		t.Errorf("%q, want nothing: less than a step is not known", d.Notes)
	}
}

func TestReportNodesSaysWhatToInstallWithoutHistory(t *testing.T) {
	t.Parallel()
	url := promserver.Start(t).URL
	code, stdout, stderr := supercargo(t, "", "report", "nodes", "--prometheus", url)
	if code != command.ExitOK || stderr != "" || strings.Contains(stdout, "NODE") || !strings.Contains(stdout, "No history of nodes was found") || !strings.Contains(stdout, "manifests/replicas") {
		t.Errorf("exit code %d, stderr %q and\n%s", code, stderr, stdout)
	}
	d := reportNodesAsJSON(t, "--prometheus", url)
	if d.Nodes == nil || d.MachineTypes == nil || len(d.Notes) != 1 || d.StepSeconds != 300 {
		t.Errorf("%+v, want lists that are empty, and a note", d)
	}
}

func TestReportNodesRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	for flags, says := range map[string]string{
		"":               "--prometheus is required: the URL of the server",
		"--prometheus=x": "--prometheus",
		"--at=now":       `--at "now"`,
		"--from=now":     `--from "now"`,
		"--to=now":       `--to "now"`,
		"--since=-1h":    "--since",
		"--since=10000h": "at most 366 days",
		"--step=1ms":     "whole number of seconds",
		"--step=1s":      "must be 58s or more",
		"--step=25h":     "must be at most the time",
		"--to=2026-01-02T12:00:00Z --at=2026-01-02T13:00:00Z":   "must be within the time",
		"--since=1h --from=2026-01-02T12:00:00Z":                "--from and --since",
		"--from=2026-01-02T12:00:00Z --to=2026-01-02T11:00:00Z": "must be longer than 0",
		"-o=yaml": "--output",
	} {
		args := append([]string{"report", "nodes"}, strings.Fields(flags)...)
		if !strings.Contains(flags, "--prometheus") && flags != "" {
			args = append(args, "--prometheus", "http://127.0.0.1:1")
		}
		code, stdout, stderr := supercargo(t, "", args...)
		if code != command.ExitUsage || stdout != "" || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit %d, %s; want 2 and %q", flags, code, stderr, says)
		}
	}
}

func TestReportNodesFailsIfTheServerDoes(t *testing.T) {
	t.Parallel()
	s := promserver.Start(t)
	s.Down.Store(true)
	code, stdout, stderr := supercargo(t, "", "report", "nodes", "--prometheus", s.URL)
	if code != command.ExitFailed || stdout != "" || !strings.Contains(stderr, s.URL) {
		t.Errorf("exit code %d, stdout %q and stderr %q; want 1, nothing and the server's URL", code, stdout, stderr)
	}
}

// TestReportNodesPassesOnNoOrdersToTerminals: names of nodes may contain escape sequences.
func TestReportNodesPassesOnNoOrdersToTerminals(t *testing.T) {
	t.Parallel()
	s := promserver.Start(t)
	at := time.Now()
	s.Put(at, 1, "__name__", "supercargo_node_ready", "node", "a\x1b[2J", "machine_type", "m\n1")
	to := at.Add(time.Minute).UTC().Format(time.RFC3339)
	code, stdout, stderr := supercargo(t, "", "report", "nodes", "--prometheus", s.URL, "--to", to, "--since", "2m", "--step", "10s")
	if code != command.ExitOK || strings.Contains(stdout, "\x1b") || !strings.Contains(stdout, "a\uFFFD[2J") || !strings.Contains(stdout, "m\uFFFD1") {
		t.Errorf("exit code %d, stderr %q and\n%q", code, stderr, stdout)
	}
}
