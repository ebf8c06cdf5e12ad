package adopt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"supercargo.dev/supercargo/internal/input/manifest"
)

// Wanted selects what to convert.
type Wanted struct {
	// Pools selects NodePools: those with these names, or all if there are no names.
	Pools bool
	Names []string
	// Groups selects MachineDeployments, MachineSets and MachinePools: those of a namespace, or of all if it is empty,
	// whose labels a selector matches, or all if it is empty.
	Groups    bool
	Namespace string
	Selector  string
}

// MostBytes is the maximum size of a file.
const MostBytes = 256 << 20

// Read reads the objects of a file: YAML or JSON documents, or Lists of objects. name identifies the file in errors.
func Read(name string, in io.Reader) ([]Object, error) {
	limited := &io.LimitedReader{R: in, N: MostBytes + 1}
	found, err := manifest.Parse(name, limited)
	if limited.N == 0 {
		return nil, fmt.Errorf("%s: is larger than %d bytes", name, MostBytes)
	}
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: is empty: must be the output of kubectl get nodepools -o yaml, or of machinedeployments", name)
	}
	all := make([]Object, len(found))
	for i, m := range found {
		all[i] = Object{Where: m.String(), Fields: m.Object.Object}
	}
	return all, nil
}

// ParseSelector reads a label selector as kubectl's -l, except for comparisons of numbers, which fleets do not have.
func ParseSelector(text string) (*metav1.LabelSelector, error) {
	all, err := labels.ParseToRequirements(text)
	if err != nil {
		return nil, fmt.Errorf("selector %q: %w", text, err)
	}
	operators := map[selection.Operator]metav1.LabelSelectorOperator{
		selection.In: metav1.LabelSelectorOpIn, selection.NotIn: metav1.LabelSelectorOpNotIn, selection.NotEquals: metav1.LabelSelectorOpNotIn,
		selection.Exists: metav1.LabelSelectorOpExists, selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist,
	}
	s := &metav1.LabelSelector{}
	for _, r := range all {
		values := r.ValuesUnsorted()
		slices.Sort(values)
		_, twice := s.MatchLabels[r.Key()]
		operator, known := operators[r.Operator()]
		switch equals := r.Operator() == selection.Equals || r.Operator() == selection.DoubleEquals; {
		case equals && !twice:
			s = metav1.AddLabelToSelector(s, r.Key(), values[0])
		case equals:
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: r.Key(), Operator: metav1.LabelSelectorOpIn, Values: values})
		case known:
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: r.Key(), Operator: operator, Values: values})
		default:
			return nil, fmt.Errorf("selector %q: %s: must use =, ==, !=, in, notin or no operator", text, r.Operator())
		}
	}
	return s, nil
}

// head identifies an object.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string            `json:"name"`
		Namespace string            `json:"namespace"`
		Labels    map[string]string `json:"labels"`
	} `json:"metadata"`
	Status struct {
		Subnets []struct {
			Zone string `json:"zone"`
		} `json:"subnets"`
	} `json:"status"`
}

func headOf(o *Object) (h head, err error) {
	text, err := json.Marshal(o.Fields)
	if err == nil {
		// The status of an object that is none of ours may have other types.
		var wrong *json.UnmarshalTypeError
		if err = json.Unmarshal(text, &h); errors.As(err, &wrong) && strings.HasPrefix(wrong.Field, "status") {
			err = nil
		}
	}
	return h, err
}

// Gather selects what to convert from objects, and reads from nodes and NodeClasses among them what is known around it.
// Other objects are ignored. The error names each object that is wanted and missing.
func Gather(objects []Object, want *Wanted) (*Source, *Around, error) {
	g := &gathering{want: want, found: map[string]bool{}, zones: map[string]bool{}, regions: map[string]bool{}}
	g.around.ClassZones = map[string][]string{}
	if want.Selector != "" {
		var err error
		if g.source.Selector, err = ParseSelector(want.Selector); err == nil {
			g.selector, err = metav1.LabelSelectorAsSelector(g.source.Selector)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	var errs []error
	for i := range objects {
		if err := g.add(&objects[i]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", objects[i].Where, err))
		}
	}
	slices.Sort(g.source.OtherPools)
	for _, name := range want.Names {
		if !g.found[name] {
			errs = append(errs, fmt.Errorf("%s %s does not exist%s", PoolKind, name, g.instead()))
		}
	}
	g.around.Zones = slices.Sorted(maps.Keys(g.zones))
	if len(g.regions) == 1 {
		g.around.Region = slices.Sorted(maps.Keys(g.regions))[0]
	}
	return &g.source, &g.around, errors.Join(errs...)
}

// gathering is what Gather has read.
type gathering struct {
	want           *Wanted
	selector       labels.Selector
	source         Source
	around         Around
	found          map[string]bool
	zones, regions map[string]bool
}

// instead names the NodePools that exist.
func (g *gathering) instead() string {
	if len(g.source.OtherPools) == 0 {
		return ""
	}
	return ": there are " + strings.Join(g.source.OtherPools, ", ")
}

func (g *gathering) add(o *Object) error {
	h, err := headOf(o)
	if err != nil {
		return fieldFault(err)
	}
	apiGroup, _, _ := strings.Cut(h.APIVersion, "/")
	switch {
	case apiGroup == "karpenter.sh" && h.Kind == PoolKind:
		return g.addPool(o, &h)
	case apiGroup == ClusterGroup && slices.Contains([]string{DeploymentKind, SetKind, MachinePool}, h.Kind):
		in := g.want.Namespace == "" || h.Metadata.Namespace == g.want.Namespace
		if g.want.Groups && in && (g.selector == nil || g.selector.Matches(labels.Set(h.Metadata.Labels))) {
			g.source.Groups = append(g.source.Groups, *o)
		}
	case h.APIVersion == "v1" && h.Kind == "Node":
		if zone := h.Metadata.Labels[corev1.LabelTopologyZone]; zone != "" {
			g.zones[zone] = true
		}
		if region := h.Metadata.Labels[corev1.LabelTopologyRegion]; region != "" {
			g.regions[region] = true
		}
	case strings.HasSuffix(h.Kind, "NodeClass"):
		in := map[string]bool{}
		for _, s := range h.Status.Subnets {
			if s.Zone != "" {
				in[s.Zone] = true
			}
		}
		g.around.ClassZones[h.Kind+"/"+h.Metadata.Name] = slices.Sorted(maps.Keys(in))
	}
	return nil
}

func (g *gathering) addPool(o *Object, h *head) error {
	if !g.want.Pools {
		return nil
	}
	if len(g.want.Names) > 0 && !slices.Contains(g.want.Names, h.Metadata.Name) {
		g.source.OtherPools = append(g.source.OtherPools, h.Metadata.Name)
		return nil
	}
	g.found[h.Metadata.Name] = true
	if h.APIVersion != PoolVersion {
		return fmt.Errorf("apiVersion: %s must be %s: upgrade Karpenter, or convert the NodePool as Karpenter's documentation says", h.APIVersion, PoolVersion)
	}
	g.source.Pools = append(g.source.Pools, *o)
	return nil
}
