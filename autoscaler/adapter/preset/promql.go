package preset

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// selector is label matchers, each as PromQL has it.
type selector []string

// equal adds a matcher, unless the value is empty.
func (s selector) equal(label, value string) selector {
	if value == "" {
		return s
	}
	return s.with(label + "=" + strconv.Quote(value))
}

// with adds a matcher.
func (s selector) with(matcher string) selector {
	return append(slices.Clip(s), matcher)
}

// String is the matchers in braces, or nothing.
func (s selector) String() string {
	if len(s) == 0 {
		return ""
	}
	return "{" + strings.Join(s, ",") + "}"
}

// web has the queries about requests: a counter of them, and a histogram of their
// response times, of which good leaves out the failed ones.
func (r reader) web(counter, histogram string, of selector, good string) Queries {
	window := "[" + promDuration(r.window) + "]"
	answered := of.with(good).String()
	return Queries{
		ArrivalRate: fmt.Sprintf("sum(rate(%s%s%s))", counter, of, window),
		ResponseTime: fmt.Sprintf("sum(rate(%s_sum%s%s)) / sum(rate(%s_count%s%s))",
			histogram, answered, window, histogram, answered, window),
		Percentile: fmt.Sprintf("histogram_quantile(%s, sum by (le) (rate(%s_bucket%s%s)))",
			strconv.FormatFloat(r.percentile, 'g', -1, 64), histogram, answered, window),
		// The rate of the sum of response times is λ·W.
		QueueLength: fmt.Sprintf("sum(rate(%s_sum%s%s))", histogram, of, window),
	}
}

// utilization is the CPU that a workload's pods use in percent of what they
// request; "" without a workload.
func (r reader) utilization(namespace string) string {
	workload := r.object(paramWorkload)
	if workload == "" {
		return ""
	}
	if namespace == "" {
		r.refuse(paramNamespace, "is missing: want that of the workload")
	}
	pods := selector{}.equal("namespace", namespace).with("pod=~" + strconv.Quote(regexp.QuoteMeta(workload)+"-.+"))
	return fmt.Sprintf(`100 * sum(rate(container_cpu_usage_seconds_total%s[%s])) / sum(kube_pod_container_resource_requests%s)`,
		pods.with(`container!=""`), promDuration(r.window), pods.with(`resource="cpu"`))
}

// promDuration writes whole milliseconds as PromQL does.
func promDuration(d time.Duration) string {
	if d%time.Second == 0 {
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return fmt.Sprintf("%dms", d/time.Millisecond)
}
