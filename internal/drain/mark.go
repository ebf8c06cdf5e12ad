// Package drain empties nodes: it cordons a node, has those that are there leave
// it, each by its own way, and uncordons it where that fails.
//
// NodeFleets and the descheduler both use it. A node that is being emptied carries a
// [Mark], which says who does that, so that nobody uncordons or empties the node of another.
//
// mark.go is the mark, step.go decides what to do next with one pod and is pure, node.go
// and leave.go do it.
package drain

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Descheduler is the owner of marks that no NodeFleet has made: no object can have a name
// with a capital letter.
const Descheduler = "Descheduler"

// Mark is what a node says of who empties it, as the annotation supercargo.dev/draining:
// OWNER/SINCE/UNTIL, times in RFC 3339.
type Mark struct {
	// Owner is the name of a NodeFleet, or [Descheduler].
	Owner string
	// Since is when the node was cordoned.
	Since time.Time
	// Until is when its last pod is expected to have left: those that end sooner are
	// waited for. Zero if none is.
	Until time.Time
}

// MarkOf returns the mark of a node, and whether it has one. A time that is none was long
// ago.
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
