package objects

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/test/kit/testfile"
)

const nodeYAML = `- apiVersion: v1
  kind: Node
  metadata:
    name: a
  spec:
    providerID: aws:///us-east-1a/i-1
  status:
    allocatable:
      cpu: "2"
      memory: 8Gi
    images:
    - names:
      - big
`

const podYAML = `- apiVersion: v1
  kind: Pod
  metadata:
    annotations:
      note: |
        - not an item
        kind: List
    name: p
    namespace: shop
  spec:
    containers:
    - name: main
      env:
      - name: X
        value: text
      resources:
        requests:
          cpu: 500m
    nodeName: a
  status:
    conditions:
    - status: "True"
      type: Ready
    containerStatuses:
    - image: x
      name: main
    phase: Running
    startTime: "2026-11-01T12:00:00Z"
`

const listHead, listTail = "apiVersion: v1\nitems:\n", "kind: List\nmetadata:\n  resourceVersion: \"\"\n"

// shortOf summarizes what was read.
func shortOf(o *Objects) []string {
	var all []string
	for i := range o.Nodes {
		n := &o.Nodes[i]
		all = append(all, fmt.Sprintf("node %s %v images %d", n.Name, n.Status.Allocatable.Cpu(), len(n.Status.Images)))
	}
	for i := range o.Pods {
		p := &o.Pods[i]
		all = append(all, fmt.Sprintf("pod %s/%s on %s cpu %v phase %s since %v env %d statuses %d", p.Namespace, p.Name, p.Spec.NodeName,
			p.Spec.Containers[0].Resources.Requests.Cpu(), p.Status.Phase, p.Status.StartTime.UTC().Format("15:04"), len(p.Spec.Containers[0].Env), len(p.Status.ContainerStatuses)))
	}
	return append(all, fmt.Sprintf("budgets %d others %d", len(o.Budgets), o.Others))
}

var bothRead = []string{"node a 2 images 0", "pod shop/p on a cpu 500m phase Running since 12:00 env 0 statuses 0", "budgets 0 others 0"}

func asJSON(t *testing.T, text string) string {
	t.Helper()
	converted, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(converted)
}

func TestWhatKubectlPrintsIsReadInAllItsForms(t *testing.T) {
	list := listHead + nodeYAML + podYAML + listTail
	single := func(item string) string { return strings.ReplaceAll("  "+item[2:], "\n  ", "\n")[2:] }
	tests := map[string]string{
		"a list as YAML":                  list,
		"a list as JSON":                  asJSON(t, list),
		"a list as JSON on many lines":    indented(t, asJSON(t, list)),
		"two lists":                       listHead + nodeYAML + listTail + "---\n" + listHead + podYAML + listTail,
		"two lists as JSON":               asJSON(t, listHead+nodeYAML+listTail) + "\n" + asJSON(t, listHead+podYAML+listTail),
		"single objects":                  "# a comment\n" + single(nodeYAML) + "---\n" + single(podYAML) + "---\n",
		"a list in flow style":            asJSON(t, list) + "\n",
		"a list whose items are indented": listHead + "  " + strings.ReplaceAll(strings.TrimSuffix(nodeYAML+podYAML, "\n"), "\n", "\n  ") + "\n" + listTail,
		"kinds that the lists say":        listHead + strings.Replace(nodeYAML, "- apiVersion: v1\n  kind: Node\n  metadata", "- metadata", 1) + "kind: NodeList\n---\n" + listHead + podYAML + listTail,
		"a list in a list":                asJSON(t, "apiVersion: v1\nkind: List\nitems:\n- kind: List\n  apiVersion: v1\n  items:\n  "+strings.ReplaceAll(strings.TrimSuffix(nodeYAML+podYAML, "\n"), "\n", "\n  ")+"\n"),
		"lines that end as on Windows":    strings.ReplaceAll(list, "\n", "\r\n"),
		"no line break at the end":        strings.TrimSuffix(list, "\n"),
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			o, err := Dump("dump", strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(bothRead, shortOf(o)); diff != "" {
				t.Errorf("read (-want +got):\n%s", diff)
			}
		})
	}
}

