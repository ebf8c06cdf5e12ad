// Package drain drains nodes: it cordons a node, makes each of its pods leave by its own method, and uncordons the node
// if that fails.
//
// NodeFleets and the descheduler both use it. A node that is being drained carries a [Mark] with the owner of the
// drain, so that owners do not uncordon or drain each other's nodes.
//
// mark.go is the mark. step.go decides what to do next with one pod and is pure. node.go and leave.go carry it out.
package drain

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Descheduler is the owner of marks that no NodeFleet made. It cannot collide with the name of an object because it
// contains a capital letter.
const Descheduler = "Descheduler"

// Mark records who drains a node. It is stored in the annotation supercargo.dev/draining as OWNER/SINCE/UNTIL, with
// times in RFC 3339.
type Mark struct {
	// Owner is the name of a NodeFleet, or [Descheduler].
	Owner string
	// Since is when the node was cordoned.
	Since time.Time
	// Until is when the last pod is expected to have left; pods that end sooner are waited for. It is zero if no pod is
	// waited for.
	Until time.Time
}

// MarkOf returns the mark of a node, and whether it has one. A malformed time is returned as the zero time.
func MarkOf(node *corev1.Node) (Mark, bool) {
	text, ok := node.Annotations[v1alpha1.AnnotationDraining]
	if !ok {
		return Mark{}, false
	}
	owner, times, _ := strings.Cut(text, "/")
	since, until, _ := strings.Cut(times, "/")
	m := Mark{Owner: owner}
	m.Since, _ = time.Parse(time.RFC3339, since)
	m.Until, _ = time.Parse(time.RFC3339, until)
	return m, true
}

// String returns the value of the annotation.
func (m Mark) String() string {
	text := m.Owner + "/" + m.Since.UTC().Format(time.RFC3339)
	if !m.Until.IsZero() {
		text += "/" + m.Until.UTC().Format(time.RFC3339)
	}
	return text
}
