package manifests

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/manifests"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// kind contains what the API server derives from a CustomResourceDefinition.
type kind struct {
	structural *schema.Structural
	fields     validation.SchemaValidator
	rules      *cel.Validator
}

func readKind(t *testing.T, file string) *kind {
	t.Helper()
	text, err := manifests.CRDs.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	testfile.StrictYAML(t, text, &crd)
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &props, nil); err != nil {
		t.Fatal(err)
	}
	k := &kind{}
	if k.structural, err = schema.NewStructural(&props); err != nil {
		t.Fatal(err)
	}
	if k.fields, _, err = validation.NewSchemaValidator(&props); err != nil {
		t.Fatal(err)
	}
	k.rules = cel.NewValidator(k.structural, true, celconfig.PerCallLimit)
	return k
}

// faults returns the validation errors of the API server for an object.
func (k *kind) faults(t *testing.T, object map[string]any) (found []string) {
	t.Helper()
	defaulting.Default(object, k.structural)
	for _, path := range pruning.PruneWithOptions(object, k.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		found = append(found, "unknown field "+path)
	}
	for _, err := range validation.ValidateCustomResource(nil, object, k.fields) {
		found = append(found, err.Error())
	}
	broken, _ := k.rules.Validate(t.Context(), nil, k.structural, object, nil, celconfig.RuntimeCELCostBudget)
	for _, err := range broken {
		found = append(found, err.Error())
	}
	return found
}

// objectIn reads the first object in a sample.
func objectIn(t *testing.T, file string) map[string]any {
	t.Helper()
	first, _, _ := bytes.Cut(testfile.Read(t, file), []byte("\n---\n"))
	text, err := yaml.YAMLToJSON(first)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil { // keeps whole numbers as integers
		t.Fatal(err)
	}
	return object
}

func TestSamplesMeetTheDefinitionsOfTheirKinds(t *testing.T) {
	for file, definition := range map[string]string{
		"nodefleet.yaml": "nodefleets", "nodefleet-openstack.yaml": "nodefleets", "nodefleet-catalogue.yaml": "nodefleets", "nodefleet-karpenter.yaml": "nodefleets", "machineprofile.yaml": "machineprofiles",
		"replicapolicy.yaml": "replicapolicies",
		"workerpool.yaml":    "workerpools",
	} {
		k := readKind(t, "crd/supercargo.dev_"+definition+".yaml")
		if found := k.faults(t, objectIn(t, "../../manifests/samples/"+file)); len(found) > 0 {
			t.Errorf("%s:\n%s", file, strings.Join(found, "\n"))
		}
	}
}

func TestASampleThatIsInvalidDoesNotMeetItsDefinition(t *testing.T) {
	k := readKind(t, "crd/supercargo.dev_nodefleets.yaml")
	for name, tc := range map[string]struct {
		spoil func(spec map[string]any)
		says  string
	}{
		"unknown field":    {func(spec map[string]any) { spec["openStack"].(map[string]any)["flavour"] = "x" }, "unknown field spec.openStack.flavour"},
		"missing field":    {func(spec map[string]any) { delete(spec["openStack"].(map[string]any), "image") }, "spec.openStack.image: Required value"},
		"two providers":    {func(spec map[string]any) { spec["provider"] = "ClusterAPI" }, "openStack is required"},
		"no such provider": {func(spec map[string]any) { spec["provider"] = "Cloud" }, "Unsupported value"},
	} {
		object := objectIn(t, "../../manifests/samples/nodefleet-openstack.yaml")
		tc.spoil(object["spec"].(map[string]any))
		if found := strings.Join(k.faults(t, object), "\n"); !strings.Contains(found, tc.says) {
			t.Errorf("%s: %q, want %q", name, found, tc.says)
		}
	}
}

// TestFleetsWithTemplatesThatCannotBeAreRefused checks the validation by the API server.
func TestFleetsWithTemplatesThatCannotBeAreRefused(t *testing.T) {
	k := readKind(t, "crd/supercargo.dev_nodefleets.yaml")
	type object = map[string]any
	template := func(spec object) object { return spec["clusterAPI"].(object)["templates"].([]any)[0].(object) }
	for name, tc := range map[string]struct {
		spoil func(spec object)
		says  string
	}{
		"names beside templates":   {func(s object) { s["clusterAPI"].(object)["names"] = []any{"a"} }, "exactly one of names, selector and templates"},
		"none of them":             {func(s object) { delete(s["clusterAPI"].(object), "templates") }, "exactly one of names, selector and templates"},
		"no instance types":        {func(s object) { delete(s, "pricing") }, "pricing.list or pricing.catalogue is required"},
		"a list without a region":  {func(s object) { delete(s["pricing"].(object), "region") }, "list and region must be set together"},
		"a region without a list":  {func(s object) { delete(s["pricing"].(object), "list") }, "list and region must be set together"},
		"no MachineDeployment":     {func(s object) { delete(template(s), "machineDeployment") }, "machineDeployment: Required value"},
		"a field outside the spec": {func(s object) { template(s)["instanceTypeField"] = "metadata.name" }, "instanceTypeField"},
		"a field that is no path":  {func(s object) { template(s)["instanceTypeField"] = "spec..x" }, "instanceTypeField"},
		"a pattern that is none":   {func(s object) { template(s)["instanceTypes"] = []any{"m7i.[a"} }, "instanceTypes"},
		"an unknown architecture":  {func(s object) { template(s)["architecture"] = "x86_64" }, "Unsupported value"},
	} {
		o := objectIn(t, "../../manifests/samples/nodefleet-catalogue.yaml")
		tc.spoil(o["spec"].(object))
		if found := strings.Join(k.faults(t, o), "\n"); !strings.Contains(found, tc.says) {
			t.Errorf("%s: %q, want %q", name, found, tc.says)
		}
	}
}

