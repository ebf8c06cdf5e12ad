package adopt

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/pricelist"
	"supercargo.dev/supercargo/internal/input/manifest"
	"supercargo.dev/supercargo/test/kit/testfile"
)

const aFile = `
apiVersion: v1
kind: List
items:
- {apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: b}, spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}}}}
- {apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: a}, spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}}}}
- {apiVersion: v1, kind: Node, metadata: {name: node-1, labels: {topology.kubernetes.io/zone: us-east-1c, topology.kubernetes.io/region: us-east-1}}}
- {apiVersion: v1, kind: Node, metadata: {name: m}}
- {apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: default}, status: {subnets: [{zone: us-east-1b}, {zone: us-east-1a}, {zone: us-east-1b}, {}]}}
- {apiVersion: example.com/v1, kind: Other, metadata: {name: x}, status: {subnets: 7}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: x}}
`

func gatherText(t *testing.T, text string, want Wanted) (*Source, *Around, error) {
	t.Helper()
	objects, err := Read("f.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return Gather(objects, &want)
}

func namesIn(all []Object) (names []string) {
	for _, o := range all {
		names = append(names, o.Fields["metadata"].(map[string]any)["name"].(string))
	}
	return names
}

func TestWhatIsWantedIsGathered(t *testing.T) {
	source, around, err := gatherText(t, aFile, Wanted{Pools: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b", "a"}, namesIn(source.Pools)); diff != "" || len(source.OtherPools) > 0 || len(source.Groups) > 0 {
		t.Errorf("others are %v; NodePools (-want +got):\n%s", source.OtherPools, diff)
	}
	want := &Around{Region: "us-east-1", Zones: []string{"us-east-1c"}, ClassZones: map[string][]string{"EC2NodeClass/default": {"us-east-1a", "us-east-1b"}}}
	if diff := cmp.Diff(want, around); diff != "" {
		t.Errorf("around (-want +got):\n%s", diff)
	}
	source, _, err = gatherText(t, aFile, Wanted{Pools: true, Names: []string{"b"}})
	if err != nil || len(source.Pools) != 1 || len(source.OtherPools) != 1 || source.OtherPools[0] != "a" {
		t.Errorf("of one NodePool: %v beside %v (%v)", namesIn(source.Pools), source.OtherPools, err)
	}
	two := aFile + "- {apiVersion: v1, kind: Node, metadata: {name: o, labels: {topology.kubernetes.io/region: us-east-2}}}\n"
	if _, around, err := gatherText(t, two, Wanted{Pools: true}); err != nil || around.Region != "" {
		t.Errorf("of two regions %q is taken (%v), want none", around.Region, err)
	}
}

func TestMachineDeploymentsAreGatheredByNamespaceAndLabels(t *testing.T) {
	all := []Object{aGroup(DeploymentKind, "a", ""), aGroup(DeploymentKind, "far/b", ""), aGroup(MachinePool, "c", ""), {Where: "x", Fields: map[string]any{
		"apiVersion": "example.com/v1", "kind": DeploymentKind, "metadata": map[string]any{"name": "d", "namespace": "capi"},
	}}}
	for _, tc := range []struct {
		want  Wanted
		names string
	}{
		{Wanted{Groups: true}, "a b c"},
		{Wanted{Groups: true, Namespace: "far"}, "b"},
		{Wanted{Groups: true, Selector: "name!=a"}, "b c"},
		{Wanted{Groups: true, Namespace: "capi", Selector: "name in (a,b),pool"}, "a"},
		{Wanted{Pools: true}, ""},
	} {
		source, _, err := Gather(all, &tc.want)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.names, strings.Join(namesIn(source.Groups), " ")); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tc.want, diff)
		}
	}
	if _, _, err := Gather(all, &Wanted{Groups: true, Selector: "a ~ b"}); err == nil || !strings.HasPrefix(err.Error(), `selector "a ~ b": `) {
		t.Errorf("a selector that is none: %v", err)
	}
}

