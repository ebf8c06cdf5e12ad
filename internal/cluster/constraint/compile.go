package constraint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Compiler turns pods into their scheduling constraints. Equal constraints give the same [*Pod]. It grows with the
// number of different pods and never forgets one, so long-running planners must replace it from time to time.
type Compiler struct {
	// ResolvesNamespaces makes the compiler evaluate the namespace selector of a pod that is being placed as
	// kube-scheduler does since Kubernetes 1.37: against the namespaces that exist. Before, kube-scheduler also evaluates
	// it against empty labels. Set it before the first pod is compiled.
	ResolvesNamespaces bool
	// SpreadsAmongAll makes the compiler count all pods of the namespace for a spread constraint whose label selector is
	// empty, as kube-scheduler does since Kubernetes 1.38. Before, such a constraint counts none. Set it before the first
	// pod is compiled.
	SpreadsAmongAll bool

	namespaces map[string]labels.Set
	selected   map[string]bool // relevant label keys of pods; nil: all
	pods       map[string]*Pod
	compiled   compiled
	statics    map[string]*static
	census     *census

	keys       []string // topology keys by id
	keyIDs     map[string]int
	tallies    []tallyDef
	tallyIDs   map[string]int
	spreads    []*spreadDef
	spreadsIDs map[string]int

	residents []Resident
}

// tallyDef defines what a tally counts by domain of a topology key: the members of an audience, or, if audience is nil,
// the pods that have one anti-affinity term.
type tallyDef struct {
	audience *audience
	key      int
}

// spreadDef defines what a spread constraint counts, and on which hosts.
type spreadDef struct {
	audience *audience // nil: no pods
	key      int
	keys     []int   // a host needs all of these to count
	affinity *static // the host must be selected by it; nil: any host
	taints   *static // its taints must be tolerated by it; nil: any host
}

// NewCompiler returns a compiler that knows the given namespaces and their labels, which the namespace selectors of
// affinity terms need.
func NewCompiler(namespaces map[string]map[string]string) *Compiler {
	c := &Compiler{
		namespaces: map[string]labels.Set{}, pods: map[string]*Pod{}, statics: map[string]*static{}, census: newCensus(),
		keyIDs: map[string]int{}, tallyIDs: map[string]int{}, spreadsIDs: map[string]int{}, compiled: compiled{pods: map[string]*Pod{}},
	}
	for name, set := range namespaces {
		c.namespaces[name] = maps.Clone(set)
	}
	return c
}

// Compile returns the constraints of the pod. The error names each field that cannot be parsed; the API server would
// have rejected such a pod.
//
// The API server merges matchLabelKeys and mismatchLabelKeys of affinity terms into the selector when a pod is created.
// Compile does so for pods that the API server has not seen, whose selector lacks the key.
func (c *Compiler) Compile(pod *corev1.Pod) (*Pod, error) {
	return c.compile(pod, pod.Spec.NodeName)
}

// CompileSuccessor is [Compiler.Compile] for a pod that replaces the given one. The replacement is not bound to the
// node on which the given pod runs.
func (c *Compiler) CompileSuccessor(pod *corev1.Pod) (*Pod, error) {
	return c.compile(pod, "")
}

func (c *Compiler) compile(pod *corev1.Pod, nodeName string) (*Pod, error) {
	set, err := c.selectable(pod)
	if err != nil {
		return nil, err
	}
	if known := c.compiled.find(pod, nodeName, set); known != nil {
		return known, nil
	}
	p, err := c.compileAll(pod, nodeName, set)
	if err == nil {
		c.compiled.remember(p)
	}
	return p, err
}

