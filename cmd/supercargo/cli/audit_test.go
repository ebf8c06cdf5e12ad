package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/test/kit/commandtest"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// auditDump is a node that is half full and a larger one that is empty, with a pod whose name is
// invalid.
const auditDump = `apiVersion: v1
items:
- apiVersion: v1
  kind: Node
  metadata:
    labels: {node.kubernetes.io/instance-type: m5.xlarge, kubernetes.io/arch: amd64, kubernetes.io/os: linux, topology.kubernetes.io/region: us-east-1}
    name: half
  spec:
    providerID: aws:///us-east-1a/i-1
  status:
    allocatable: {cpu: 3920m, memory: 14Gi, pods: "58"}
    conditions:
    - {type: Ready, status: "True"}
- apiVersion: v1
  kind: Node
  metadata:
    labels: {node.kubernetes.io/instance-type: m5.2xlarge, kubernetes.io/arch: amd64, kubernetes.io/os: linux, topology.kubernetes.io/region: us-east-1}
    name: idle
  spec:
    providerID: aws:///us-east-1a/i-2
  status:
    allocatable: {cpu: 7910m, memory: 29Gi, pods: "58"}
    conditions:
    - {type: Ready, status: "True"}
- apiVersion: metrics.k8s.io/v1beta1
  kind: NodeMetrics
  metadata:
    name: half
  usage: {cpu: 392m, memory: 7Gi}
- apiVersion: v1
  kind: Pod
  metadata:
    name: web-<b>
    namespace: shop
  spec:
    containers:
    - name: main
      resources:
        requests: {cpu: 1960m, memory: 7Gi}
    nodeName: half
  status:
    phase: Running
kind: List
`

var auditInput = strings.Replace(auditDump, "web-<b>", "web", 1)

func TestAuditPrintsTheSameAsTableJSONAndPage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "audit.html")
	code, stdout, stderr := supercargo(t, auditInput, "audit", "--from", "-", "--report", page, "-o", "json")
	if code != command.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var d audit.Result
	if err := json.Unmarshal([]byte(stdout), &d); err != nil {
		t.Fatal(err)
	}
	if d.Now.PerHour != 576_000 || d.Moved.PerHour != 192_000 || d.Now.PerMonth != 420_480_000 || d.Source != "list prices of aws in us-east-1" {
		t.Errorf("now %v, moved %v, a month %v, %s; want 0.576, 0.192, 420.48 by the list", d.Now.PerHour.Dollars(), d.Moved.PerHour.Dollars(), d.Now.PerMonth.Dollars(), d.Source)
	}
	if diff := cmp.Diff([]string{"idle"}, d.Emptied); diff != "" {
		t.Errorf("emptied (-want +got):\n%s", diff)
	}
	if d.Used == nil || d.Used.CPU != 0.1 || d.Used.Memory != 0.5 || d.Used.Nodes != 1 {
		t.Errorf("used %+v, want a tenth and a half of one node", d.Used)
	}
	html := testfile.Read(t, page)
	code, table, stderr := supercargo(t, auditInput, "audit", "--from", "-")
	if code != command.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{"Both nodes priced: the cluster costs $0.58 an hour", "0.19", "no controller", "Pod shop/web", "nothing: it is empty and can be released now"} {
		for name, text := range map[string]string{"table": table, "page": string(html)} {
			if !strings.Contains(text, want) {
				t.Errorf("the %s does not say %q:\n%s", name, want, text)
			}
		}
	}
	for _, never := range []string{"<script", "http://", "https://"} {
		if strings.Contains(string(html), never) {
			t.Errorf("the page has %q", never)
		}
	}
}

func TestAuditTakesPricesOfOnesOwn(t *testing.T) {
	spot := strings.Replace(auditInput, "node.kubernetes.io/instance-type: m5.xlarge,", "node.kubernetes.io/instance-type: m5.xlarge, karpenter.sh/capacity-type: spot,", 1)
	for _, tc := range []struct {
		name, stdin, prices string
		want                float64
	}{
		{"on demand", auditInput, "name,cpu,memory_gib,price_per_hour\nm5.xlarge,3.92,14,0.1\n", 0.484},
		{"of spot machines", spot, "name,cpu,memory_gib,price_per_hour,spot_price_per_hour\nm5.xlarge,3.92,14,0.1,0.03\n", 0.414},
		{"none of spot machines", spot, "name,cpu,memory_gib,price_per_hour\nm5.xlarge,3.92,14,0.1\n", 0.384},
	} {
		prices := filepath.Join(commandtest.Directory(t, map[string]string{"p.csv": tc.prices}), "p.csv")
		_, stdout, stderr := supercargo(t, tc.stdin, "audit", "--from", "-", "--prices", prices, "-o", "json")
		var d audit.Result
		if err := json.Unmarshal([]byte(stdout), &d); err != nil {
			t.Fatalf("%s: %v: %s", tc.name, err, stderr)
		}
		if d.Now.PerHour.Dollars() != tc.want {
			t.Errorf("%s: now %v, want %v", tc.name, d.Now.PerHour.Dollars(), tc.want)
		}
	}
}

