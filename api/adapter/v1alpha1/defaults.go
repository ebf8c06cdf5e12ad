package v1alpha1

import (
	"cmp"
	"strings"
	"time"
)

// DefaultNamespaceLabel is the default label that contains the namespace of a series.
const DefaultNamespaceLabel = "namespace"

// The defaults of a [WorkQueue]. The timeout is long because a manager serves one connection at a
// time.
const (
	DefaultWorkQueueInterval = 15 * time.Second
	DefaultWorkQueueTimeout  = 15 * time.Second
)

// SetDefaults fills absent fields.
func SetDefaults(c *MetricsAdapterConfiguration) {
	for i := range c.WorkQueues {
		q := &c.WorkQueues[i]
		q.Interval.Duration = cmp.Or(q.Interval.Duration, DefaultWorkQueueInterval)
		q.Timeout.Duration = cmp.Or(q.Timeout.Duration, DefaultWorkQueueTimeout)
	}
	for i := range c.External {
		c.External[i].setDefaults()
	}
	for i := range c.Custom {
		c.Custom[i].setDefaults()
	}
	for i := range c.Presets {
		if p := &c.Presets[i]; p.Prefix == "" {
			p.Prefix = strings.ReplaceAll(p.Name, "-", "_")
		}
	}
}

func (q *Query) setDefaults() {
	if q.NamespaceLabel == "" {
		q.NamespaceLabel = DefaultNamespaceLabel
	}
	if q.SelectBy == "" {
		q.SelectBy = SelectSeries
	}
}
