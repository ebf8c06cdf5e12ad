package adopt

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Object is an object to convert, with all its fields.
type Object struct {
	// Where names the object in errors.
	Where  string
	Fields map[string]any
}

// Source is what to convert.
type Source struct {
	// Pools are NodePools, and Groups MachineDeployments, MachineSets and MachinePools.
	Pools, Groups []Object
	// OtherPools are the names of NodePools of the cluster that stay, ordered.
	OtherPools []string
	// Selector selected the Groups; nil if nothing did.
	Selector *metav1.LabelSelector
}

// ErrNothing means that nothing can be converted.
var ErrNothing = errors.New("there is nothing to adopt: no NodePool, and no MachineDeployment with the annotation " + annotationMax)

// Convert converts objects. The error names each object and field that is invalid. If there is nothing to convert, it is
// [ErrNothing].
func Convert(s *Source, around *Around) (*Document, error) {
	var fleets []Fleet
	var notes []Note
	taken := map[string]bool{}
	pools, errs := convertPools(s.Pools, around, &fleets, &notes, taken)
	groups, groupErrs := readGroups(s.Groups)
	errs = append(errs, groupErrs...)
	clusters := groupByCluster(groups, taken)
	var machineFleets []string
	for _, o := range clusters {
		f, err := o.convert(s.Selector, around)
		if err != nil {
			errs = append(errs, err)
		} else if f != nil {
			fleets, machineFleets = append(fleets, *f), append(machineFleets, f.Metadata.Name)
		}
		notes = append(notes, o.notes...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(fleets) == 0 && len(notes) == 0 {
		return nil, ErrNothing
	}
	var steps, back []Step
	if len(pools) > 0 {
		steps, back = poolSteps(pools, s.OtherPools)
	}
	if len(machineFleets) > 0 {
		more, moreBack := deploymentSteps(machineFleets)
		steps, back = append(steps, more...), append(back, moreBack...)
	}
	return newDocument(fleets, notes, steps, back), nil
}

// convertPools converts NodePools, and returns those that have a fleet, ordered by name.
func convertPools(all []Object, around *Around, fleets *[]Fleet, notes *[]Note, taken map[string]bool) (pools []*pool, errs []error) {
	seen := map[string]bool{}
	for _, o := range all {
		f, n, err := convertPool(o.Fields, around)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", o.Where, err))
			continue
		}
		p, _, err := readPool(o.Fields)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", o.Where, err))
			continue
		}
		if seen[p.Metadata.Name] {
			errs = append(errs, fmt.Errorf("%s: metadata.name: is a duplicate", o.Where))
			continue
		}
		seen[p.Metadata.Name] = true
		*notes = append(*notes, n...)
		if f != nil {
			*fleets, taken[f.Metadata.Name] = append(*fleets, *f), true
			pools = append(pools, p)
		}
	}
	slices.SortFunc(pools, func(a, b *pool) int { return cmp.Compare(a.Metadata.Name, b.Metadata.Name) })
	return pools, errs
}

// readGroups reads node groups, and orders them by namespace and name.
func readGroups(all []Object) (groups []*nodeGroup, errs []error) {
	for _, o := range all {
		g, err := readGroup(o.Fields)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", o.Where, err))
			continue
		}
		groups = append(groups, g)
	}
	slices.SortStableFunc(groups, func(a, b *nodeGroup) int {
		if a.Metadata.Namespace != b.Metadata.Namespace {
			return cmp.Compare(a.Metadata.Namespace, b.Metadata.Namespace)
		}
		return cmp.Compare(a.Metadata.Name, b.Metadata.Name)
	})
	return groups, errs
}
