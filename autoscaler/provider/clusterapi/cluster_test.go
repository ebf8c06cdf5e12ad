package clusterapi

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// nodesOf returns a node for each of these Clusters, namespace/name; one without a name is not annotated.
func nodesOf(clusters ...string) map[string]*corev1.Node {
	nodes := map[string]*corev1.Node{}
	for _, of := range clusters {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + of}}
		if namespace, name, _ := strings.Cut(of, "/"); name != "" {
			n.Annotations = map[string]string{clusterv1.ClusterNameAnnotation: name, clusterv1.ClusterNamespaceAnnotation: namespace}
		}
		nodes[n.Name] = n
	}
	return nodes
}

func TestMachinesOfAnotherClusterAreNoneOfAFleet(t *testing.T) {
	of := func(name, cluster string) *clusterv1.MachineDeployment {
		d := sized()
		d.Name, d.Spec.ClusterName = name, cluster
		return d
	}
	machine := func(deployment string) *clusterv1.Machine {
		return capiMachine("m-"+deployment, func(m *clusterv1.Machine) { m.Labels[clusterv1.MachineDeploymentNameLabel] = deployment })
	}
	for _, tc := range []struct {
		name              string
		clusters          []string // of two MachineDeployments
		spec              v1alpha1.ClusterAPIFlavors
		nodes             map[string]*corev1.Node
		flavors, machines []string
		refused           string
	}{
		{name: "nodes show the Cluster", clusters: []string{"a", "b"}, nodes: nodesOf("machines/a", ""), flavors: []string{"d0"}, machines: []string{"m-d0"}},
		{name: "the spec names it, and there is no node", clusters: []string{"a", "b"}, spec: v1alpha1.ClusterAPIFlavors{ClusterName: "b"}, flavors: []string{"d1"}, machines: []string{"m-d1"}},
		{name: "the spec names it, and nodes agree", clusters: []string{"a", "b"}, spec: v1alpha1.ClusterAPIFlavors{ClusterName: "b"}, nodes: nodesOf("machines/b"), flavors: []string{"d1"}, machines: []string{"m-d1"}},
		{name: "there is one Cluster only", clusters: []string{"a", "a"}, flavors: []string{"d0", "d1"}, machines: []string{"m-d0", "m-d1"}},
		{name: "a MachineDeployment of another is named", clusters: []string{"a", "b"}, spec: v1alpha1.ClusterAPIFlavors{Names: []string{"d0", "d1"}}, nodes: nodesOf("machines/a"),
			flavors: []string{"d0", "d1: MachineDeployment machines/d1 belongs to Cluster b, and this cluster is a"}, machines: []string{"m-d0"}},
		{name: "the only Cluster is another", clusters: []string{"b", "b"}, nodes: nodesOf("machines/a")},
		{name: "nothing shows which it is", clusters: []string{"a", "b"}, refused: "specify one of a, b"},
		{name: "nodes are of another namespace", clusters: []string{"a", "a"}, nodes: nodesOf("elsewhere/a"), refused: "belong to Cluster elsewhere/a, but spec.clusterAPI.namespace is machines"},
		{name: "the spec contradicts nodes", clusters: []string{"a", "b"}, spec: v1alpha1.ClusterAPIFlavors{ClusterName: "b"}, nodes: nodesOf("machines/a"), refused: "belong to Cluster machines/a, not to machines/b"},
		{name: "nodes contradict one another", clusters: []string{"a", "b"}, nodes: nodesOf("machines/a", "machines/b"), refused: "Clusters machines/a, machines/b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t, of("d0", tc.clusters[0]), of("d1", tc.clusters[1]), machine("d0"), machine("d1"))
			tc.spec.Namespace = "machines"
			found, err := New(s, s, Fleet{Spec: tc.spec}, tc.nodes, NewTemplates(clock.RealClock{})).Observe(t.Context())
			if tc.refused != "" {
				checkRefused(t, err, v1alpha1.FleetReasonClusterAmbiguous, tc.refused)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var flavors, machines []string
			for _, f := range found.Flavors {
				flavors = append(flavors, strings.TrimSuffix(f.Name+": "+f.Problem, ": "))
			}
			for _, m := range found.Machines {
				machines = append(machines, m.Name)
			}
			if diff := cmp.Diff([][]string{tc.flavors, tc.machines}, [][]string{flavors, machines}); diff != "" {
				t.Errorf("flavors and machines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFlavorsOfAPausedClusterAreHeld(t *testing.T) {
	for name, tc := range map[string]struct {
		cluster *clusterv1.Cluster
		want    string
	}{
		"there is none": {nil, ""},
		"it runs":       {&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: "a"}, Spec: clusterv1.ClusterSpec{Paused: new(false)}}, ""},
		"it is paused":  {&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: "a"}, Spec: clusterv1.ClusterSpec{Paused: new(true)}}, "Cluster machines/a is paused"},
		"another is":    {&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: "b"}, Spec: clusterv1.ClusterSpec{Paused: new(true)}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := sized()
			d.Spec.ClusterName = "a"
			s := newServer(t, d)
			if tc.cluster != nil {
				if err := s.Create(t.Context(), tc.cluster); err != nil {
					t.Fatal(err)
				}
			}
			found, err := New(s, s, Fleet{Spec: v1alpha1.ClusterAPIFlavors{Namespace: "machines"}}, nil, NewTemplates(clock.RealClock{})).Observe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if f := found.Flavors[0]; f.Held != tc.want || f.Kept != tc.want || f.Problem != tc.want {
				t.Errorf("it is held: %q, kept: %q, problem %q, want %q", f.Held, f.Kept, f.Problem, tc.want)
			}
		})
	}
}