func indented(t *testing.T, text string) string {
	t.Helper()
	var value any
	testfile.JSON(t, text, &value)
	pretty, err := json.MarshalIndent(value, "", "    ")
	if err != nil {
		t.Fatal(err)
	}
	return string(pretty)
}

func TestPodsThatHaveEndedAndOtherKindsAreLeftOut(t *testing.T) {
	ended := strings.NewReplacer("name: p\n", "name: q\n", "phase: Running", "phase: Succeeded").Replace(podYAML)
	o, err := Dump("dump", strings.NewReader(listHead+nodeYAML+podYAML+ended+"- apiVersion: v1\n  kind: Secret\n  metadata:\n    name: s\n"+listTail))
	if err != nil {
		t.Fatal(err)
	}
	if len(o.Pods) != 1 || o.Others != 1 {
		t.Errorf("%d pods and %d others, want 1 and 1", len(o.Pods), o.Others)
	}
}

func TestWrongInputIsRefusedByFileAndField(t *testing.T) {
	replace := func(old, with string) string {
		text := listHead + nodeYAML + podYAML + listTail
		if !strings.Contains(text, old) {
			t.Fatalf("there is no %q", old)
		}
		return strings.Replace(text, old, with, 1)
	}
	tests := []struct{ name, text, want string }{
		{"nothing", " \n", "dump: is empty"},
		{"only a comment", "# nothing\n", "dump: has no Node"},
		{"no nodes", listHead + podYAML + listTail, "dump: has no Node"},
		{"no pods", listHead + nodeYAML + listTail, "dump: has no running or pending Pod"},
		{"prose", "error: the server is gone\n", "dump: document 1: kind: is required"},
		{"a list of numbers", "[1, 2]\n", "dump: document 1: is not an object"},
		{"broken YAML", replace("  kind: Pod", "  kind: [Pod"), "dump: items[1]: is not YAML: line 2"},
		{"broken JSON", `{"items":[{"kind":"Node"},`, "dump:1: ends early: items[1]: is not JSON"},
		{"JSON that ends", `{"items":`, "dump:1: ends early: items: is not JSON"},
		{"items that are no JSON", `{"kind":"List","items":[{"kind" "Node"}]}`, "dump: items[0]: is not JSON"},
		{"items that are no list", `{"kind":"List","items":{}}`, "dump: items: is not a list"},
		{"an item that is no object", `{"kind":"List","items":[3]}`, "dump: items[0]: is not a Kubernetes object"},
		{"an item without a kind", replace("  kind: Node\n", ""), "dump: items[0]: kind: is required"},
		{"no name", replace("    name: p\n", ""), `dump: items[1]: Pod: metadata.name: "" is not a valid name`},
		{"a name that is none", replace("    name: a\n", "    name: A_B\n"), `dump: items[0]: Node: metadata.name: "A_B" is not a valid name`},
		{"a pod twice", listHead + nodeYAML + podYAML + podYAML + listTail, "dump: Pod shop/p: metadata.name: is a duplicate"},
		{"an amount that is none", replace("500m", "much"), "dump: Pod shop/p: "},
		{"a negative request", replace("500m", "-1"), `dump: Pod shop/p: spec.containers[0].resources.requests.cpu: "-1" is not a valid amount`},
		{"a node larger than sums can hold", replace("8Gi", "9Pi"), `dump: Node a: status.allocatable.memory: "9Pi" is not a valid amount`},
		{"a field of another type", replace("    nodeName: a", "    nodeName: [a]"), "dump: Pod shop/p: "},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Dump("dump", strings.NewReader(tc.text))
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// TestAListThatEndsEarlyIsRefused cuts a list after each line, as a full disk or a lost connection does. Until its kind has
// been read, it may lack objects.
func TestAListThatEndsEarlyIsRefused(t *testing.T) {
	whole := listHead + nodeYAML + podYAML + strings.ReplaceAll(podYAML, "name: p\n", "name: q\n")
	lines := strings.SplitAfter(strings.TrimSuffix(whole, "\n"), "\n")
	for n := range len(lines) + 1 {
		text := strings.Join(lines[:n], "")
		for _, after := range []string{"", "---\n" + listHead + podYAML + listTail} {
			if _, err := Dump("dump", strings.NewReader(text+after)); err == nil {
				t.Errorf("a list that ends after line %d is read", n)
			}
		}
	}
	_, err := Dump("dump", strings.NewReader(whole))
	if want := fmt.Sprintf("dump:%d: the list ends early: it has no kind, which kubectl prints after the objects", len(lines)); err == nil || err.Error() != want {
		t.Errorf("it says %v, want %s", err, want)
	}
	text := indented(t, asJSON(t, whole+listTail))
	cut := text[:strings.LastIndex(text, `"name": "q"`)]
	_, err = Dump("dump", strings.NewReader(cut))
	if want := fmt.Sprintf("dump:%d: ends early: items[2]: is not JSON: unexpected EOF", strings.Count(cut, "\n")+1); err == nil || err.Error() != want {
		t.Errorf("it says %v, want %s", err, want)
	}
}

func TestACompressedDumpIsNamedAsSuch(t *testing.T) {
	if _, err := Dump("dump.gz", strings.NewReader("\x1f\x8b\x08\x00")); err == nil || !strings.Contains(err.Error(), "dump.gz: is compressed with gzip") {
		t.Errorf("it says %v", err)
	}
}

func TestAnObjectThatIsTooLargeIsRefusedBeforeItIsHeld(t *testing.T) {
	long := strings.Repeat("    x: "+strings.Repeat("y", 100)+"\n", MaxObjectBytes/100)
	for name, text := range map[string]string{"an item": listHead + nodeYAML + long + listTail, "a document": "kind: Node\n" + long} {
		if _, err := Dump("dump", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "is larger than 8388608 bytes") {
			t.Errorf("%s: %v, want a refusal of its size", name, err)
		}
	}
	if _, err := Dump("dump", strings.NewReader("kind: "+strings.Repeat("y", 2<<20))); err == nil || !strings.Contains(err.Error(), "has a line of more than") {
		t.Errorf("a line without end: %v", err)
	}
}

// TestYAMLAndJSONOfTheSameObjectsReadTheSame uses lists of many items, so that several batches are parsed.
func TestYAMLAndJSONOfTheSameObjectsReadTheSame(t *testing.T) {
	for _, pods := range []int{1, 2, 100, mostBatch - 2, mostBatch - 1, mostBatch, mostBatch + 1, 3 * mostBatch / 2} {
		text := listHead + nodeYAML
		for i := range pods {
			text += strings.Replace(podYAML, "name: p\n", fmt.Sprintf("name: p%d\n", i), 1)
		}
		text += listTail
		fromYAML, err := Dump("dump", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		converted, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		fromJSON, err := Dump("dump", strings.NewReader(string(converted)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(fromJSON, fromYAML); diff != "" {
			t.Fatalf("%d pods: JSON and YAML differ (-JSON +YAML):\n%s", pods, diff)
		}
	}
}

// FuzzDump checks that any input is read or rejected.
func FuzzDump(f *testing.F) {
	f.Add(listHead + nodeYAML + podYAML + listTail)
	f.Add(`{"kind":"List","items":[{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}]}`)
	f.Add("items:\n- \n- a\n---\nitems:\n- [")
	f.Fuzz(func(t *testing.T, text string) {
		o, err := Dump("dump", strings.NewReader(text))
		if err != nil && !strings.HasPrefix(err.Error(), "dump:") {
			t.Fatalf("%v does not name the file", err)
		}
		if err == nil && (len(o.Nodes) == 0 || len(o.Pods) == 0) {
			t.Fatal("neither nodes nor pods, and no refusal")
		}
	})
}
