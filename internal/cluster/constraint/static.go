package constraint

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"supercargo.dev/supercargo/internal/cluster/capacity"
)

// static holds the constraints of a pod that depend on the host alone.
type static struct {
	key           string // equal for equal demands
	nodeName      string
	selector      []equals      // by label key
	affinity      *nodeAffinity // nil: none required
	tolerations   []corev1.Toleration
	unschedulable bool // tolerates a cordoned host
	unfit         []Unfit
	disk          int64 // the bytes of ephemeral storage that it needs
	volumes       []Volumes
	leaves        bool // its host must be known to have the drivers of the volumes, and the ephemeral storage
	steady        bool // it must not run on a machine that may be interrupted
}

// equals requires a label with one value. The reason is that of a host without it.
type equals struct{ key, value, reason string }

// NodeAffinity begins the reasons of hosts that do not fulfil a required node affinity.
const NodeAffinity = "node affinity "

// nodeAffinity requires that one of its terms matches. Without terms nothing matches.
type nodeAffinity struct {
	terms  []nodeTerm
	reason string
}

type nodeTerm struct {
	labels labels.Selector // nil: any
	fields fields.Selector // nil: any
}

// admits returns the first reason why the host rejects the pod, in the order of kube-scheduler's filters, or "".
func (s *static) admits(h *Host) (why string) {
	s.reject(h, func(first string) bool {
		why = first
		return false
	})
	return why
}

// reject calls say with each reason why the host rejects the pod, in the order of kube-scheduler's filters, until say
// returns false.
func (s *static) reject(h *Host, say func(why string) (more bool)) {
	if h.Unschedulable && !s.unschedulable && !say("unschedulable") {
		return
	}
	if s.nodeName != "" && s.nodeName != h.Name && !say("node name "+s.nodeName) {
		return
	}
	if s.rejectTaints(h, say) && s.rejectLabels(h, say) && s.rejectStorage(h, say) {
		if why := s.unfitFor(h); why != "" {
			say(why)
		}
	}
}

// rejectTaints calls say with each taint of the host that keeps the pod off it. It reports whether there may be more reasons.
func (s *static) rejectTaints(h *Host, say func(why string) (more bool)) (more bool) {
	for i := range h.Taints {
		if taint := &h.Taints[i]; s.repelledBy(taint) && !say("untolerated taint "+taint.ToString()) {
			return false
		}
	}
	return true
}

// rejectLabels is rejectTaints for the node selector and the required node affinity.
func (s *static) rejectLabels(h *Host, say func(why string) (more bool)) (more bool) {
	for _, want := range s.selector {
		if value, ok := (hostLabels{h}).Lookup(want.key); (!ok || value != want.value) && !say(want.reason) {
			return false
		}
	}
	if s.affinity != nil && !s.affinity.matches(h) && !say(s.affinity.reason) {
		return false
	}
	return !s.steady || capacity.Of(h.Labels) != capacity.Spot || say(capacity.Refusal)
}

// rejectStorage is rejectTaints for ephemeral storage and attached volumes.
func (s *static) rejectStorage(h *Host, say func(why string) (more bool)) (more bool) {
	if h.Disk == nil && s.disk > 0 && s.leaves && !say("it is unknown how much ephemeral storage there is") {
		return false
	}
	if h.Disk != nil && s.disk > h.Disk.Free && !say(fmt.Sprintf("insufficient ephemeral-storage: it needs %s of %s that are free", bytes(s.disk), bytes(h.Disk.Free))) {
		return false
	}
	why := s.attaches(h)
	return why == "" || say(why)
}

// repelledBy reports whether a taint keeps the pod off its host.
func (s *static) repelledBy(taint *corev1.Taint) bool {
	return (taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute) && !s.tolerates(taint)
}