func TestAuditRefusesWrongInputByFlagFileAndField(t *testing.T) {
	dir := commandtest.Directory(t, map[string]string{"bad.csv": "name,cpu,memory_gib,price_per_hour\na,1,1,x\n"})
	tests := []struct {
		name, stdin string
		args        []string
		want        string
	}{
		{"a file that is not there", "", []string{"--from", "/none"}, "-f: open /none"},
		{"wrong input", auditDump, []string{"--from", "-"}, `stdin: items[3]: Pod: metadata.name: "web-<b>" is not a valid name`},
		{"a price that is none", auditInput, []string{"--from", "-", "--prices", filepath.Join(dir, "bad.csv")}, "price_per_hour"},
		{"a dump and a cluster", auditInput, []string{"--from", "-", "--context", "x"}, "--context and -f are mutually exclusive"},
		{"an unknown format", auditInput, []string{"--from", "-", "-o", "xml"}, `--output "xml"`},
		{"a folder for a report", auditInput, []string{"--from", "-", "--report", dir}, "--report: "},
		{"fewer than no obstacles", auditInput, []string{"--from", "-", "--obstacles", "-1"}, "--obstacles -1"},
		{"a discount of an unknown capacity type", auditInput, []string{"--from", "-", "--discount", "reserved=0.3"}, "--discount reserved: is not a capacity type: must be on-demand or spot"},
		{"a discount in percent", auditInput, []string{"--from", "-", "--discount", "spot=65"}, "--discount spot=65: must be a fraction from 0 to less than 1"},
		{"a discount that is no number", auditInput, []string{"--from", "-", "--discount", "spot=NaN"}, "--discount spot=NaN: must be a fraction"},
		{"a region without a list", auditInput, []string{"--from", "-", "--region", "eu-west-1"}, `--region "eu-west-1": no list prices of it are included: must be one of us-east-1 (aws)`},
		{"an architecture that does not exist", auditInput, []string{"--from", "-", "--arch", "x86"}, `--arch "x86": must be amd64, arm64`},
		{"a negative price of a CPU", auditInput, []string{"--from", "-", "--default-price-per-cpu-hour", "-1"}, "--default-price-per-cpu-hour -1: must be from 0 to 1000 dollars"},
		{"a label that is none", auditInput, []string{"--from", "-", "--by-label", "a b"}, `--by-label "a b": is not the key of a label`},
		{"a report of an unknown format", auditInput, []string{"--from", "-", "--report", filepath.Join(dir, "a.pdf")}, `the format ".pdf" is unknown: must end in .html, .md or .csv`},
		{"a deadline in the past", auditInput, []string{"--from", "-", "--deadline", "-1s"}, "--deadline -1s"},
		{"a kubeconfig that is not there", "", []string{"--kubeconfig", "/none"}, "load the kubeconfig: "},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := supercargo(t, tc.stdin, append([]string{"audit"}, tc.args...)...)
			if code != command.ExitUsage || stdout != "" || !strings.Contains(stderr, tc.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want 2, nothing and %q", code, stdout, stderr, tc.want)
			}
		})
	}
}

func TestTheFirstLineOfAnAuditSaysHowManyNodesArePriced(t *testing.T) {
	partly := strings.Replace(auditInput, "kind: List\n", unknownNode, 1)
	none := "apiVersion: v1\nitems:\n" + unknownNode
	for _, tc := range []struct {
		name, dump, want string
		args             []string
		never            []string
	}{
		{"all", auditInput, "Both nodes priced: the cluster costs $0.58 an hour, $420 a month, and runs 1 pod.", nil, nil},
		{"some", partly, "2 of 3 nodes priced: they cost $0.58 an hour, $420 a month, and run 1 of 2 pods. No sum includes the other node.", nil, nil},
		{"none", none, "0 of 1 node priced: what the cluster costs is unknown.", nil, []string{"0.00", "prevents", "COST BY"}},
		{"none, with default prices", none, "The only node is priced: the cluster costs $0.15 an hour, $111 a month, and runs 1 pod.",
			[]string{"--default-price-per-cpu-hour", "0.03", "--default-price-per-gib-hour", "0.004"}, []string{"no known price"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, table, stderr := supercargo(t, tc.dump, append([]string{"audit", "--from", "-"}, tc.args...)...)
			first, _, _ := strings.Cut(table, "\n")
			if code != command.ExitOK || first != tc.want {
				t.Errorf("exit code %d, %s: %q, want %q", code, stderr, first, tc.want)
			}
			for _, never := range tc.never {
				if strings.Contains(table, never) {
					t.Errorf("the table has %q:\n%s", never, table)
				}
			}
		})
	}
}

func TestAReportIsWrittenInTheFormatOfItsName(t *testing.T) {
	for name, want := range map[string]string{
		"a.html": "<!doctype html>", "a.md": "# Audit of a Kubernetes cluster\n\n**Both nodes priced", "a.csv": "section,name,instance_type,", "a": "<!doctype html>",
	} {
		file := filepath.Join(t.TempDir(), name)
		if code, _, stderr := supercargo(t, auditInput, "audit", "--from", "-", "--report", file); code != command.ExitOK {
			t.Fatalf("%s: exit code %d: %s", name, code, stderr)
		}
		if text := string(testfile.Read(t, file)); !strings.HasPrefix(text, want) {
			t.Errorf("%s begins %.80q, want %q", name, text, want)
		}
	}
}