func TestWrongFilesAreRefusedByFileAndObject(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", "f.yaml: is empty: must be the output of kubectl get nodepools -o yaml"},
		{"# nothing\n", "f.yaml: is empty"},
		{"prose", "f.yaml: document 1: "},
		{"kind: NodePool\n", "f.yaml: document 1: apiVersion and kind are required"},
		{"{apiVersion: karpenter.sh/v1, kind: NodePool}", "f.yaml: document 1: NodePool: metadata.name is required"},
		{strings.Replace(aFile, "karpenter.sh/v1, kind: NodePool, metadata: {name: a}", "karpenter.sh/v1beta1, kind: NodePool, metadata: {name: a}", 1),
			"f.yaml: document 1: NodePool a: apiVersion: karpenter.sh/v1beta1 must be karpenter.sh/v1: upgrade Karpenter"},
		{strings.Replace(aFile, "name: a}", "name: b}", 1), "f.yaml: document 1: NodePool b: metadata.name: is a duplicate"},
		{strings.Replace(aFile, "{name: a}, spec: {", "{name: a}, spec: {weight: [], ", 1), "f.yaml: document 1: NodePool a: spec.weight: is a array, must be of type int32"},
		{"{apiVersion: v1, kind: Node, metadata: {name: node-1, labels: [x]}}", "f.yaml: document 1: Node node-1: metadata.labels: is a array, must be of type object"},
		{"{apiVersion: v1, kind: Node, metadata: {name: node-1}}", "there is nothing to adopt: no NodePool, and no MachineDeployment with the annotation"},
	} {
		err := adoptText(tc.text)
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%.60q: %v, want %s", tc.text, err, tc.want)
		}
	}
	_, _, err := gatherText(t, aFile, Wanted{Pools: true, Names: []string{"c", "b"}})
	if err == nil || err.Error() != "NodePool c does not exist: there are a" {
		t.Errorf("a NodePool that does not exist: %v", err)
	}
}

// adoptText adopts all of a file.
func adoptText(text string) error {
	objects, err := Read("f.yaml", strings.NewReader(text))
	if err != nil {
		return err
	}
	source, around, err := Gather(objects, &Wanted{Pools: true, Groups: true})
	if err != nil {
		return err
	}
	_, err = Convert(source, around)
	return err
}

// TestAFileMayBeOfAnyLengthUpToALimit reads no further than that.
func TestAFileMayBeOfAnyLengthUpToALimit(t *testing.T) {
	endless := &zeros{}
	if _, err := Read("f.yaml", endless); err == nil || !strings.HasPrefix(err.Error(), "f.yaml: is larger than") || endless.read > MostBytes+(1<<20) {
		t.Errorf("after %d bytes: %v", endless.read, err)
	}
}

// zeros is an endless comment.
type zeros struct{ read int }

func (z *zeros) Read(into []byte) (int, error) {
	for i := range into {
		into[i] = '#'
	}
	z.read += len(into)
	return len(into), nil
}

// checkDocument checks what holds for every document: it is the same again, its YAML is read by kubectl as the same
// objects, and these are NodeFleets of known fields.
func checkDocument(t *testing.T, d *Document) {
	t.Helper()
	var printed bytes.Buffer
	if err := d.Write(&printed); err != nil {
		t.Fatal(err)
	}
	read, err := manifest.Parse("printed", bytes.NewReader(printed.Bytes()))
	if err != nil {
		t.Fatalf("%v\n%s", err, printed.String())
	}
	if len(read) != len(d.Items) {
		t.Fatalf("%d objects are read, want %d:\n%s", len(read), len(d.Items), printed.String())
	}
	for i, m := range read {
		text, err := json.Marshal(m.Object.Object)
		if err != nil {
			t.Fatal(err)
		}
		var fleet v1alpha1.NodeFleet
		testfile.StrictYAML(t, text, &fleet)
		var same Fleet
		testfile.StrictYAML(t, text, &same)
		if one, other := marshal(t, same), marshal(t, d.Items[i]); one != other {
			t.Fatalf("it reads as %s, want %s", one, other)
		}
		if fleet.Spec.Mode != v1alpha1.FleetObserve {
			t.Fatalf("NodeFleet %s is in mode %s", fleet.Name, fleet.Spec.Mode)
		}
	}
}

