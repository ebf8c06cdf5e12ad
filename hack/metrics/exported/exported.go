// Package exported lists the metrics that the programs export. It reads the registries that they serve.
// Dashboards and alerts are checked against the list, and a page of the documentation is generated from it.
package exported

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/clock"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	adapter "supercargo.dev/supercargo/autoscaler/adapter/app"
	"supercargo.dev/supercargo/autoscaler/adapter/discover"
	"supercargo.dev/supercargo/autoscaler/adapter/nginx"
	"supercargo.dev/supercargo/autoscaler/adapter/pace"
	"supercargo.dev/supercargo/autoscaler/adapter/store"
	"supercargo.dev/supercargo/autoscaler/adapter/tasks"
	_ "supercargo.dev/supercargo/autoscaler/app" // registers its metrics
	"supercargo.dev/supercargo/descheduler/agent"
	_ "supercargo.dev/supercargo/descheduler/app" // registers its metrics
	"supercargo.dev/supercargo/energy/nodemeter/meter"
	"supercargo.dev/supercargo/plugins/checkpointstaging"
	"supercargo.dev/supercargo/plugins/energyperformance"
	"supercargo.dev/supercargo/plugins/narrowing"
)

// Metric is a metric that a program exports.
type Metric struct {
	// Program is the name of its binary.
	Program string
	// Name is the name of the family: a histogram's series end in _bucket, _sum and _count.
	Name string
	// Kind is counter, gauge, histogram or summary.
	Kind string
	// Labels are the labels that the program sets; Prometheus adds others when it scrapes. A histogram also
	// has the label le.
	Labels []string
	// Help is the description of the metric.
	Help string
}

// Series returns the series names that queries may use for the metric.
func (m Metric) Series() []string {
	switch m.Kind {
	case "histogram":
		return []string{m.Name + "_bucket", m.Name + "_sum", m.Name + "_count"}
	case "summary":
		return []string{m.Name, m.Name + "_sum", m.Name + "_count"}
	default:
		return []string{m.Name}
	}
}

// Own reports whether the metric is Supercargo's own, and not from a library of the program.
func (m Metric) Own() bool {
	return strings.HasPrefix(m.Name, "supercargo_") || strings.HasPrefix(m.Name, "nginx_")
}

