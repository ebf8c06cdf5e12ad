package v1alpha1

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
}

func (q *Query) setDefaults() {
	if q.NamespaceLabel == "" {
		q.NamespaceLabel = DefaultNamespaceLabel
	}
	if q.SelectBy == "" {
		q.SelectBy = SelectSeries
	}
}