// TestMachineProfilesThatCannotBeAreRefused checks the validation by the API server.
func TestMachineProfilesThatCannotBeAreRefused(t *testing.T) {
	k := readKind(t, "crd/supercargo.dev_machineprofiles.yaml")
	type object = map[string]any
	model := func(spec object) object { return spec["models"].(object)["energy"].(object) }
	for name, tc := range map[string]struct {
		spoil func(spec object)
		says  string
	}{
		"no machine type":           {func(s object) { delete(s, "machineType") }, "spec.machineType: Required value"},
		"no name of a machine type": {func(s object) { s["machineType"] = "a b" }, "spec.machineType"},
		"a coefficient that is NaN": {func(s object) { model(s)["terms"].([]any)[0].(object)["coefficient"] = "NaN" }, "coefficient"},
		"an unknown term":           {func(s object) { model(s)["terms"].([]any)[0].(object)["term"] = "gpu" }, "Unsupported value"},
		"no terms":                  {func(s object) { model(s)["terms"] = []any{} }, "terms"},
		"an upside-down range":      {func(s object) { model(s)["cpu"].(object)["most"] = "100m" }, "least must not exceed most"},
		"a range from below 0":      {func(s object) { model(s)["memory"].(object)["least"] = "-1" }, "least must not be negative"},
		"values from 0":             {func(s object) { model(s)["value"].(object)["least"] = "0" }, "least must be above 0"},
		"more idle than full":       {func(s object) { s["power"].(object)["idleWatts"] = "211" }, "idleWatts must not exceed fullWatts"},
		"no idle power":             {func(s object) { s["power"].(object)["idleWatts"] = "0" }, "must be above 0"},
		"a curve that falls":        {func(s object) { s["power"].(object)["curve"].([]any)[0].(object)["powerPercent"] = int64(69) }, "powerPercent must not decrease"},
		"hardware without a name":   {func(s object) { s["hardware"] = object{"fingerprint": "x"} }, "fingerprint"},
		"R² of more than 1":         {func(s object) { model(s)["rSquaredPermille"] = int64(1001) }, "rSquaredPermille"},
	} {
		o := objectIn(t, "../../manifests/samples/machineprofile.yaml")
		tc.spoil(o["spec"].(object))
		if found := strings.Join(k.faults(t, o), "\n"); !strings.Contains(found, tc.says) {
			t.Errorf("%s: %q, want %q", name, found, tc.says)
		}
	}
}

func TestReplicaPoliciesThatCannotBeAreRefused(t *testing.T) {
	k := readKind(t, "crd/supercargo.dev_replicapolicies.yaml")
	type object = map[string]any
	for name, tc := range map[string]struct {
		spoil func(spec object)
		says  string
	}{
		"no most":                    {func(s object) { delete(s, "maxReplicas") }, "spec.maxReplicas: Required value"},
		"least above most":           {func(s object) { s["minReplicas"] = int64(41) }, "minReplicas must not exceed maxReplicas"},
		"no replicas":                {func(s object) { s["minReplicas"] = int64(0) }, "spec.minReplicas"},
		"no SLO":                     {func(s object) { delete(s, "slo") }, "slo and service are required"},
		"no service":                 {func(s object) { delete(s, "service") }, "slo and service are required"},
		"no such law":                {func(s object) { s["law"] = object{"name": "Astrology"} }, "Unsupported value"},
		"constants of another law":   {func(s object) { s["law"].(object)["inverseQueue"] = object{"keep": int64(3)} }, "inverseQueue must be unset unless name is InverseQueue"},
		"a rate of 0":                {func(s object) { s["service"].(object)["ratePerReplica"] = "0" }, "must be above 0"},
		"a rate that is NaN":         {func(s object) { s["service"].(object)["ratePerReplica"] = "NaN" }, "ratePerReplica"},
		"all weight on the past":     {func(s object) { s["service"].(object)["pastWeight"] = "1" }, "pastWeight must be below 1"},
		"an SLO without a unit":      {func(s object) { s["slo"].(object)["responseTime"] = "100" }, "responseTime"},
		"an SLO of a day":            {func(s object) { s["slo"].(object)["responseTime"] = "24h" }, "must be between 1ms and 1h"},
		"nothing to measure":         {func(s object) { s["metrics"] = object{} }, "preset or queries is required"},
		"no query":                   {func(s object) { s["metrics"] = object{"queries": object{}} }, "spec.metrics.queries"},
		"a misspelt constant":        {func(s object) { s["law"].(object)["predictive"] = object{"headrom": "0.1"} }, "unknown field"},
		"a share below 0":            {func(s object) { s["law"].(object)["predictive"] = object{"headroom": "-0.1"} }, "must not be negative"},
		"a mode that does not exist": {func(s object) { s["mode"] = "Dream" }, "Unsupported value"},
	} {
		o := objectIn(t, "../../manifests/samples/replicapolicy.yaml")
		tc.spoil(o["spec"].(object))
		if found := strings.Join(k.faults(t, o), "\n"); !strings.Contains(found, tc.says) {
			t.Errorf("%s: %q, want %q", name, found, tc.says)
		}
	}
	threshold := objectIn(t, "../../manifests/samples/replicapolicy.yaml")
	spec := threshold["spec"].(object)
	spec["law"] = object{"name": "DoubleThreshold"}
	delete(spec, "slo")
	delete(spec, "service")
	if found := k.faults(t, threshold); len(found) > 0 {
		t.Errorf("DoubleThreshold without SLO and service: %q", found)
	}
}

