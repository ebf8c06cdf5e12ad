package status

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"supercargo.dev/supercargo/internal/text/clip"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Unschedulable is the message of kube-scheduler about a pod that no node suits.
type Unschedulable struct {
	// Nodes is the number of nodes, and Reasons why they do not suit, the most frequent first. A node may have several.
	Nodes   int
	Reasons []NodeReason
	// Whole is the reason if it is about no node in particular, such as a volume claim that does not exist.
	Whole string
	// Preemption is what the message says about preemption.
	Preemption string
}

// noState is what the PostFilter of kube-scheduler's plugin DynamicResources adds if another plugin has rejected the pod
// before the plugin's PreFilter: the state of that is not found. It says nothing about the pod.
const noState = "not found"

// NodeReason is a reason of kube-scheduler, with the number of nodes that have it.
type NodeReason struct {
	Nodes  int
	Reason string
}

var (
	// unavailable matches the beginning of the message.
	unavailable = regexp.MustCompile(`^0/(\d+) nodes are available:? ?`)
	// counted matches one of its reasons.
	counted = regexp.MustCompile(`^(\d+) (.+)$`)
)

// ParseUnschedulable parses the message of kube-scheduler, and reports whether it has that form.
func ParseUnschedulable(message string) (u Unschedulable, is bool) {
	begin := unavailable.FindStringSubmatch(message)
	if begin == nil {
		return u, false
	}
	u.Nodes, _ = strconv.Atoi(begin[1])
	// The reasons end with a full stop; messages of PostFilter plugins, such as preemption, follow.
	text, after, _ := strings.Cut(message[len(begin[0]):], ". ")
	if _, preemption, is := strings.Cut(after, "preemption: "); is {
		after = preemption
	}
	if u.Preemption = strings.TrimSuffix(strings.TrimSpace(after), "."); u.Preemption == noState {
		u.Preemption = ""
	}
	text = strings.TrimSuffix(strings.TrimSpace(text), ".")
	for part := range strings.SplitSeq(text, ", ") {
		m := counted.FindStringSubmatch(part)
		if m == nil { // a reason with a comma in it
			if last := len(u.Reasons) - 1; last >= 0 {
				u.Reasons[last].Reason += ", " + part
			}
			continue
		}
		n, _ := strconv.Atoi(m[1])
		u.Reasons = append(u.Reasons, NodeReason{n, m[2]})
	}
	if len(u.Reasons) == 0 {
		u.Whole = text
	}
	slices.SortStableFunc(u.Reasons, func(a, b NodeReason) int { return cmp.Compare(b.Nodes, a.Nodes) })
	return u, true
}

// The limits of a sentence about a message.
const (
	mostShort     = 3   // reasons
	longestReason = 120 // bytes of one that has no words of its own
)

// Sentence returns the message in short: the most frequent reasons in plain words. Others are quoted, at most 120 bytes of
// each.
func (u *Unschedulable) Sentence() string {
	var parts []string
	for _, r := range u.Reasons[:min(len(u.Reasons), mostShort)] {
		count := fmt.Sprint(r.Nodes)
		if r.Nodes == u.Nodes {
			count = plural.All(u.Nodes, "node")
		}
		parts = append(parts, count+" "+r.words())
	}
	if len(parts) == 0 {
		return ""
	}
	if more := len(u.Reasons) - len(parts); more > 0 {
		parts = append(parts, plural.Count(more, "other reason")+" "+plural.Form(more, "applies", "apply")+" to fewer nodes")
	}
	sentence := plural.List(parts) + "."
	if u.Reasons[0].Nodes == u.Nodes {
		return strings.ToUpper(sentence[:1]) + sentence[1:]
	}
	return fmt.Sprintf("Of %s, %s", plural.Count(u.Nodes, "node"), sentence)
}

// OfNode returns what the message says of the only node on which a pod can run, without those that the pod's affinity to that
// name excludes; empty if it counts several nodes for another reason, or none.
func (u *Unschedulable) OfNode(name string) string {
	var parts []string
	for _, r := range u.Reasons {
		switch {
		case strings.Contains(r.Reason, byName):
		case r.Nodes != 1:
			return ""
		default:
			parts = append(parts, r.words())
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "Node " + name + " " + strings.Join(parts, " and ") + "."
}

// words returns what a reason says of its nodes.
func (r NodeReason) words() string {
	if what, is := strings.CutPrefix(r.Reason, "Insufficient "); is {
		return plural.Form(r.Nodes, "has", "have") + " too little free " + cmp.Or(map[string]string{"cpu": "CPU"}[what], what)
	}
	for _, k := range knownReasons {
		if strings.Contains(r.Reason, k.text) {
			return plural.Form(r.Nodes, k.one, k.many)
		}
	}
	return fmt.Sprintf("%s refused: %s", plural.Form(r.Nodes, "is", "are"), clip.Bytes(strings.TrimPrefix(r.Reason, "node(s) "), longestReason))
}

// byName is in the reason of nodes that a pod's affinity to metadata.name excludes.
const byName = "didn't satisfy plugin(s) [NodeAffinity]"

// knownReasons are the frequent reasons of kube-scheduler, by a text that they contain, and what they say of one node and
// of many.
var knownReasons = []struct{ text, one, many string }{
	{"Too many pods", "runs as many pods as it may", "run as many pods as they may"},
	{"were unschedulable", "is cordoned", "are cordoned"},
	{"untolerated taint", "has a taint that the pod does not tolerate", "have a taint that the pod does not tolerate"},
	{"had taints that the pod didn't tolerate", "has a taint that the pod does not tolerate", "have a taint that the pod does not tolerate"},
	{"didn't match Pod's node affinity/selector", "lacks the labels that the pod selects nodes by", "lack the labels that the pod selects nodes by"},
	{byName, "is excluded by the pod's affinity to names of nodes", "are excluded by the pod's affinity to names of nodes"},
	{"didn't find available persistent volumes to bind", "has no free volume for the pod's claim", "have no free volume for the pod's claim"},
	{"(missing required label)", "lacks a label that the pod's topology spread constraints require", "lack a label that the pod's topology spread constraints require"},
	{"didn't match pod topology spread constraints", "would break the pod's topology spread constraints", "would break the pod's topology spread constraints"},
	{"didn't satisfy existing pods anti-affinity rules", "runs a pod whose anti-affinity excludes the pod", "run pods whose anti-affinity excludes the pod"},
	{"didn't match pod anti-affinity rules", "is excluded by the pod's anti-affinity", "are excluded by the pod's anti-affinity"},
	{"didn't match pod affinity rules", "is not where the pod's affinity requires", "are not where the pod's affinity requires"},
	{"didn't have free ports", "has the host port in use", "have the host port in use"},
	{"didn't match PersistentVolume's node affinity", "cannot reach the pod's volume", "cannot reach the pod's volume"},
	{"volume node affinity conflict", "cannot reach the pod's volume", "cannot reach the pod's volume"},
	{"had no available volume zone", "is in another zone than the pod's volume", "are in another zone than the pod's volume"},
	{"exceed max volume count", "has no room for another volume", "have no room for another volume"},
	{"node(s) took only", "takes pods of another class only", "take pods of another class only"},
}