// compileAll compiles all constraints of a pod with the given labels.
func (c *Compiler) compileAll(pod *corev1.Pod, nodeName string, set map[string]string) (*Pod, error) {
	static, errs := newStatic(pod, nodeName)
	if known := c.statics[static.key]; known != nil {
		static = known
	} else if len(errs) == 0 {
		c.statics[static.key] = static
	}
	d := &draft{c: c, pod: pod, p: &Pod{compiler: c, static: static}, key: newKey(512), errs: errs}
	_, known := c.namespaces[pod.Namespace]
	var id string
	d.p.identity, id = c.census.identity(pod.Namespace, known, set)
	d.key.add(static.key, id)
	d.hostPorts()
	d.podAffinity()
	d.podAntiAffinity()
	d.topologySpread()
	if err := d.errs.ToAggregate(); err != nil {
		return nil, fmt.Errorf("compile the constraints of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	d.p.key = d.key.String()
	if p := c.pods[d.p.key]; p != nil {
		return p, nil
	}
	c.pods[d.p.key] = d.p
	return d.p, nil
}

// draft is a pod during compilation.
type draft struct {
	c    *Compiler
	pod  *corev1.Pod
	p    *Pod
	key  keyBuilder
	errs field.ErrorList
}

// hostPorts reads the host ports of containers and sidecars. Other init containers do not run as long as the pod.
func (d *draft) hostPorts() {
	for i := range d.pod.Spec.InitContainers {
		container := &d.pod.Spec.InitContainers[i]
		if container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			d.containerPorts(container.Ports)
		}
	}
	for i := range d.pod.Spec.Containers {
		d.containerPorts(d.pod.Spec.Containers[i].Ports)
	}
	slices.SortFunc(d.p.ports, comparePorts)
	d.p.ports = slices.Compact(d.p.ports)
	for _, p := range d.p.ports {
		d.key.add("port", p.ip, string(p.protocol), strconv.Itoa(int(p.number)))
	}
}

func (d *draft) containerPorts(ports []corev1.ContainerPort) {
	for _, in := range ports {
		if in.HostPort > 0 {
			d.p.ports = append(d.p.ports, newPort(in))
		}
	}
}

func (d *draft) podAffinity() {
	if d.pod.Spec.Affinity == nil || d.pod.Spec.Affinity.PodAffinity == nil {
		return
	}
	terms := d.pod.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	path := field.NewPath("spec", "affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
	var parts []part
	var keys []string
	for i := range terms {
		incoming, _, errs := d.term(&terms[i], path.Index(i))
		d.errs = append(d.errs, errs...)
		parts, keys = append(parts, incoming), append(keys, terms[i].TopologyKey)
	}
	if len(parts) == 0 || len(d.errs) > 0 {
		return
	}
	audience, id := d.c.census.audience(parts...)
	d.key.add("affinity", id)
	d.p.affinity = &affinity{self: audience.matches(d.p.identity)}
	slices.Sort(keys)
	for _, name := range slices.Compact(keys) {
		d.key.add("by", name)
		key := d.c.topologyKey(name)
		d.p.affinity.terms = append(d.p.affinity.terms, affinityTerm{
			tally: d.c.members(audience, id, key), key: key,
			missing: "pod affinity needs label " + name, reason: "pod affinity on " + name,
		})
	}
}

func (d *draft) podAntiAffinity() {
	if d.pod.Spec.Affinity == nil || d.pod.Spec.Affinity.PodAntiAffinity == nil {
		return
	}
	terms := d.pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	path := field.NewPath("spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
	type held struct {
		key  string
		term apart
	}
	var all []held
	for i := range terms {
		incoming, placed, errs := d.term(&terms[i], path.Index(i))
		if d.errs = append(d.errs, errs...); len(d.errs) > 0 {
			continue
		}
		name := terms[i].TopologyKey
		audience, id := d.c.census.audience(incoming)
		kept, keptID := d.c.census.audience(placed)
		key := d.c.topologyKey(name)
		var k keyBuilder
		k.add("apart", id, keptID, name)
		all = append(all, held{k.String(), apart{
			tally: d.c.members(audience, id, key), held: d.c.holders(kept, keptID, key), key: key,
			reason: "pod anti-affinity on " + name,
		}})
	}
	slices.SortFunc(all, func(a, b held) int { return cmp.Compare(a.key, b.key) })
	all = slices.CompactFunc(all, func(a, b held) bool { return a.key == b.key })
	for _, h := range all {
		d.key.add(h.key)
		d.p.apart = append(d.p.apart, h.term)
	}
}

func (d *draft) topologySpread() {
	path := field.NewPath("spec", "topologySpreadConstraints")
	var hard []*corev1.TopologySpreadConstraint
	var selectors []labels.Selector
	var keys []int
	for i := range d.pod.Spec.TopologySpreadConstraints {
		in := &d.pod.Spec.TopologySpreadConstraints[i]
		if in.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		selector, err := d.spreadSelector(in, path.Index(i))
		if err != nil {
			d.errs = append(d.errs, err)
			continue
		}
		hard, selectors = append(hard, in), append(selectors, selector)
		keys = append(keys, d.c.topologyKey(in.TopologyKey))
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	for i, in := range hard {
		d.spread(in, selectors[i], keys)
	}
}

// spread adds one hard constraint; keys are the topology keys of all hard constraints of the pod.
func (d *draft) spread(in *corev1.TopologySpreadConstraint, selector labels.Selector, keys []int) {
	def := &spreadDef{key: d.c.topologyKey(in.TopologyKey), keys: keys}
	var k keyBuilder
	k.add(in.TopologyKey)
	for _, key := range keys {
		k.add(d.c.keys[key])
	}
	if in.NodeAffinityPolicy == nil || *in.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor {
		def.affinity = d.p.static
		k.add("affinity", d.p.static.key)
	}
	if in.NodeTaintsPolicy != nil && *in.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor {
		def.taints = d.p.static
		k.add("taints", d.p.static.key)
	}
	if !selector.Empty() || d.c.SpreadsAmongAll {
		var id string
		def.audience, id = d.c.census.audience(newPart(selector, false, false, map[string]bool{d.pod.Namespace: true}))
		k.add("of", id)
	}
	term := spreadTerm{
		spread: d.c.spread(def, k.String()), key: def.key, maxSkew: int(in.MaxSkew),
		missing: "topology spread needs label " + in.TopologyKey,
		reason:  fmt.Sprintf("topology spread over %s exceeds skew %d", in.TopologyKey, in.MaxSkew),
	}
	if in.MinDomains != nil {
		term.minDomains = int(*in.MinDomains)
	}
	if selector.Matches(labels.Set(d.pod.Labels)) {
		term.self = 1
	}
	d.key.add("spread", k.String(), strconv.Itoa(term.maxSkew), strconv.Itoa(term.minDomains), strconv.Itoa(term.self))
	d.p.spreads = append(d.p.spreads, term)
}

// spreadSelector returns the selector of the pods that a constraint counts, including the pod's own values of
// matchLabelKeys.
func (d *draft) spreadSelector(in *corev1.TopologySpreadConstraint, path *field.Path) (labels.Selector, *field.Error) {
	selector, err := metav1.LabelSelectorAsSelector(in.LabelSelector)
	if err != nil {
		return nil, field.Invalid(path.Child("labelSelector"), "", err.Error())
	}
	own := labels.Set{}
	for _, key := range in.MatchLabelKeys {
		if value, ok := d.pod.Labels[key]; ok {
			own[key] = value
		}
	}
	requirements, selects := selector.Requirements()
	if len(own) == 0 || !selects {
		return selector, nil
	}
	return labels.SelectorFromSet(own).Add(requirements...), nil
}

// topologyKey returns the id of a topology key.
func (c *Compiler) topologyKey(name string) int {
	id, ok := c.keyIDs[name]
	if !ok {
		id = len(c.keys)
		c.keyIDs[name] = id
		c.keys = append(c.keys, name)
	}
	return id
}

// members returns the tally of an audience by the domains of a key.
func (c *Compiler) members(a *audience, audienceID string, key int) int {
	id, isNew := c.tally("members", audienceID, key, tallyDef{audience: a, key: key})
	if isNew {
		a.tallies = append(a.tallies, id)
	}
	return id
}

// holders returns the tally of the pods whose anti-affinity selects an audience.
func (c *Compiler) holders(a *audience, audienceID string, key int) int {
	id, isNew := c.tally("holders", audienceID, key, tallyDef{key: key})
	if isNew {
		a.repels = append(a.repels, repulsion{tally: id, key: key, reason: "anti-affinity of a placed pod on " + c.keys[key]})
	}
	return id
}

func (c *Compiler) tally(what, audienceID string, key int, def tallyDef) (id int, isNew bool) {
	var k keyBuilder
	k.add(what, audienceID, c.keys[key])
	if id, ok := c.tallyIDs[k.String()]; ok {
		return id, false
	}
	id = len(c.tallies)
	c.tallyIDs[k.String()] = id
	c.tallies = append(c.tallies, def)
	return id, true
}

func (c *Compiler) spread(def *spreadDef, key string) int {
	id, ok := c.spreadsIDs[key]
	if !ok {
		id = len(c.spreads)
		c.spreadsIDs[key] = id
		c.spreads = append(c.spreads, def)
		if def.audience != nil {
			def.audience.spreads = append(def.audience.spreads, id)
		}
	}
	return id
}