// TestWorkerPoolsThatCannotBeAreRefused checks that the API server's error names the field.
func TestWorkerPoolsThatCannotBeAreRefused(t *testing.T) {
	k := readKind(t, "crd/supercargo.dev_workerpools.yaml")
	type object = map[string]any
	part := func(spec object, name string) object { return spec[name].(object) }
	for name, tc := range map[string]struct {
		spoil func(spec object)
		says  string
	}{
		"neither address nor catalog": {func(s object) { delete(part(s, "manager"), "address") }, "exactly one of address and catalog"},
		"both of them": {func(s object) {
			part(s, "manager")["catalog"] = object{"servers": []any{"c:9097"}, "project": "p"}
		}, "exactly one of address and catalog"},
		"an address without a port": {func(s object) { part(s, "manager")["address"] = "host" }, "spec.manager.address"},
		"no catalog server":         {func(s object) { s["manager"] = object{"catalog": object{"servers": []any{}, "project": "p"}} }, "servers"},
		"no size of workers":        {func(s object) { delete(part(s, "worker"), "nodeFleet") }, "worker.resources or worker.nodeFleet is required"},
		"packed without a size":     {func(s object) { part(s, "worker")["packing"] = "Packed" }, "worker.resources is required"},
		"flavors of no fleet": {func(s object) {
			s["worker"] = object{"resources": object{"cores": int64(1), "memory": "1Gi"}, "flavors": []any{"a"}}
		}, "nodeFleet is required if flavors is set"},
		"no cores":                 {func(s object) { part(s, "worker")["resources"] = object{"cores": int64(0), "memory": "1Gi"} }, "cores"},
		"no memory":                {func(s object) { part(s, "worker")["resources"] = object{"cores": int64(1), "memory": "1k"} }, "must be at least 1Mi"},
		"a negative reserve":       {func(s object) { part(s, "worker")["reserved"] = object{"cpu": "-1"} }, "must not be negative"},
		"min above max":            {func(s object) { part(s, "limits")["min"] = int64(21) }, "min must not exceed max"},
		"no max":                   {func(s object) { delete(part(s, "limits"), "max") }, "spec.limits.max: Required value"},
		"no template":              {func(s object) { delete(s, "template") }, "spec.template: Required value"},
		"a drain that cannot last": {func(s object) { part(s, "worker")["drainTimeout"] = "1s" }, "must be between 30s"},
		"an interval of nothing":   {func(s object) { s["scaling"] = object{"interval": "0s"} }, "must be between 1s and 1h"},
		"an unknown law":           {func(s object) { s["scaling"] = object{"law": "Mine"} }, "Unsupported value"},
		"a misspelt field":         {func(s object) { part(s, "manager")["adr"] = "a:1" }, "unknown field spec.manager.adr"},
	} {
		o := objectIn(t, "../../manifests/samples/workerpool.yaml")
		tc.spoil(o["spec"].(object))
		if found := strings.Join(k.faults(t, o), "\n"); !strings.Contains(found, tc.says) {
			t.Errorf("%s: %q, want %q", name, found, tc.says)
		}
	}
	o := objectIn(t, "../../manifests/samples/workerpool.yaml")
	o["metadata"].(object)["name"] = strings.Repeat("x", 53)
	if found := strings.Join(k.faults(t, o), "\n"); !strings.Contains(found, "52 characters") {
		t.Errorf("a long name: %q", found)
	}
}
