package v1alpha1

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DesiredReplicas is the name of the built-in external metric. No other metric may have it.
const DesiredReplicas = "supercargo_desired_replicas"

// reservedJobs are the jobs of discovered targets, which the configuration may not name.
var reservedJobs = []string{"pods", "services", "kubelets", "node-meters"}

// The limits of the interval of a target.
const (
	MinInterval = time.Second
	MaxInterval = time.Hour
)

// Validate returns all errors in a defaulted configuration. The caller checks whether queries are
// PromQL and presets exist.
func Validate(c *MetricsAdapterConfiguration) field.ErrorList {
	var errs field.ErrorList
	if c.Prometheus != nil {
		path := field.NewPath("prometheus")
		if u, err := url.Parse(c.Prometheus.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			errs = append(errs, field.Invalid(path.Child("url"), c.Prometheus.URL, "must be http://HOST or https://HOST"))
		}
		if len(c.Targets) > 0 {
			errs = append(errs, field.Forbidden(field.NewPath("targets"), "only the embedded store scrapes targets, and it is not opened if prometheus is set"))
		}
		if len(c.WorkQueues) > 0 {
			errs = append(errs, field.Forbidden(field.NewPath("workQueues"), "only the embedded store records their state, and it is not opened if prometheus is set"))
		}
	}
	jobs := map[string]bool{}
	for i := range c.Targets {
		errs = append(errs, validateTargets(field.NewPath("targets").Index(i), &c.Targets[i], jobs)...)
	}
	managers := map[[2]string]bool{}
	for i := range c.WorkQueues {
		errs = append(errs, validateWorkQueue(field.NewPath("workQueues").Index(i), &c.WorkQueues[i], managers)...)
	}
	names := map[string]bool{DesiredReplicas: true}
	for i := range c.External {
		m, path := &c.External[i], field.NewPath("external").Index(i)
		errs = append(errs, validateName(path.Child("name"), m.Name, m.Name, names)...)
		errs = append(errs, validateQuery(path, &m.Query)...)
	}
	names = map[string]bool{}
	for i := range c.Custom {
		m, path := &c.Custom[i], field.NewPath("custom").Index(i)
		errs = append(errs, validateName(path.Child("name"), m.Name, m.Resource+"."+m.Group+"/"+m.Name, names)...)
		errs = append(errs, validateQuery(path, &m.Query)...)
		errs = append(errs, validateResource(path, m)...)
	}
	prefixes := map[string]bool{}
	for i, p := range c.Presets {
		path := field.NewPath("presets").Index(i)
		switch {
		case p.Name == "":
			errs = append(errs, field.Required(path.Child("name"), "must be the name of a preset, such as ingress-nginx"))
		case !metricPrefix.MatchString(p.Prefix):
			errs = append(errs, field.Invalid(path.Child("prefix"), p.Prefix, "must consist of at most 200 letters, digits and _, and must not begin with a digit"))
		case prefixes[p.Prefix]:
			errs = append(errs, field.Duplicate(path.Child("prefix"), p.Prefix))
		}
		prefixes[p.Prefix] = true
	}
	return errs
}

func validateTargets(path *field.Path, g *TargetGroup, jobs map[string]bool) field.ErrorList {
	var errs field.ErrorList
	switch {
	case g.Job == "":
		errs = append(errs, field.Required(path.Child("job"), "must be set, because it identifies the series of the group"))
	case slices.Contains(reservedJobs, g.Job):
		errs = append(errs, field.Invalid(path.Child("job"), g.Job, "is reserved for discovered targets"))
	case jobs[g.Job]:
		errs = append(errs, field.Duplicate(path.Child("job"), g.Job))
	}
	jobs[g.Job] = true
	if len(g.Addresses) == 0 {
		errs = append(errs, field.Required(path.Child("addresses"), "must contain at least one host:port"))
	}
	seen := map[string]bool{}
	for i, address := range g.Addresses {
		at := path.Child("addresses").Index(i)
		errs = append(errs, validateAddress(at, address)...)
		if seen[address] {
			errs = append(errs, field.Duplicate(at, address))
		}
		seen[address] = true
	}
	if g.Path != "" && g.Path[0] != '/' {
		errs = append(errs, field.Invalid(path.Child("path"), g.Path, "must begin with /"))
	}
	if g.Scheme != "" && g.Scheme != "http" && g.Scheme != "https" {
		errs = append(errs, field.NotSupported(path.Child("scheme"), g.Scheme, []string{"http", "https"}))
	}
	if d := g.Interval.Duration; d != 0 && (d < MinInterval || d > MaxInterval) {
		errs = append(errs, field.Invalid(path.Child("interval"), g.Interval, fmt.Sprintf("must be between %v and %v", MinInterval, MaxInterval)))
	}
	for _, name := range slices.Sorted(maps.Keys(g.Labels)) {
		errs = append(errs, validateLabel(path.Child("labels").Key(name), name)...)
	}
	return errs
}

// validateAddress checks a host:port.
func validateAddress(path *field.Path, address string) field.ErrorList {
	host, port, err := net.SplitHostPort(address)
	n, err2 := strconv.ParseUint(port, 10, 16)
	if err != nil || err2 != nil || host == "" || n == 0 {
		return field.ErrorList{field.Invalid(path, address, "must be host:port")}
	}
	return nil
}

