// Package conditions sets the conditions of objects, records Events about them without repeating them, and exports conditions
// as a metric, so that alerts can use them.
package conditions

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/text/clip"
)

// MaxMessage is the maximum length in bytes of the message of a condition or an Event, because objects in etcd must be
// small.
const MaxMessage = 1024

// Set sets a condition of an object to True or False. Its transition time is now if the status changes. A message
// longer than [MaxMessage] is truncated.
func Set(list *[]metav1.Condition, kind string, is bool, reason, message string, generation int64, now time.Time) {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(list, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: clip.Bytes(message, MaxMessage), ObservedGeneration: generation,
		LastTransitionTime: metav1.NewTime(now),
	})
}

// Gauge has a series with value 1 for each condition of an object, with the labels that identify the object, and the
// condition's "type", "status" and "reason". It is a [prometheus.Collector]. All methods are safe for concurrent use
// and cost a few map lookups per condition.
type Gauge struct {
	vec *prometheus.GaugeVec

	mu       sync.Mutex
	reported map[string][]metav1.Condition // by object; only type, status and reason
}

var _ prometheus.Collector = (*Gauge)(nil)

// New returns a gauge with the given name. object are the labels that identify an object, such as "namespace" and
// "name".
func New(name, help string, object ...string) *Gauge {
	return &Gauge{
		vec:      prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, slices.Concat(object, []string{"type", "status", "reason"})),
		reported: map[string][]metav1.Condition{},
	}
}

// Describe implements [prometheus.Collector].
func (g *Gauge) Describe(to chan<- *prometheus.Desc) { g.vec.Describe(to) }

// Collect implements [prometheus.Collector].
func (g *Gauge) Collect(to chan<- prometheus.Metric) { g.vec.Collect(to) }

// Publish replaces the conditions of an object. object are the values of the labels that identify it, in the order of
// [New]. Series of unchanged conditions are never removed, because a gap would reset an alert's pending time.
func (g *Gauge) Publish(conditions []metav1.Condition, object ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := make([]metav1.Condition, len(conditions))
	for i := range conditions {
		now[i] = metav1.Condition{Type: conditions[i].Type, Status: conditions[i].Status, Reason: conditions[i].Reason}
		g.vec.WithLabelValues(values(object, now[i])...).Set(1)
	}
	key := keyOf(object)
	for _, before := range g.reported[key] {
		if !slices.Contains(now, before) {
			g.vec.DeleteLabelValues(values(object, before)...)
		}
	}
	g.reported[key] = now
}

// Forget removes an object that no longer exists.
func (g *Gauge) Forget(object ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := keyOf(object)
	for _, before := range g.reported[key] {
		g.vec.DeleteLabelValues(values(object, before)...)
	}
	delete(g.reported, key)
}

func values(object []string, c metav1.Condition) []string {
	return slices.Concat(object, []string{c.Type, string(c.Status), c.Reason})
}

// keyOf joins names of objects, which contain no slash.
func keyOf(object []string) string { return strings.Join(object, "/") }