// unmet calls say with the requirements of a node affinity with one term that the host does not fulfil, as reasons, unless
// there is only one requirement.
func (s *static) unmet(h *Host, say func(why string)) {
	if s.affinity == nil || len(s.affinity.terms) != 1 || s.affinity.terms[0].labels == nil {
		return
	}
	requirements, _ := s.affinity.terms[0].labels.Requirements()
	if len(requirements) < 2 && s.affinity.terms[0].fields == nil {
		return
	}
	for i := range requirements {
		if r := &requirements[i]; !r.Matches(hostLabels{h}) {
			say(NodeAffinity + r.String())
		}
	}
}

func bytes(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }

// selects reports whether the host matches the pod's node selector and node affinity.
func (s *static) selects(h *Host) bool {
	for _, want := range s.selector {
		if value, ok := (hostLabels{h}).Lookup(want.key); !ok || value != want.value {
			return false
		}
	}
	return s.affinity == nil || s.affinity.matches(h)
}

// untolerated returns the first taint that the pod does not tolerate, or nil.
func (s *static) untolerated(h *Host) *corev1.Taint {
	for i := range h.Taints {
		if s.repelledBy(&h.Taints[i]) {
			return &h.Taints[i]
		}
	}
	return nil
}

func (s *static) tolerates(taint *corev1.Taint) bool {
	return slices.ContainsFunc(s.tolerations, func(t corev1.Toleration) bool { return tolerates(&t, taint) })
}

// tolerates is ToleratesTaint of the API without the logger and without Lt and Gt, which are disabled by default. The
// operator must have been defaulted.
func tolerates(t *corev1.Toleration, taint *corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case corev1.TolerationOpEqual:
		return t.Value == taint.Value
	case corev1.TolerationOpExists:
		return true
	}
	return false
}

func (a *nodeAffinity) matches(h *Host) bool {
	for i := range a.terms {
		if a.terms[i].matches(h) {
			return true
		}
	}
	return false
}

func (t *nodeTerm) matches(h *Host) bool {
	return (t.labels == nil || t.labels.Matches(hostLabels{h})) &&
		(t.fields == nil || t.fields.Matches(fields.Set{"metadata.name": h.Name}))
}

// newStatic reads the constraints on the host. Errors name the field.
func newStatic(pod *corev1.Pod, nodeName string) (*static, field.ErrorList) {
	spec := &pod.Spec
	s := &static{nodeName: nodeName}
	accepts, _ := capacity.Accepts(pod) // an invalid value counts as none
	s.steady = !accepts
	for key, value := range spec.NodeSelector {
		s.selector = append(s.selector, equals{key, value, "node selector " + key + "=" + value})
	}
	slices.SortFunc(s.selector, func(a, b equals) int { return strings.Compare(a.key, b.key) })
	for _, t := range spec.Tolerations {
		t.TolerationSeconds = nil // it limits how long the pod stays, not where it may run
		t.Operator = cmp.Or(t.Operator, corev1.TolerationOpEqual)
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.Contains(s.tolerations, t) {
			s.tolerations = append(s.tolerations, t)
		}
	}
	slices.SortFunc(s.tolerations, func(a, b corev1.Toleration) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Operator, b.Operator), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
	s.unschedulable = s.tolerates(&corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	var errs field.ErrorList
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		s.affinity, errs = newNodeAffinity(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			field.NewPath("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"))
	}
	s.key = s.encode()
	return s, errs
}

func (s *static) encode() string {
	k := newKey(256)
	k.add("name", s.nodeName)
	for _, want := range s.selector {
		k.add("select", want.key, want.value)
	}
	for i := range s.tolerations {
		t := &s.tolerations[i]
		k.add("tolerate", t.Key, string(t.Operator), t.Value, string(t.Effect))
	}
	if s.affinity != nil {
		k.add("affinity", s.affinity.reason)
	}
	if s.steady {
		k.add("steady")
	}
	return k.String()
}