// The limits of the timeout for finding and querying a manager.
const (
	minTimeout = 100 * time.Millisecond
	maxTimeout = 5 * time.Minute
)

// validateWorkQueue checks a manager, and that its name is unique in its namespace.
func validateWorkQueue(path *field.Path, q *WorkQueue, managers map[[2]string]bool) field.ErrorList {
	var errs field.ErrorList
	key := [2]string{q.Namespace, q.Manager}
	switch {
	case !isLabelValue(q.Manager):
		errs = append(errs, field.Invalid(path.Child("manager"), q.Manager, "must be a name of 1 to 253 bytes"))
	case managers[key]:
		errs = append(errs, field.Duplicate(path.Child("manager"), q.Manager))
	}
	managers[key] = true
	if len(validation.IsDNS1123Label(q.Namespace)) > 0 {
		errs = append(errs, field.Invalid(path.Child("namespace"), q.Namespace, "must be the namespace whose clients may read the metrics"))
	}
	switch {
	case (q.Address != "") == (q.Catalog != nil):
		errs = append(errs, field.Invalid(path.Child("address"), q.Address, "exactly one of address and catalog must be set"))
	case q.Catalog != nil:
		errs = append(errs, validateCatalog(path.Child("catalog"), q.Catalog)...)
	default:
		errs = append(errs, validateAddress(path.Child("address"), q.Address)...)
	}
	if d := q.Interval.Duration; d < MinInterval || d > MaxInterval {
		errs = append(errs, field.Invalid(path.Child("interval"), q.Interval, fmt.Sprintf("must be between %v and %v", MinInterval, MaxInterval)))
	}
	if d := q.Timeout.Duration; d < minTimeout || d > maxTimeout {
		errs = append(errs, field.Invalid(path.Child("timeout"), q.Timeout, fmt.Sprintf("must be between %v and %v", minTimeout, maxTimeout)))
	}
	return errs
}

func validateCatalog(path *field.Path, c *WorkQueueCatalog) field.ErrorList {
	var errs field.ErrorList
	if len(c.Servers) == 0 {
		errs = append(errs, field.Required(path.Child("servers"), "must contain at least one host:port"))
	}
	for i, address := range c.Servers {
		errs = append(errs, validateAddress(path.Child("servers").Index(i), address)...)
	}
	if !isLabelValue(c.Project) {
		errs = append(errs, field.Invalid(path.Child("project"), c.Project, "must be the project name of the manager (-N), of 1 to 253 bytes"))
	}
	return errs
}

// isLabelValue reports whether text is not empty and can be the value of a label.
func isLabelValue(text string) bool { return text != "" && len(text) <= 253 && utf8.ValidString(text) }

// validateName checks a metric's name, and that its key is unique.
func validateName(path *field.Path, name, key string, taken map[string]bool) field.ErrorList {
	if fault := validation.IsDNS1123Subdomain(name); name == "" || len(fault) > 0 && !metricName.MatchString(name) {
		return field.ErrorList{field.Invalid(path, name, "must consist of at most 253 letters, digits, _, -, . and :, because it is part of a URL")}
	}
	if taken[key] {
		return field.ErrorList{field.Duplicate(path, name)}
	}
	taken[key] = true
	return nil
}

var (
	metricName   = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:.-]{0,252}$`)
	metricPrefix = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,199}$`)
	labelName    = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,127}$`)
)

// validateLabel checks the name of a label of series.
func validateLabel(path *field.Path, name string) field.ErrorList {
	if !labelName.MatchString(name) || len(name) > 1 && name[:2] == "__" {
		return field.ErrorList{field.Invalid(path, name, "must be the name of a label: letters, digits and _, not beginning with a digit or __")}
	}
	return nil
}

func validateQuery(path *field.Path, q *Query) field.ErrorList {
	var errs field.ErrorList
	if q.Query == "" {
		errs = append(errs, field.Required(path.Child("query"), "must be a PromQL expression"))
	}
	errs = append(errs, validateLabel(path.Child("namespaceLabel"), q.NamespaceLabel)...)
	if q.SelectBy != SelectSeries && q.SelectBy != SelectAnswer {
		errs = append(errs, field.NotSupported(path.Child("selectBy"), q.SelectBy, []SelectBy{SelectSeries, SelectAnswer}))
	}
	for _, name := range slices.Sorted(maps.Keys(q.Labels)) {
		errs = append(errs, validateLabel(path.Child("labels").Key(name), q.Labels[name])...)
	}
	return errs
}

func validateResource(path *field.Path, m *CustomMetric) field.ErrorList {
	var errs field.ErrorList
	if len(validation.IsDNS1123Label(m.Resource)) > 0 {
		errs = append(errs, field.Invalid(path.Child("resource"), m.Resource, "must be the plural name of a resource, such as pods"))
	}
	if m.Group != "" && len(validation.IsDNS1123Subdomain(m.Group)) > 0 {
		errs = append(errs, field.Invalid(path.Child("group"), m.Group, "must be an API group, such as networking.k8s.io"))
	}
	return append(errs, validateLabel(path.Child("objectLabel"), m.ObjectLabel)...)
}
