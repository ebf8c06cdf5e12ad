package cli

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/lab/rightsize"
	"supercargo.dev/supercargo/test/kit/commandtest"
)

// rightsizeFiles are the input of a replay: a uses 1 of 4 all day, b 2 of 4, and in the second half 3 of 4.
func rightsizeFiles() map[string]string {
	var cpu strings.Builder
	cpu.WriteString("t_s,a,b\n")
	for i := range 24 {
		use := "1,2"
		if i >= 18 {
			use = "1,3"
		}
		cpu.WriteString(strconv.Itoa(3600*i) + "," + use + "\n")
	}
	return map[string]string{
		"cpu.csv":      cpu.String(),
		"entities.csv": "entity,cpu_requested,mem_requested,start_s,end_s,class\na,4,1024,,,web\nb,4,1024,,,web\n",
		"flavors.csv":  "name,cpu,memory_gib,price_per_hour\nsmall,4,8,0.1\n",
	}
}

// rightsizeInput returns a command line for these files, of which others replace some.
func rightsizeInput(t *testing.T, others map[string]string, flags ...string) []string {
	t.Helper()
	files := rightsizeFiles()
	maps.Copy(files, others)
	dir := commandtest.Directory(t, files)
	return append([]string{
		"rightsize", "--use", filepath.Join(dir, "cpu.csv"), "--entities", filepath.Join(dir, "entities.csv"),
		"--flavors", filepath.Join(dir, "flavors.csv"), "--train-until", "43200", "-o", "json",
	}, flags...)
}

// TestRightsizeSaysWhatWasUsedAndWhatItCost on what one can compute by hand: requests of 4 need two machines, and what
// was used all day fits one.
func TestRightsizeSaysWhatWasUsedAndWhatItCost(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := supercargo(t, "", rightsizeInput(t, nil)...)
	if code != command.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var got rightsize.Document
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"requests", "vpa", "percentile", "supercargo"} {
		if got.Policies[i].Name != name {
			t.Errorf("policy %d is %q, want %q", i, got.Policies[i].Name, name)
		}
	}
	if p := got.Policies[0]; p.Machines != 2 || p.DollarsPerHour != 0.2 || p.Overload != (rightsize.Shares{}) || p.Moves+p.Resizes != 0 {
		t.Errorf("requests as they are: %+v, want two machines for $0.20, and nothing else", p)
	}
	if p := got.Policies[3]; p.DollarsPerHour >= 0.2 || p.Overload.CPU > 0.01 {
		t.Errorf("at a stated risk: %+v, want less than $0.20 and no overload", p)
	}
	if got.Measured != (rightsize.Measured{CPU: true}) || got.JudgedIntervals != 12 || got.Entities != 2 {
		t.Errorf("measured %+v in %d intervals of %d entities, want CPU in 12 of 2", got.Measured, got.JudgedIntervals, got.Entities)
	}
}

func TestRightsizeRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		others map[string]string
		flags  []string
		want   string
	}{
		{"no learned part", nil, []string{"--train-until", "0"}, "--train-until 0: must be seconds above 0"},
		{"nothing to judge", nil, []string{"--train-until", "90000"}, "--train-until: must be within the trace"},
		{"no risk", nil, []string{"--risk-cpu", "0"}, "--risk-cpu 0: must be from 0.000001 to 0.25"},
		{"a risk that is no number", nil, []string{"--risk-memory", "NaN"}, "--risk-memory NaN: must be"},
		{"three files of use", nil, []string{"--use", "a,b,c"}, "must be one file, or that of CPU and that of memory"},
		{"no file", nil, []string{"--use", "nowhere.csv"}, "nowhere.csv"},
		{"a format", nil, []string{"-o", "yaml"}, `--output "yaml": must be table or json`},
		{"a cell", map[string]string{"cpu.csv": "t_s,a,b\n0,1,1\n3600,much,1\n7200,1,1\n"}, nil, "cpu.csv:3"},
		{"a stranger", map[string]string{"entities.csv": "entity,cpu_requested,mem_requested\na,1,1\n"}, nil, `the column "b"`},
		{"several faults at once", map[string]string{"flavors.csv": "name,cpu,memory_gib,price_per_hour\nx,0,8,0.1\n", "entities.csv": "entity,cpu_requested,mem_requested\n,1,1\n"}, nil, "flavors.csv:2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := supercargo(t, "", rightsizeInput(t, tc.others, tc.flags...)...)
			if code != command.ExitUsage || stdout != "" || !strings.Contains(stderr, tc.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q, want 2, nothing and %q", code, stdout, stderr, tc.want)
			}
		})
	}
	code, _, stderr := supercargo(t, "", "rightsize")
	for _, flag := range []string{"use", "entities", "flavors", "train-until"} {
		if code != command.ExitUsage || !strings.Contains(stderr, "--"+flag) {
			t.Errorf("exit code %d and %q, want 2 and --%s named", code, stderr, flag)
		}
	}
}

func TestAnEntityThatNoFlavorHoldsEndsTheReplay(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := supercargo(t, "", rightsizeInput(t, map[string]string{"flavors.csv": "name,cpu,memory_gib,price_per_hour\nsmall,3,8,0.1\n"})...)
	if code != command.ExitFailed || stdout != "" || !strings.Contains(stderr, `policy requests: entity "a"`) {
		t.Errorf("exit code %d, stdout %q, stderr %q, want 1, nothing and the entity named", code, stdout, stderr)
	}
}
