package sim

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// noEvents drops the Events of the plugins.
type noEvents struct{}

// Eventf implements events.EventRecorder.
func (noEvents) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}
