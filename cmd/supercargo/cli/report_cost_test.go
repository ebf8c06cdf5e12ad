package cli

import (
	"encoding/csv"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/test/kit/commandtest"
)

// costDocument has the fields of the report that scripts use.
type costDocument struct {
	By   string
	Rows []struct {
		Name           string
		Pods           int
		DollarsPerHour float64
		Dollars        float64
		Share          float64
	}
	Idle, Total struct{ DollarsPerHour, Dollars float64 }
	Unpriced    []struct{ Node, Reason string }
}

func reportCost(t *testing.T, stdin string, args ...string) costDocument {
	t.Helper()
	code, stdout, stderr := supercargo(t, stdin, append([]string{"report", "cost", "-o", "json"}, args...)...)
	var d costDocument
	if err := json.Unmarshal([]byte(stdout), &d); code != command.ExitOK || err != nil {
		t.Fatalf("exit code %d, %v, %s", code, err, stderr)
	}
	return d
}

// TestReportCostOfADump has nodes of $0.192 and $0.384, of which half of the first is requested.
func TestReportCostOfADump(t *testing.T) {
	d := reportCost(t, auditInput, "-f", "-")
	if d.By != "namespace" || d.Total.DollarsPerHour != 0.576 || len(d.Rows) == 0 || d.Rows[0].Name != "shop" || d.Rows[0].DollarsPerHour != 0.096 || d.Rows[0].Share < 0.16 {
		t.Errorf("the report is %+v", d)
	}
	half := reportCost(t, auditInput, "-f", "-", "--discount", "on-demand=0.5")
	if half.Total.DollarsPerHour != 0.288 {
		t.Errorf("with a discount of a half, the total is %v", half.Total.DollarsPerHour)
	}
	d = reportCost(t, auditInput, "-f", "-", "--by", "label=team")
	if d.By != "label=team" || len(d.Rows) != 1 || d.Rows[0].Name != "" {
		t.Errorf("by a label that no pod has, the report is %+v", d)
	}
	code, stdout, stderr := supercargo(t, auditInput, "report", "cost", "-f", "-")
	if code != command.ExitOK || !strings.Contains(stdout, "Cost per hour now by namespace: $0.576 for 2 nodes") || !strings.Contains(stdout, "Prices: list prices of aws in us-east-1") {
		t.Errorf("exit code %d, printed %s%s", code, stdout, stderr)
	}
}

// TestReportCostOfARecording compares the rows with the bill.
func TestReportCostOfARecording(t *testing.T) {
	const shop = "../../../test/scenarios/shop.csv"
	d := reportCost(t, "", "-f", shop)
	if d.Total.Dollars <= 0 || d.Total.DollarsPerHour != 0 || len(d.Rows) == 0 {
		t.Fatalf("the report is %+v", d)
	}
	code, stdout, stderr := supercargo(t, "", "report", "cost", "-f", shop, "-o", "csv")
	rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
	if code != command.ExitOK || err != nil {
		t.Fatalf("exit code %d, %v, %s", code, err, stderr)
	}
	sum := 0.0
	for _, row := range rows[1:] {
		dollars, err := strconv.ParseFloat(row[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += dollars
	}
	if diff := sum - d.Total.Dollars; !(diff < 1e-9 && diff > -1e-9) {
		t.Errorf("the rows add up to %v, and the total is %v", sum, d.Total.Dollars)
	}
}

func TestReportCostRefusesBadInput(t *testing.T) {
	const shop = "../../../test/scenarios/shop.csv"
	dir := commandtest.Directory(t, map[string]string{"a.yaml": auditInput})
	file := filepath.Join(dir, "a.yaml")
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"another group":                 {[]string{"-f", file, "--by", "pod"}, `--by "pod": must be namespace or label=KEY`},
		"no label":                      {[]string{"-f", file, "--by", "label=a b"}, `--by "label=a b": is not the key of a label`},
		"another format":                {[]string{"-f", file, "-o", "yaml"}, `--output "yaml": must be table, json or csv`},
		"a file and a cluster":          {[]string{"-f", file, "--context", "c"}, "--context and -f are mutually exclusive"},
		"a label of a recording":        {[]string{"-f", shop, "--by", "label=team"}, "is a recording, which has no labels of pods: use --by namespace"},
		"list prices of a recording":    {[]string{"-f", shop, "--region", "us-east-1"}, "--region: " + shop + " is a recording, which has prices"},
		"a file that does not exist":    {[]string{"-f", filepath.Join(dir, "none")}, "none"},
		"a file that is something else": {[]string{"-f", commandtest.File(t, "a,b\n1,2\n")}, ""},
	} {
		code, stdout, stderr := supercargo(t, "", append([]string{"report", "cost"}, tc.args...)...)
		if code != command.ExitUsage || stdout != "" || !strings.Contains(stderr, tc.want) {
			t.Errorf("%s: exit code %d, printed %q and %q", name, code, stdout, stderr)
		}
	}
}
