package karpenter

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/autoscaler/provider"
)

// podsOfPools returns the pods of the tests of NodePools, by what they are.
func podsOfPools() map[string]*corev1.Pod {
	in := func(key string, operator corev1.NodeSelectorOperator, values ...string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}
	}
	affine := func(terms ...[]corev1.NodeSelectorRequirement) *corev1.Pod {
		required := &corev1.NodeSelector{}
		for _, t := range terms {
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: t})
		}
		return &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}}}
	}
	selecting := func(key, value string) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{key: value}}}
	}
	requesting := func(cpu, memory string) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}}}}}}
	}
	return map[string]*corev1.Pod{
		"any":             {},
		"of the fleet":    selecting("supercargo.dev/fleet", "general"),
		"of team a":       selecting("team", "a"),
		"of team b":       selecting("team", "b"),
		"with a team":     affine(in("team", corev1.NodeSelectorOpExists)),
		"without a team":  affine(in("team", corev1.NodeSelectorOpDoesNotExist)),
		"not of team a":   affine(in("team", corev1.NodeSelectorOpNotIn, "a")),
		"in zone a":       selecting(corev1.LabelTopologyZone, "a"),
		"in zone c":       selecting(corev1.LabelTopologyZone, "c"),
		"in c or of a":    affine(in(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "c"), in("team", corev1.NodeSelectorOpIn, "a")),
		"of no pool":      affine(in("karpenter.sh/nodepool", corev1.NodeSelectorOpDoesNotExist)),
		"of the pool":     selecting("karpenter.sh/nodepool", "default"),
		"of generation 7": affine(in("karpenter.k8s.aws/instance-generation", corev1.NodeSelectorOpGt, "6")),
		"on a host":       selecting(corev1.LabelHostname, "n"),
		"tolerant":        {Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "web", Operator: corev1.TolerationOpExists}}}},
		"of no term":      affine(),
		"on a named node": {Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: in("metadata.name", corev1.NodeSelectorOpIn, "n")}},
		}}}}},
		"of 3 cores": requesting("3", "1Gi"),
		"of 8 GiB":   requesting("1", "8Gi"),
	}
}

func TestANodePoolServesThePodsThatKarpenterBuysForByIt(t *testing.T) {
	never := "of no pool, of no term, of the fleet, on a host, on a named node"
	anyTeam := "of team a, of team b, with a team"
	for name, c := range map[string]struct{ spec, not string }{
		"nothing stated":           {"{}", anyTeam},
		"labels":                   {"{template: {metadata: {labels: {team: a}}}}", "of team b, without a team, not of team a"},
		"a taint":                  {"{template: {spec: {taints: [{key: web, effect: NoSchedule}]}}}", "all but tolerant"},
		"a taint that advises":     {"{template: {spec: {taints: [{key: web, effect: PreferNoSchedule}]}}}", anyTeam},
		"a startup taint":          {"{template: {spec: {startupTaints: [{key: web, effect: NoSchedule}]}}}", anyTeam},
		"zones":                    {"{template: {spec: {requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [a, b]}]}}}", anyTeam + ", in zone c, in c or of a"},
		"all zones but one":        {"{template: {spec: {requirements: [{key: topology.kubernetes.io/zone, operator: NotIn, values: [c]}]}}}", anyTeam + ", in zone c, in c or of a"},
		"any team":                 {"{template: {spec: {requirements: [{key: team, operator: Exists}]}}}", "without a team"},
		"no team":                  {"{template: {spec: {requirements: [{key: team, operator: DoesNotExist}]}}}", anyTeam},
		"team b, in two ways":      {"{template: {metadata: {labels: {team: b}}, spec: {requirements: [{key: team, operator: NotIn, values: [a]}]}}}", "of team a, without a team"},
		"older generations":        {"{template: {spec: {requirements: [{key: karpenter.k8s.aws/instance-generation, operator: In, values: ['5', '6']}]}}}", anyTeam + ", of generation 7"},
		"an operator of Karpenter": {"{template: {spec: {requirements: [{key: karpenter.k8s.aws/instance-generation, operator: Gte, values: ['5']}]}}}", anyTeam},
		"room within its limits":   {"{limits: {cpu: '7', memory: 20Gi, nodes: '3'}}", anyTeam},
		"little CPU":               {"{limits: {cpu: '6', memory: 20Gi, nodes: '3'}}", anyTeam + ", of 3 cores"},
		"little memory":            {"{limits: {cpu: '7', memory: 19Gi, nodes: '3'}}", anyTeam + ", of 8 GiB"},
		"no CPU left":              {"{limits: {cpu: '4'}}", "all"},
		"no node left":             {"{limits: {nodes: '2'}}", "all"},
		"a fixed number":           {"{replicas: 3}", "all"},
	} {
		s := newSite(t)
		s.pool(c.spec, "status: {resources: {cpu: '4', memory: 12Gi, nodes: '2'}}")
		_, found := s.observed()
		for is, pod := range podsOfPools() {
			want := !strings.Contains(", "+never+", "+c.not+",", ", "+is+",")
			switch c.not {
			case "all":
				want = false
			case "all but tolerant":
				want = is == "tolerant"
			}
			if got := len(found.Rivals) == 1 && found.Rivals[0].Serves(pod); got != want {
				t.Errorf("%s: a pod %s: served is %v, want %v", name, is, got, want)
			}
		}
	}
}

func TestOnlyNodePoolsThatBuyAreRivals(t *testing.T) {
	for state, want := range map[string]int{
		"{}": 1,
		"status: {conditions: [{type: Ready, status: Unknown}]}":                                        1,
		"status: {conditions: [{type: Ready, status: 'False'}]}":                                        0,
		"metadata: {deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [karpenter.sh/termination]}": 0,
	} {
		s := newSite(t)
		s.pool("{}", state)
		if _, found := s.observed(); len(found.Rivals) != want || want > 0 && found.Rivals[0].Name != "NodePool default" {
			t.Errorf("%s: rivals %+v, want %d", state, found.Rivals, want)
		}
	}
}

func TestWithoutNodePoolsNobodyElseBuys(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		reason string
	}{
		"not served": {&meta.NoKindMatchError{GroupKind: poolKind}, ""},
		"not found":  {apierrors.NewNotFound(schema.GroupResource{}, ""), ""},
		"forbidden":  {apierrors.NewForbidden(schema.GroupResource{}, "", nil), "Forbidden"},
	} {
		s := newSite(t)
		s.refusesPools = c.err
		found, err := s.provider().Observe(t.Context())
		refused := (*provider.Refused)(nil)
		if c.reason == "" && (err != nil || len(found.Rivals) > 0) || c.reason != "" && (!errors.As(err, &refused) || refused.Reason != c.reason || !strings.Contains(refused.Message, "list NodePools")) {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
}

// pool creates the NodePool default. state has more of it, as YAML.
func (s *site) pool(spec, state string) {
	s.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte("spec: "+spec), &object); err != nil {
		s.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(state), &object); err != nil {
		s.Fatal(err)
	}
	n := &unstructured.Unstructured{Object: object}
	n.SetGroupVersionKind(poolKind.WithVersion("v1"))
	n.SetName("default")
	s.pools = append(s.pools, *n)
}
