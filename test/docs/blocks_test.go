package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	promconfig "github.com/prometheus/common/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	kustomize "sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	adapterv1alpha1 "supercargo.dev/supercargo/api/adapter/v1alpha1"
	_ "supercargo.dev/supercargo/api/config/v1" // registers the arguments of the plugins
	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/tariff"
	"supercargo.dev/supercargo/internal/input/catalogue"
	promqlsource "supercargo.dev/supercargo/internal/platform/promql/source"
	"supercargo.dev/supercargo/lab/playground/machines"
	"supercargo.dev/supercargo/test/docs/commands"
)

// unchecked marks a block that has no schema here; the mark stands above it, with the reason.
var unchecked = regexp.MustCompile(`^<!-- not checked: (.+) -->$`)

// These match the first lines of blocks of YAML, JSON and CSV.
var (
	yamlLine = regexp.MustCompile(`^(- )?[A-Za-z][A-Za-z0-9_./-]*:(\s|$)`)
	jsonLine = regexp.MustCompile(`^[{\[]`)
	csvLine  = regexp.MustCompile(`^\w+(,\w+)+$`)
)

// TestBlocksOfDataAreValid holds every block of YAML, JSON and CSV against the types, the schema or the reader of what it
// configures.
func TestBlocksOfDataAreValid(t *testing.T) {
	checked, skipped := 0, []string{}
	for _, p := range pages(t) {
		if p.name != "README.md" && !strings.HasPrefix(p.name, "docs/") && !strings.HasPrefix(p.name, "manifests/") {
			continue
		}
		lines := strings.Split(p.text, "\n")
		for _, b := range commands.Others(p.text) {
			first := firstLineOf(b.Text)
			if !yamlLine.MatchString(first) && !jsonLine.MatchString(first) && !csvLine.MatchString(first) {
				continue
			}
			if mark := unchecked.FindStringSubmatch(above(lines, b.Line)); mark != nil {
				skipped = append(skipped, fmt.Sprintf("%s:%d: %s", p.name, b.Line, mark[1]))
				continue
			}
			if err := checkBlock(first, []byte(b.Text)); err != nil {
				t.Errorf("%s:%d: %v", p.name, b.Line, err)
			}
			checked++
		}
	}
	t.Logf("%d blocks are valid, %d are not checked:\n%s", checked, len(skipped), strings.Join(skipped, "\n"))
	if checked < 15 {
		t.Errorf("found only %d blocks", checked)
	}
	if len(skipped) > 3 {
		t.Errorf("%d blocks are not checked, want at most 3", len(skipped))
	}
}

// firstLineOf returns the first line of a block that is not empty and not a comment.
func firstLineOf(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return ""
}

// above returns the last line before a block that is neither empty nor a fence.
func above(lines []string, line int) string {
	for i := line - 2; i >= 0; i-- {
		if text := strings.TrimSpace(lines[i]); text != "" && !strings.HasPrefix(text, "```") {
			return text
		}
	}
	return ""
}

