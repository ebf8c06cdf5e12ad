//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// TestSimulateGivesTheSameBytesOnAnyNumberOfProcessors runs an experiment of HTAS.
func TestSimulateGivesTheSameBytesOnAnyNumberOfProcessors(t *testing.T) {
	dir := t.TempDir()
	simulate := func(processors string) (stdout, placements, report string) {
		t.Helper()
		p, r := filepath.Join(dir, "placements-"+processors+".csv"), filepath.Join(dir, "report-"+processors+".html")
		cmd := exec.Command(binary(t, "supercargo"), "simulate", "-f", "../scenarios/htas-on-off.yaml", "-o", "json", "--deterministic",
			"--placements", p, "--report", r)
		cmd.Env = append(os.Environ(), "GOMAXPROCS="+processors)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("on %s processors: %v\n%s", processors, err, &errs)
		}
		if n := strings.Count(errs.String(), "\n"); n != 6 || !strings.Contains(errs.String(), "seed 1, policy htas: simulated in ") {
			t.Errorf("on %s processors stderr is %q, want a line for each of six policies", processors, &errs)
		}
		return string(out), readFile(t, p), readFile(t, r)
	}
	stdout, placements, report := simulate("1")
	again, placementsAgain, reportAgain := simulate("2")
	if stdout != again || placements != placementsAgain || report != reportAgain {
		t.Errorf("two processors give other results than one: output %t, placements %t, report %t the same",
			stdout == again, placements == placementsAgain, report == reportAgain)
	}

	var document struct {
		Scenario string
		Policies []struct {
			Name              string
			CostDollars       float64
			LowerBoundDollars float64
			Pods              struct{ Submitted, Scheduled, Pending int }
		}
	}
	testfile.JSON(t, stdout, &document)
	if document.Scenario != "htas-on-off" || len(document.Policies) != 6 {
		t.Fatalf("scenario %s with %d policies, want htas-on-off with 6", document.Scenario, len(document.Policies))
	}
	for _, p := range document.Policies {
		if p.Pods.Pending != 0 || p.Pods.Scheduled != p.Pods.Submitted || p.Pods.Submitted == 0 || p.CostDollars < p.LowerBoundDollars {
			t.Errorf("policy %s: pods %+v, $%v of $%v at least", p.Name, p.Pods, p.CostDollars, p.LowerBoundDollars)
		}
	}
	if !strings.HasPrefix(placements, "time_s,pod,node,flavor,reason") || !strings.Contains(report, "</html>") {
		t.Error("the files are not whole")
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content := testfile.Read(t, path)
	return string(content)
}
