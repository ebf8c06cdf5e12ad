package sim

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
)

// noEvents discards the Events of the plugins.
type noEvents struct{}

// Eventf implements events.EventRecorder.
func (noEvents) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

// WithLogger implements events.EventRecorderLogger.
func (n noEvents) WithLogger(klog.Logger) events.EventRecorderLogger { return n }