func checkBlock(first string, text []byte) error {
	if csvLine.MatchString(first) {
		return checkCSV(first, string(text))
	}
	var object map[string]any
	if err := yaml.UnmarshalStrict(text, &object); err != nil {
		return err
	}
	if bytes.HasSuffix(bytes.TrimSpace(text), []byte(":")) {
		return errors.New("the last key has no value: a line of the block is not indented")
	}
	if object["kind"] != nil {
		return checkObject(text)
	}
	var keys []string
	for key := range object {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, f := range fragments {
		if slices.Contains(f.keys, keys[0]) {
			return f.check(text)
		}
	}
	return checkValues(object)
}

// fragments are parts of files, by their keys. All others are values of the Helm chart.
var fragments = []struct {
	keys  []string
	check func(text []byte) error
}{
	{[]string{"clusterAPI", "pricing"}, strictly[v1alpha1.NodeFleetSpec]},
	{[]string{"presets", "workQueues"}, strictly[adapterv1alpha1.MetricsAdapterConfiguration]},
	{[]string{"containers"}, strictly[corev1.PodSpec]},
	{[]string{"sources"}, func(text []byte) error { _, err := promqlsource.Parse(text); return err }},
	{[]string{"basic_auth"}, func(text []byte) error { _, err := promconfig.LoadHTTPConfig(string(text)); return err }},
	{[]string{"pluginConfig"}, func(text []byte) error {
		profile := "- schedulerName: s\n  " + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n  ")
		return checkObject([]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n" + profile + "\n"))
	}},
}

// strictly decodes YAML without unknown or repeated fields.
func strictly[T any](text []byte) error { return yaml.UnmarshalStrict(text, new(T)) }

// checkObject decodes an object strictly, as its type.
func checkObject(text []byte) error {
	var of struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(text, &of); err != nil {
		return err
	}
	kind := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind)
	switch kind.Group {
	case "kubescheduler.config.k8s.io":
		_, _, err := schedulerscheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
		return err
	case "kustomize.config.k8s.io":
		return strictly[kustomize.Kustomization](text)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, adapterv1alpha1.AddToScheme, machines.AddToScheme, clientgoscheme.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	_, _, err := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer().Decode(text, nil, nil)
	return err
}

// schemaOfValues returns the schema of the values of the Helm chart, with definitions in place of references.
func schemaOfValues() (map[string]any, error) {
	text, err := os.ReadFile(filepath.Join(root, "manifests/helm/supercargo/values.schema.json"))
	if err != nil {
		return nil, err
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	definitions, _ := all["definitions"].(map[string]any)
	delete(all, "definitions")
	return resolved(all, definitions).(map[string]any), nil
}

// checkValues holds values against the schema of the Helm chart.
func checkValues(values map[string]any) error {
	all, err := schemaOfValues()
	if err != nil {
		return err
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	var s spec.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	return validate.NewSchemaValidator(&s, nil, "values", strfmt.Default).Validate(values).AsError()
}

// resolved returns a part of a JSON schema with its definitions in place of references to them. A property that is
// forbidden has the schema false, which the validator does not read; "not" anything is the same.
func resolved(part any, definitions map[string]any) any {
	switch part := part.(type) {
	case map[string]any:
		if ref, is := part["$ref"].(string); is {
			return resolved(definitions[strings.TrimPrefix(ref, "#/definitions/")], definitions)
		}
		out := maps.Clone(part)
		for key, value := range out {
			if out[key] = resolved(value, definitions); value == false && key != "additionalProperties" {
				out[key] = map[string]any{"not": map[string]any{}}
			}
		}
		return out
	case []any:
		out := slices.Clone(part)
		for i := range out {
			out[i] = resolved(out[i], definitions)
		}
		return out
	}
	return part
}

// checkCSV reads a table as the command does that has its columns.
func checkCSV(header, text string) error {
	in := strings.NewReader(text)
	var err error
	switch {
	case strings.Contains(header, "spot_price_per_hour"):
		_, err = catalogue.ReadPrices("block", in)
	case strings.Contains(header, "price_per_hour"):
		_, err = catalogue.ReadFlavors("block", in)
	case strings.Contains(header, "grams_per_kwh"):
		_, err = tariff.Read(in, "grams_per_kwh")
	default:
		_, err = io.ReadAll(in)
		err = fmt.Errorf("no command reads the columns %s: %w", header, err)
	}
	return err
}

// TestTheBlockWithTemplatesIsThatOfItsSample compares the block of docs/nodefleet.md that "is in" the sample with it.
// test/manifests holds the sample to everything that the API server checks.
func TestTheBlockWithTemplatesIsThatOfItsSample(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "manifests/samples/nodefleet-catalogue.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var sample v1alpha1.NodeFleet
	if err := yaml.UnmarshalStrict(text, &sample); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, b := range commands.Others(named(t, "docs/nodefleet.md").text) {
		if firstLineOf(b.Text) != "clusterAPI:" {
			continue
		}
		found++
		var part v1alpha1.NodeFleetSpec
		if err := yaml.UnmarshalStrict([]byte(b.Text), &part); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sample.Spec.ClusterAPI, part.ClusterAPI); diff != "" {
			t.Errorf("line %d: the block differs from its sample (-sample +block):\n%s", b.Line, diff)
		}
	}
	if found != 1 {
		t.Errorf("found %d blocks, want 1", found)
	}
}

func TestBrokenBlocksAreFound(t *testing.T) {
	for name, text := range map[string]string{
		"a field that does not exist":       "apiVersion: supercargo.dev/v1alpha1\nkind: NodeFleet\nmetadata: {name: f}\nspec: {modes: Act}\n",
		"a list outside its block":          "clusterAPI:\n  templates:\n",
		"a list outside its key":            "clusterAPI:\n  templates:\n- machineDeployment: workers\n",
		"a field inside a comment":          "clusterAPI:\n  template: [] # instanceTypes\n",
		"a value that the chart has not":    "autoscalers: {enabled: true}\n",
		"an option that a program has not":  "descheduler:\n  options: {consolidate: Act}\n",
		"an argument that a plugin has not": "pluginConfig:\n  - name: BestFit\n    args: {narrow: Never}\n",
		"a price that is no number":         "name,cpu,memory_gib,price_per_hour\nm,2,4,cheap\n",
		"a source without a name":           "sources:\n- {url: \"https://a\"}\n",
	} {
		if err := checkBlock(firstLineOf(text), []byte(text)); err == nil {
			t.Errorf("%s is not found", name)
		}
	}
}