// All returns all metrics of all programs and their libraries, sorted by program and name. It opens and
// closes a store in a temporary folder.
func All() ([]Metric, error) {
	var all []Metric
	registries := []struct {
		programs []string
		of       func() (prometheus.Registerer, error)
	}{
		{[]string{"autoscaler", "descheduler"}, func() (prometheus.Registerer, error) { return ctrlmetrics.Registry, nil }},
		{[]string{"kube-scheduler"}, ofScheduler},
		{[]string{"metrics-adapter"}, ofAdapter},
		{[]string{"nginx-exporter"}, ofExporter},
		{[]string{"node-agent"}, ofAgent},
		{[]string{"node-meter"}, ofMeter},
	}
	for _, r := range registries {
		registry, err := r.of()
		if err != nil {
			return nil, fmt.Errorf("create the metrics of %s: %w", strings.Join(r.programs, " and "), err)
		}
		list, err := describe(registry)
		if err != nil {
			return nil, fmt.Errorf("list the metrics of %s: %w", strings.Join(r.programs, " and "), err)
		}
		for _, m := range list {
			for _, m.Program = range r.programs {
				if is, err := exports(m.Program, m); err != nil {
					return nil, err
				} else if is {
					all = append(all, m)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b Metric) int { return cmp.Or(cmp.Compare(a.Program, b.Program), cmp.Compare(a.Name, b.Name)) })
	return all, nil
}

// prefixes maps name prefixes to the program that exports these metrics. The autoscaler and the descheduler
// use the same registry, and in this process the metrics of both are registered in it.
var prefixes = map[string]string{
	"supercargo_nodefleet_": "autoscaler", "supercargo_replicapolicy_": "autoscaler", "supercargo_workerpool_": "autoscaler",
	"supercargo_desired_replicas": "autoscaler", "supercargo_pricelist_": "autoscaler",
	"supercargo_migration_": "descheduler", "supercargo_eviction_": "descheduler", "supercargo_mover_": "descheduler",
	"supercargo_probes_total": "descheduler", "supercargo_profile_": "descheduler",
}

// exports reports whether a program exports a metric of its registry.
func exports(program string, m Metric) (bool, error) {
	if !m.Own() || program != "autoscaler" && program != "descheduler" {
		return true, nil
	}
	for prefix, owner := range prefixes {
		if strings.HasPrefix(m.Name, prefix) {
			return owner == program, nil
		}
	}
	return false, fmt.Errorf("metric %s belongs to no program: add it to hack/metrics/exported", m.Name)
}

func ofScheduler() (prometheus.Registerer, error) {
	schedulermetrics.Register()
	narrowing.RegisterMetrics()
	checkpointstaging.RegisterMetrics()
	energyperformance.RegisterMetrics()
	return legacyregistry.Registerer(), nil
}

func ofAdapter() (_ prometheus.Registerer, err error) {
	registry, o := prometheus.NewRegistry(), adapter.Defaults()
	folder, err := os.MkdirTemp("", "metrics-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	o.Store.Dir, o.Store.Registerer, o.Scrape.Registerer = folder, registry, registry
	s, err := store.Open(o.Store)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := s.NewScraper(o.Scrape, nil); err != nil {
		return nil, err
	}
	if _, err := tasks.Count(registry); err != nil {
		return nil, err
	}
	if err := (&discover.Watcher{}).Register(registry); err != nil {
		return nil, err
	}
	return registry, (&pace.Pacer{Clock: clock.RealClock{}}).Register(registry)
}

func ofExporter() (prometheus.Registerer, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&nginx.Page{Read: func() (nginx.Status, error) { return nginx.Status{}, nil }, Fault: func(error) {}}, nginx.NewLog(nginx.Buckets, 1))
	return registry, nil
}

func ofAgent() (prometheus.Registerer, error) {
	registry := prometheus.NewRegistry()
	agent.RegisterMetrics(registry)
	return registry, nil
}

func ofMeter() (prometheus.Registerer, error) {
	registry := prometheus.NewRegistry()
	m, err := meter.New(meter.Options{Node: "node", Root: "/"})
	if err != nil {
		return nil, err
	}
	registry.MustRegister(m)
	return registry, nil
}

// described matches the string form of a description, which has no other accessor.
var described = regexp.MustCompile(`(?s)^Desc\{fqName: "([^"]*)", help: (".*?"), unit: .*?, constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}\}$`)

// describe lists the registered metrics, each family once.
func describe(registry prometheus.Registerer) ([]Metric, error) {
	found := map[string]Metric{}
	for _, c := range collectors(registry) {
		descriptions := make(chan *prometheus.Desc)
		go func() { c.Describe(descriptions); close(descriptions) }()
		var errs []error
		for d := range descriptions {
			m, err := parse(d, c)
			errs = append(errs, err)
			if strings.HasPrefix(m.Name, "supercargo_") || found[m.Name].Name == "" {
				found[m.Name] = m
			}
		}
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
	}
	if len(found) == 0 {
		return nil, errors.New("no metrics are registered")
	}
	if err := correct(found, registry); err != nil {
		return nil, err
	}
	return slices.Collect(maps.Values(found)), nil
}

// correct replaces the kinds of metrics that already have values with the kinds that the registry serves.
func correct(found map[string]Metric, registry prometheus.Registerer) error {
	gatherer, ok := registry.(prometheus.Gatherer)
	if !ok {
		return fmt.Errorf("a %T does not gather metrics", registry)
	}
	families, err := gatherer.Gather()
	if err != nil {
		return fmt.Errorf("gather the metrics: %w", err)
	}
	for _, f := range families {
		if m, ok := found[f.GetName()]; ok {
			m.Kind = strings.ToLower(f.GetType().String())
			found[m.Name] = m
		}
	}
	return nil
}

func parse(d *prometheus.Desc, c prometheus.Collector) (Metric, error) {
	parts := described.FindStringSubmatch(d.String())
	if parts == nil {
		return Metric{}, fmt.Errorf("%s does not have the format of descriptions of this version of client_golang", d)
	}
	m := Metric{Name: parts[1], Kind: kindOf(parts[1], c), Help: strings.TrimPrefix(unquote(parts[2]), "[ALPHA] ")}
	for _, pair := range strings.Split(parts[3], ",") {
		if name, _, ok := strings.Cut(pair, "="); ok {
			m.Labels = append(m.Labels, name)
		}
	}
	if parts[4] != "" {
		for _, name := range strings.Split(parts[4], ",") {
			m.Labels = append(m.Labels, strings.TrimPrefix(strings.TrimSuffix(name, ")"), "c(")) // a constrained label
		}
	}
	return m, nil
}

// kindOf derives the kind of a metric from the Go type of its collector. A collector of several kinds has
// gauges, and counters whose names end in _total.
func kindOf(name string, c prometheus.Collector) string {
	kind := fmt.Sprintf("%T", c)
	for _, is := range []string{"Counter", "Gauge", "Histogram", "Summary"} {
		if strings.Contains(strings.ToLower(kind), strings.ToLower(is)) {
			return strings.ToLower(is)
		}
	}
	switch {
	case strings.HasSuffix(name, "_total"):
		return "counter"
	case strings.Contains(name, "duration_seconds") && strings.Contains(kind, "nginx.Log"):
		return "histogram"
	default:
		return "gauge"
	}
}

// unquote removes the quotes and escapes of a text in Go's syntax.
func unquote(text string) string {
	return strings.NewReplacer(`\"`, `"`, `\n`, " ", `\\`, `\`).Replace(strings.Trim(text, `"`))
}

// collectors returns the collectors of a registry from an unexported field: the registry's Describe method
// merges their descriptions, which would lose the kind of each metric. If client_golang renames the field,
// this panics, but no shipped program does.
func collectors(registry prometheus.Registerer) []prometheus.Collector {
	field := reflect.ValueOf(registry).Elem().FieldByName("collectorsByID")
	byID := *(*map[uint64]prometheus.Collector)(unsafe.Pointer(field.UnsafeAddr()))
	return slices.Collect(maps.Values(byID))
}
