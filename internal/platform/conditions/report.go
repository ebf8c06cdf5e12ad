package conditions

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"supercargo.dev/supercargo/internal/text/clip"
)

// EventRecorder records an Event about an object, like the EventRecorder of client-go's tools/events, which implements it.
// That package would bring the clients of all kinds along.
type EventRecorder interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

// Reporter sets the conditions of one object and records Events about it, in one reconciliation.
type Reporter struct {
	Object client.Object
	// Conditions are those in the status of the object.
	Conditions *[]metav1.Condition
	// Now is the time of the reconciliation.
	Now time.Time
	// Events records Events. With DryRun, they are only logged.
	Events EventRecorder
	DryRun bool
	// Last is the subject of the last Event of each reason. It outlives the reconciliation, so that no Event is
	// repeated in each; whoever deletes a reason has its next Event recorded in any case.
	Last map[string]string
}

// Condition sets a condition of the object: see [Set].
func (r *Reporter) Condition(kind string, is bool, reason, message string) {
	Set(r.Conditions, kind, is, reason, message, r.Object.GetGeneration(), r.Now)
}

// Event records an Event, unless the last one with this reason had the same message.
func (r *Reporter) Event(kind, reason, action, message string) {
	r.EventAbout(message, kind, reason, action, message)
}

// EventAbout records an Event, unless the last one with this reason was about the same subject. A message longer than
// [MaxMessage] is truncated.
func (r *Reporter) EventAbout(subject, kind, reason, action, message string) {
	if r.Last[reason] == subject {
		return
	}
	r.Last[reason] = subject
	if r.DryRun {
		log.Log.Info(message, "object", klog.KObj(r.Object), "reason", reason)
		return
	}
	r.Events.Eventf(r.Object, nil, kind, reason, action, "%s", clip.Bytes(message, MaxMessage))
}
