package status

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"supercargo.dev/supercargo/internal/text/clip"
)

// ofEvent returns an Event as a decision. A repeated Event has its last time.
func ofEvent(e *eventsv1.Event) Decision {
	at := e.EventTime.Time
	if e.Series != nil {
		at = e.Series.LastObservedTime.Time
	}
	if at.IsZero() {
		at = cmp.Or(e.DeprecatedLastTimestamp.Time, e.CreationTimestamp.Time)
	}
	object := e.Regarding.Kind + " " + e.Regarding.Name
	if e.Regarding.Namespace != "" && e.Regarding.Kind != "Node" {
		object = e.Regarding.Kind + " " + e.Regarding.Namespace + "/" + e.Regarding.Name
	}
	return Decision{
		Key: "Event/" + e.Namespace + "/" + e.Name, At: at.UnixMilli(), Object: object, Warning: e.Type == corev1.EventTypeWarning,
		Summary: clip.Bytes(e.Reason+": "+e.Note, longest),
	}
}