func TestMachinesAreKeptWhileTheirMachineDeploymentIsRolledOut(t *testing.T) {
	of := func(set string) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) { m.Labels[clusterv1.MachineSetNameLabel] = set }
	}
	const rolled = "the MachineDeployment is being rolled out: its machines belong to 2 MachineSets"
	for name, tc := range map[string]struct {
		machines []*clusterv1.Machine
		want     string
	}{
		"it has no machines":        {nil, ""},
		"all are of one":            {[]*clusterv1.Machine{capiMachine("a", of("old")), capiMachine("b", of("old"))}, ""},
		"one is new":                {[]*clusterv1.Machine{capiMachine("a", of("old")), capiMachine("b", of("new"))}, rolled},
		"the last old one goes":     {[]*clusterv1.Machine{capiMachine("a", of("old"), going), capiMachine("b", of("new"))}, rolled},
		"a machine without a label": {[]*clusterv1.Machine{capiMachine("a", of("old")), capiMachine("b")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, sized())
			for _, m := range tc.machines {
				if err := s.Create(t.Context(), m); err != nil {
					t.Fatal(err)
				}
			}
			found, err := New(s, s, Fleet{Spec: v1alpha1.ClusterAPIFlavors{Namespace: "machines"}}, nil, NewTemplates(clock.RealClock{})).Observe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if f := found.Flavors[0]; f.Kept != tc.want || f.Held != "" || f.Problem != "" {
				t.Errorf("it is kept: %q, held: %q, problem %q, want only to be kept: %q", f.Kept, f.Held, f.Problem, tc.want)
			}
		})
	}
}

func TestSuccessorsOfMachinesThatAreBeingDeletedAreBlocked(t *testing.T) {
	a, b, gone := *capiMachine("a"), *capiMachine("b"), *capiMachine("c", going)
	for _, tc := range []struct {
		want     int
		machines []clusterv1.Machine
		blocked  int
	}{
		{2, nil, 0},
		{2, []clusterv1.Machine{a}, 0},
		{2, []clusterv1.Machine{a, gone}, 1},
		{3, []clusterv1.Machine{a, gone}, 1},
		{1, []clusterv1.Machine{a, gone}, 0}, // it was released
		{2, []clusterv1.Machine{a, b, gone}, 0},
		{2, []clusterv1.Machine{gone, gone}, 2},
		{0, []clusterv1.Machine{a, b, gone}, 0},
	} {
		if got := blocked(tc.want, tc.machines); got != tc.blocked {
			t.Errorf("%d desired of %d machines: %d are blocked, want %d", tc.want, len(tc.machines), got, tc.blocked)
		}
	}
}