func newNodeAffinity(required *corev1.NodeSelector, path *field.Path) (*nodeAffinity, field.ErrorList) {
	a := &nodeAffinity{}
	var errs field.ErrorList
	var texts []string
	for i := range required.NodeSelectorTerms {
		in := &required.NodeSelectorTerms[i]
		if len(in.MatchExpressions) == 0 && len(in.MatchFields) == 0 {
			continue // an empty term matches nothing
		}
		at := path.Child("nodeSelectorTerms").Index(i)
		selector, text, labelErrs := labelRequirements(in.MatchExpressions, at.Child("matchExpressions"))
		names, nameText, fieldErrs := fieldRequirements(in.MatchFields, at.Child("matchFields"))
		errs = append(append(errs, labelErrs...), fieldErrs...)
		a.terms = append(a.terms, nodeTerm{labels: selector, fields: names})
		texts = append(texts, strings.Join(append(text, nameText...), ","))
	}
	slices.Sort(texts) // terms are alternatives, so their order does not matter
	a.reason = NodeAffinity + strings.Join(slices.Compact(texts), " or ")
	if len(a.terms) == 0 {
		a.reason = "node affinity without terms"
	}
	return a, errs
}

var nodeOperators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn:           selection.In,
	corev1.NodeSelectorOpNotIn:        selection.NotIn,
	corev1.NodeSelectorOpExists:       selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt:           selection.GreaterThan,
	corev1.NodeSelectorOpLt:           selection.LessThan,
}

// labelRequirements returns the selector and its requirements as sorted text. A nil selector selects everything.
func labelRequirements(in []corev1.NodeSelectorRequirement, path *field.Path) (labels.Selector, []string, field.ErrorList) {
	if len(in) == 0 {
		return nil, nil, nil
	}
	var errs field.ErrorList
	var requirements []labels.Requirement
	for i, r := range in {
		at := path.Index(i)
		op, ok := nodeOperators[r.Operator]
		if !ok {
			errs = append(errs, field.NotSupported(at.Child("operator"), r.Operator, []corev1.NodeSelectorOperator{}))
			continue
		}
		requirement, err := labels.NewRequirement(r.Key, op, r.Values)
		if err != nil {
			errs = append(errs, field.Invalid(at, r.Key, err.Error()))
			continue
		}
		requirements = append(requirements, *requirement)
	}
	return labels.NewSelector().Add(requirements...), texts(requirements), errs
}

// fieldRequirements is labelRequirements for fields. The only field is metadata.name.
func fieldRequirements(in []corev1.NodeSelectorRequirement, path *field.Path) (fields.Selector, []string, field.ErrorList) {
	if len(in) == 0 {
		return nil, nil, nil
	}
	var errs field.ErrorList
	var selectors []fields.Selector
	var text []string
	for i, r := range in {
		at := path.Index(i)
		if len(r.Values) != 1 {
			errs = append(errs, field.Invalid(at.Child("values"), r.Values, "must have one element"))
			continue
		}
		switch r.Operator {
		case corev1.NodeSelectorOpIn:
			selectors = append(selectors, fields.OneTermEqualSelector(r.Key, r.Values[0]))
			text = append(text, r.Key+"="+quoteIfOdd(r.Values[0]))
		case corev1.NodeSelectorOpNotIn:
			selectors = append(selectors, fields.OneTermNotEqualSelector(r.Key, r.Values[0]))
			text = append(text, r.Key+"!="+quoteIfOdd(r.Values[0]))
		default:
			errs = append(errs, field.NotSupported(at.Child("operator"), r.Operator,
				[]corev1.NodeSelectorOperator{corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn}))
		}
	}
	slices.Sort(text)
	return fields.AndSelectors(selectors...), text, errs
}

// quoteIfOdd quotes a name that could be mistaken for several.
func quoteIfOdd(s string) string {
	if strings.ContainsAny(s, " ,=!\"'\\") || s == "" {
		return strconv.Quote(s)
	}
	return s
}
