package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/test/kit/commandtest"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// fourTasks: on one worker of two cores a and b run at once, c after a, d after both.
const fourTasks = "id,category,cores,memory_mib,runtime_s,cpu_fraction,parents,stage\n" +
	"a,x,1,100,10,1,,\nb,x,1,100,30,1,,\nc,x,1,100,5,1,a,\nd,y,2,100,10,0.5,,1\n"

func workersInput(t *testing.T, tasks string, flags ...string) []string {
	t.Helper()
	dir := commandtest.Directory(t, map[string]string{"tasks.csv": tasks})
	return append([]string{"workers", "--tasks", filepath.Join(dir, "tasks.csv")}, flags...)
}

func TestWorkersTellsEachDecision(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "decisions.csv")
	var tasks strings.Builder
	tasks.WriteString("id,category,cores,memory_mib,runtime_s,cpu_fraction\n")
	for _, id := range strings.Fields("a b c d e f g h i") {
		tasks.WriteString(id + ",x,1,100,1000,1\n")
	}
	args := workersInput(t, tasks.String(), "--start-workers", "1", "--decisions", path)
	code, stdout, stderr := supercargo(t, "", args...)
	if code != command.ExitOK || !strings.Contains(stdout, "makespan") || !strings.Contains(stdout, "core·s") {
		t.Fatalf("exit code %d, stdout %q and stderr %q", code, stdout, stderr)
	}
	rows := testfile.Read(t, path)
	if want := "time_s,added,drained,killed,reason\n30.000,2,,,6 tasks wait at the end of the window: 2 workers for them\n"; !strings.HasPrefix(string(rows), want) {
		t.Errorf("decisions are\n%s, want them to begin with\n%s", rows, want)
	}
}

func TestWorkersRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, tasks string
		flags       []string
		want        string
	}{
		{"a law that nobody knows", fourTasks, []string{"--law", "hpa-0"}, "--law \"hpa-0\": must be supercargo, hta, hta-paper or hpa-N"},
		{"a target with something behind it", fourTasks, []string{"--law", "hpa-20x"}, "--law"},
		{"a worker without memory", fourTasks, []string{"--worker", "cores=3"}, "--worker \"cores=3\": must have both"},
		{"a worker of nothing", fourTasks, []string{"--worker", "cores=0,memory=1Gi"}, "\"0\" is not an amount of cores"},
		{"half a core", fourTasks, []string{"--worker", "cores=2500m,memory=1Gi"}, "must have whole cores"},
		{"disks", fourTasks, []string{"--worker", "cores=1,disk=1Gi"}, "\"disk\" is not a resource of workers"},
		{"cores twice", fourTasks, []string{"--worker", "cores=1,cores=2"}, "cores is set twice"},
		{"more at the start than ever", fourTasks, []string{"--start-workers", "5", "--max-workers", "4"}, "--start-workers 5: must be from 0 to --max-workers"},
		{"no time", fourTasks, []string{"--init-time", "0s"}, "--init-time 0s: must be more than 0"},
		{"a format", fourTasks, []string{"-o", "yaml"}, `--output "yaml": must be table or json`},
		{"a task too large", fourTasks, []string{"--worker", "cores=1,memory=1Gi"}, "task d needs 2 cores"},
		{"a circle", strings.Replace(fourTasks, "a,x,1,100,10,1,,", "a,x,1,100,10,1,c,", 1), nil, "tasks.csv:2: parents: task \"a\" waits for itself"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := supercargo(t, "", workersInput(t, tc.tasks, tc.flags...)...)
			if code != command.ExitUsage || stdout != "" || !strings.Contains(stderr, tc.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q, want 2, nothing and %q", code, stdout, stderr, tc.want)
			}
		})
	}
	if code, _, stderr := supercargo(t, "", "workers"); code != command.ExitUsage || !strings.Contains(stderr, "-f is required: the file") {
		t.Errorf("exit code %d and %q, want 2 and the flag named", code, stderr)
	}
}

// TestWorkersKeepsItsAimsOnTheScenarios runs the commands in the documentation.
func TestWorkersKeepsItsAimsOnTheScenarios(t *testing.T) {
	t.Parallel()
	type outcome struct {
		MakespanSeconds  float64 `json:"makespanSeconds"`
		WasteCoreSeconds float64 `json:"wasteCoreSeconds"`
		CostDollars      float64 `json:"costDollars"`
	}
	run := func(file, start, law string) (o outcome) {
		t.Helper()
		code, stdout, stderr := supercargo(t, "", "workers", "--tasks", filepath.Join("..", "..", "..", "test", "scenarios", "workers", file),
			"--start-workers", start, "--max-workers", "20", "--init-time", "157.4s", "--init-sd", "4.2s", "--law", law, "-o", "json")
		if code != command.ExitOK {
			t.Fatalf("%s under %s: exit code %d: %s", file, law, code, stderr)
		}
		testfile.JSON(t, stdout, &o)
		return o
	}
	hpa20, hpa50 := run("blast.csv", "3", "hpa-20"), run("blast.csv", "3", "hpa-50")
	for law, longer := range map[string]float64{"hta": 1.152, "hta-paper": 1.152, "supercargo": 1.05} {
		got := run("blast.csv", "3", law)
		if !(5.6*got.WasteCoreSeconds <= hpa20.WasteCoreSeconds) || !(4.3*got.WasteCoreSeconds <= hpa50.WasteCoreSeconds) {
			t.Errorf("%s wastes %v core-seconds, want at most 1/5.6 of %v and 1/4.3 of %v", law, got.WasteCoreSeconds, hpa20.WasteCoreSeconds, hpa50.WasteCoreSeconds)
		}
		if !(got.MakespanSeconds <= longer*hpa20.MakespanSeconds) || !(got.CostDollars <= hpa20.CostDollars) {
			t.Errorf("%s takes %v s for $%v, want at most %v times %v s for $%v", law, got.MakespanSeconds, got.CostDollars, longer, hpa20.MakespanSeconds, hpa20.CostDollars)
		}
	}
	slow := run("io.csv", "1", "hpa-20")
	for _, law := range []string{"hta", "hta-paper", "supercargo"} {
		if got := run("io.csv", "1", law); !(3.65*got.MakespanSeconds <= slow.MakespanSeconds) {
			t.Errorf("%s takes %v s for I/O-bound tasks, want at most 1/3.65 of %v s", law, got.MakespanSeconds, slow.MakespanSeconds)
		}
	}
}