func TestReplicasThatATopologySetsAreHeld(t *testing.T) {
	applied := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
	}
	const says = "the topology of Cluster c sets the replicas"
	for name, tc := range map[string]struct {
		by   metav1.ManagedFieldsEntry
		want string
	}{
		"the topology has replicas":     {applied("capi-topology", `{"f:spec":{"f:replicas":{},"f:clusterName":{}}}`), says},
		"the topology has no replicas":  {applied("capi-topology", `{"f:spec":{"f:clusterName":{}}}`), ""},
		"others have":                   {applied("kubectl", `{"f:spec":{"f:replicas":{}}}`), ""},
		"the fields cannot be read":     {applied("capi-topology", `{`), ""},
		"the fields are not understood": {metav1.ManagedFieldsEntry{Manager: "capi-topology", Operation: metav1.ManagedFieldsOperationApply}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := sized()
			d.Spec.ClusterName, d.ManagedFields = "c", []metav1.ManagedFieldsEntry{tc.by}
			f := flavor(d, nothing(), nil)
			if held := strings.HasPrefix(f.Held, says); held != (tc.want != "") || f.Problem != f.Held || f.Kept != f.Held {
				t.Errorf("it is held: %q, problem %q, want %q", f.Held, f.Problem, tc.want)
			}
		})
	}
}

// checkRefused checks that an error refuses a fleet with this reason, and says this.
func checkRefused(t *testing.T, err error, reason, says string) {
	t.Helper()
	var refused *provider.Refused
	if !errors.As(err, &refused) || refused.Reason != reason || !strings.Contains(refused.Message, says) {
		t.Errorf("the error is %v, want a refusal %s that says %q", err, reason, says)
	}
}

// TestFleetsOfOneNameInTwoClustersKeepApart has a fleet f in each of two Clusters of one namespace.
func TestFleetsOfOneNameInTwoClustersKeepApart(t *testing.T) {
	s := newCatalogueScene(t)
	own := s.named("m7i.large")
	s.buy(own, 0, 1)
	other := &clusterv1.MachineDeployment{}
	testapi.Get(t, s, s.provider().key(own), other)
	other.ObjectMeta = metav1.ObjectMeta{Namespace: "machines", Name: "other", Labels: other.Labels}
	other.Labels[clusterv1.ClusterNameLabel], other.Spec.ClusterName, other.Spec.Replicas = "d", "d", new(int32(0))
	testapi.Create(t, s, other)
	for _, name := range []string{"other", "other-soon"} { // of the second, the MachineDeployment is about to be created
		template := infrastructureOf("AWSMachineTemplate", map[string]any{"instanceType": "x"})[1]
		template.SetName(name)
		template.SetLabels(map[string]string{v1alpha1.LabelFleet: "f", clusterv1.ClusterNameLabel: "d"})
		template.SetCreationTimestamp(metav1.NewTime(start))
		testapi.Create(t, s, template)
	}
	before := s.made()
	s.clock.SetTime(start.Add(time.Hour))
	s.nodes = nodesOf("machines/c")
	p, found := s.observe()
	if slices.ContainsFunc(found.Flavors, func(f provider.Flavor) bool { return f.Name == "other" }) {
		t.Error("a MachineDeployment of Cluster d is a flavor of a fleet in Cluster c")
	}
	if err := p.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.checkMade("after the fleet in Cluster c has cleaned up", before...)
}

func TestATemplateOfAnotherClusterRefusesTheFleet(t *testing.T) {
	s := newCatalogueScene(t)
	s.nodes = nodesOf("machines/d")
	_, err := s.provider().Observe(t.Context())
	checkRefused(t, err, v1alpha1.FleetReasonClusterAmbiguous, "spec.clusterAPI.templates[workers]: the MachineDeployment belongs to Cluster c, and this cluster is d")
}