func marshal(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPublishedNodePoolsAreReadAsTheyArePrinted(t *testing.T) {
	for _, file := range published(t) {
		checkDocument(t, adoptFile(t, file))
	}
}

// TestTextOfObjectsStaysInComments: values with line breaks do not become part of the manifest.
func TestTextOfObjectsStaysInComments(t *testing.T) {
	pool := aPool("{}")
	pool["spec"].(map[string]any)["template"].(map[string]any)["metadata"] = map[string]any{"annotations": map[string]any{
		"note": "a\nkind: Secret\r\n---\u2028apiVersion: v1\u0085x", "long": strings.Repeat("word ", 100) + strings.Repeat("x", 300),
	}}
	d, err := Convert(&Source{Pools: []Object{{Where: "p", Fields: pool}}}, known)
	if err != nil {
		t.Fatal(err)
	}
	checkDocument(t, d)
	var b bytes.Buffer
	if err := d.Write(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(b.String(), "\n") {
		if comment := strings.HasPrefix(line, "#"); comment && len(line) > columns+2 && !strings.Contains(line, "kubectl") && !strings.Contains(line, "xxx") {
			t.Errorf("a comment of %d columns: %s", len(line), line)
		}
	}
}

// FuzzAdopt checks that any file is adopted or refused with the name of the file or of the object.
func FuzzAdopt(f *testing.F) {
	for _, file := range published(f) {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(aFile)
	f.Add(everyField)
	f.Add(marshalGroup(sizes + ", " + priced))
	f.Fuzz(func(t *testing.T, text string) {
		objects, err := Read("f.yaml", strings.NewReader(text))
		if err != nil {
			if !strings.Contains(err.Error(), "f.yaml") {
				t.Fatalf("%v does not name the file", err)
			}
			return
		}
		source, around, err := Gather(objects, &Wanted{Pools: true, Groups: true})
		if err != nil {
			if !strings.Contains(err.Error(), "f.yaml") {
				t.Fatalf("%v does not name the file", err)
			}
			return
		}
		around.Prices = pricelist.Read
		d, err := Convert(source, around)
		if err != nil {
			return
		}
		checkDocument(t, d)
	})
}

func marshalGroup(annotations string) string {
	text, err := json.Marshal(aGroup(DeploymentKind, "a", annotations).Fields)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func TestSelectorsAreThoseOfKubectl(t *testing.T) {
	for text, want := range map[string]string{
		"":                "{}",
		"a=b":             `{"matchLabels":{"a":"b"}}`,
		"a==b,c=d":        `{"matchLabels":{"a":"b","c":"d"}}`,
		"a=b,a=c":         `{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"a","operator":"In","values":["c"]}]}`,
		"a!=b":            `{"matchExpressions":[{"key":"a","operator":"NotIn","values":["b"]}]}`,
		"a in (c,b),!d,e": `{"matchExpressions":[{"key":"a","operator":"In","values":["b","c"]},{"key":"d","operator":"DoesNotExist"},{"key":"e","operator":"Exists"}]}`,
		"a notin (b)":     `{"matchExpressions":[{"key":"a","operator":"NotIn","values":["b"]}]}`,
	} {
		s, err := ParseSelector(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := marshal(t, s); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
	if _, err := ParseSelector("a>3"); err == nil || err.Error() != `selector "a>3": gt: must use =, ==, !=, in, notin or no operator` {
		t.Errorf("a comparison: %v", err)
	}
}
