package v1alpha1

import "strings"

// DefaultNamespaceLabel is the label of series that tells their namespace.
const DefaultNamespaceLabel = "namespace"

// SetDefaults fills absent fields.
func SetDefaults(c *MetricsAdapterConfiguration) {
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
