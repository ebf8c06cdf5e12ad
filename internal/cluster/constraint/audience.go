package constraint

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// identity is the namespace and labels of a pod, which is what the constraints of other pods see of it. Pods with equal
// namespace and labels share one identity.
type identity struct {
	namespace string
	known     bool // the compiler knows the namespace
	labels    labels.Set
	audiences []*audience // those it belongs to, sorted by id
}

func (i *identity) belongsTo(a *audience) bool {
	_, found := slices.BinarySearchFunc(i.audiences, a.id, func(b *audience, id int) int { return cmp.Compare(b.id, id) })
	return found
}

// audience is the set of pods that a constraint selects: those that match all its parts. It holds the ids of everything
// that counts or repels its members, so that placing a pod finds them all through the pod's identity.
type audience struct {
	id      int
	parts   []part
	tallies []int       // count its members by domain
	spreads []int       // count its members on eligible hosts by domain
	repels  []repulsion // by pods whose anti-affinity selects its members
}

// part is one selector with its namespaces.
type part struct {
	key        string // equal for equal parts
	selector   labels.Selector
	everywhere bool // in all namespaces
	unknown    bool // in namespaces that the compiler does not know
	namespaces map[string]bool
}

// repulsion is the anti-affinity of placed pods against an audience.
type repulsion struct {
	tally  int // counts those pods by domain
	key    int // the topology key
	reason string
}

func (p *part) matches(l *identity) bool {
	return (p.everywhere || p.namespaces[l.namespace] || p.unknown && !l.known) && p.selector.Matches(l.labels)
}

func (a *audience) matches(l *identity) bool {
	for i := range a.parts {
		if !a.parts[i].matches(l) {
			return false
		}
	}
	return true
}

// newPart makes a part and its key.
func newPart(selector labels.Selector, everywhere, unknown bool, namespaces map[string]bool) part {
	p := part{selector: selector, everywhere: everywhere, unknown: unknown, namespaces: namespaces}
	if everywhere {
		p.unknown, p.namespaces = false, nil // it makes no difference
	}
	var k keyBuilder
	k.add(selectorKey(selector))
	switch {
	case p.everywhere:
		k.add("everywhere")
	default:
		if p.unknown {
			k.add("unknown")
		}
		k.add(slices.Sorted(maps.Keys(p.namespaces))...)
	}
	p.key = k.String()
	return p
}

// pair is a label with its value.
type pair struct{ key, value string }

// hooks returns labels of which every member has exactly one, and whether such labels exist. Selectors nearly always
// name a value, so finding a pod's audiences takes one lookup per label instead of a scan of all audiences.
func (a *audience) hooks() ([]pair, bool) {
	for i := range a.parts {
		requirements, selects := a.parts[i].selector.Requirements()
		if !selects {
			return nil, true // no pod matches
		}
		for j := range requirements {
			switch requirements[j].Operator() {
			case selection.In, selection.Equals, selection.DoubleEquals:
				var hooks []pair
				for _, value := range requirements[j].Values().List() {
					hooks = append(hooks, pair{requirements[j].Key(), value})
				}
				return hooks, true
			}
		}
	}
	return nil, false
}

// census holds all identities and audiences, and which belong together.
type census struct {
	identities       map[string]*identity
	audiences        map[string]*audience
	allIdentities    []*identity
	identitiesByPair map[pair][]*identity
	byPair           map[pair][]*audience
	unhooked         []*audience
}

func newCensus() *census {
	return &census{
		identities: map[string]*identity{}, audiences: map[string]*audience{},
		identitiesByPair: map[pair][]*identity{}, byPair: map[pair][]*audience{},
	}
}

// identity returns the identity of the given namespace and labels, and its key.
func (c *census) identity(namespace string, known bool, set labels.Set) (*identity, string) {
	k := newKey(256)
	k.add(namespace)
	keys := slices.Sorted(maps.Keys(set))
	for _, key := range keys {
		k.add(key, set[key])
	}
	id := k.String()
	if l := c.identities[id]; l != nil {
		return l, id
	}
	l := &identity{namespace: namespace, known: known, labels: maps.Clone(set)}
	candidates := slices.Clone(c.unhooked)
	for _, key := range keys {
		at := pair{key, set[key]}
		candidates = append(candidates, c.byPair[at]...)
		c.identitiesByPair[at] = append(c.identitiesByPair[at], l)
	}
	for _, a := range candidates {
		if a.matches(l) {
			l.audiences = append(l.audiences, a)
		}
	}
	slices.SortFunc(l.audiences, func(a, b *audience) int { return cmp.Compare(a.id, b.id) })
	c.identities[id] = l
	c.allIdentities = append(c.allIdentities, l)
	return l, id
}

// audience returns the audience of the given parts, and its key.
func (c *census) audience(parts ...part) (*audience, string) {
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.key, b.key) })
	parts = slices.CompactFunc(parts, func(a, b part) bool { return a.key == b.key })
	var k keyBuilder
	for i := range parts {
		k.add(parts[i].key)
	}
	id := k.String()
	if a := c.audiences[id]; a != nil {
		return a, id
	}
	a := &audience{id: len(c.audiences), parts: parts}
	candidates := c.allIdentities
	if hooks, hooked := a.hooks(); hooked {
		candidates = nil
		for _, at := range hooks {
			c.byPair[at] = append(c.byPair[at], a)
			candidates = append(candidates, c.identitiesByPair[at]...)
		}
	} else {
		c.unhooked = append(c.unhooked, a)
	}
	for _, l := range candidates {
		if a.matches(l) {
			l.audiences = append(l.audiences, a) // ids grow, so the list stays sorted
		}
	}
	c.audiences[id] = a
	return a, id
}
