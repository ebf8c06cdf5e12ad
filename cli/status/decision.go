package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/text/clip"
	"supercargo.dev/supercargo/internal/text/plural"
)

// mostDecisions is the maximum number of decisions and Events.
const mostDecisions = 200

// Decision is a decision of Supercargo, or one of its Events.
type Decision struct {
	// Key identifies a decision and is stable.
	Key string `json:"key"`
	// At is the time of the decision, in milliseconds since 1970.
	At int64 `json:"at"`
	// Object is the kind and name of the object. Mode is empty for an Event.
	Object string `json:"object"`
	Mode   string `json:"mode,omitempty"`
	// Warning reports whether it is an Event of type Warning.
	Warning bool   `json:"warning,omitempty"`
	Summary string `json:"summary"`
	// Terms are its parts and alternatives, a sentence each.
	Terms []string `json:"terms,omitempty"`
	// Outcomes are expected figures with the measured ones.
	Outcomes []Outcome `json:"outcomes,omitempty"`
	// Open reports whether nothing has been measured yet.
	Open bool `json:"open,omitempty"`
}

// Outcome is an expected figure; Measured is empty until it is measured.
type Outcome struct {
	Name     string `json:"name"`
	Expected string `json:"expected"`
	Measured string `json:"measured,omitempty"`
}

// Remember returns earlier and current decisions, the latest first, at most 200. If a key is in both,
// the current decision is used.
func Remember(before, now []Decision) []Decision {
	seen := make(map[string]bool, len(now))
	all := make([]Decision, 0, len(before)+len(now))
	for _, list := range [][]Decision{now, before} {
		for i := range list {
			if !seen[list[i].Key] {
				seen[list[i].Key] = true
				all = append(all, list[i])
			}
		}
	}
	slices.SortFunc(all, func(a, b Decision) int { return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(a.Key, b.Key)) })
	return all[:min(len(all), mostDecisions)]
}

// decisions returns the last decisions in the status of objects, and the Events.
func decisions(s *Snapshot) []Decision {
	var all []Decision
	for _, o := range s.Fleets {
		if d := o.Status.LastDecision; d != nil {
			all = append(all, ofFleet(o.Name, d))
		}
	}
	for _, o := range s.Policies {
		if d := o.Status.LastDecision; d != nil {
			all = append(all, OfPolicy(o.Namespace+"/"+o.Name, d))
		}
	}
	for _, o := range s.Pools {
		if d := o.Status.LastDecision; d != nil {
			all = append(all, OfPool(o.Namespace+"/"+o.Name, d))
		}
	}
	for _, e := range s.Events {
		all = append(all, ofEvent(e))
	}
	return all
}

func ofFleet(name string, d *v1alpha1.FleetDecision) Decision {
	shown := Decision{
		Key: "NodeFleet/" + name + "/" + d.ID, At: d.Time.UnixMilli(), Object: "NodeFleet " + name, Mode: string(d.Mode), Summary: d.Summary,
		Terms: fleetTerms(d), Open: d.Measured == nil,
	}
	measured := d.Measured
	if measured == nil {
		measured = &v1alpha1.Outcome{}
	}
	add := func(name, expected, got string) {
		if d.Measured == nil {
			got = ""
		}
		shown.Outcomes = append(shown.Outcomes, Outcome{name, expected, got})
	}
	add("dollars per hour", money(d.Expected.DollarsPerHour), money(measured.DollarsPerHour))
	add("ready after", span(d.Expected.ReadySeconds), span(measured.ReadySeconds))
	add("pods still pending", fmt.Sprint(d.Expected.PendingPods), fmt.Sprint(measured.PendingPods))
	return shown
}

// fleetTerms returns purchases, then releases, then totals and rejected options.
func fleetTerms(d *v1alpha1.FleetDecision) []string {
	var terms []string
	add := func(format string, args ...any) { terms = append(terms, fmt.Sprintf(format, args...)) }
	for i := range d.Buys {
		b := &d.Buys[i]
		add("buy %d %s for %s: %s", b.Count, b.Flavor, plural.Count(b.Pods, "pod"), b.Reason)
		if b.DollarsUntilEmpty != "" {
			add("%s: $%s/h each, %s to start, paid for %s in all: $%s until empty", b.Flavor, b.PricePerHour, span(b.StartSeconds), span(b.BilledSeconds), b.DollarsUntilEmpty)
		}
	}
	for i := range d.Releases {
		r := &d.Releases[i]
		add("release %s: %s", r.Node, r.Reason)
		if r.KeepDollars != "" {
			add("%s: keeping it for another billing period costs $%s, starting another machine $%s", r.Node, r.KeepDollars, cmp.Or(r.StartDollars, "?"))
		}
		if r.SavesDollars != "" {
			add("%s: saves $%s and costs $%s", r.Node, r.SavesDollars, cmp.Or(r.CostsDollars, "?"))
		}
	}
	if d.PricePerHour != "" {
		add("the machines to buy cost $%s/h; the lower bound for the same pods is $%s/h", d.PricePerHour, cmp.Or(d.LowerBoundPerHour, "?"))
	}
	if d.SavesDollars != "" {
		add("emptying or exchanging machines saves $%s and costs $%s", d.SavesDollars, cmp.Or(d.CostsDollars, "?"))
	}
	if d.Deferral != nil {
		add("waiting saves $%s: %s", d.Deferral.SavesDollars, d.Deferral.Reason)
	}
	return append(terms, rejections(d.Rejected)...)
}

func rejections(all []v1alpha1.Rejection) []string {
	terms := make([]string, 0, len(all))
	for _, r := range all {
		terms = append(terms, fmt.Sprintf("rejected %s: %s", r.Name, r.Reason))
	}
	return terms
}

// doing describes an intent of a fleet.
func doing(i *v1alpha1.FleetIntent) string {
	var parts []string
	for _, o := range i.Orders {
		parts = append(parts, fmt.Sprintf("%s from %d to %s", o.Flavor, o.From, plural.Count(o.To, "machine")))
	}
	for _, r := range i.Releases {
		parts = append(parts, fmt.Sprintf("release %d of %s", len(r.Machines), r.Flavor))
	}
	return strings.Join(parts, "; ")
}

// OfPolicy returns a decision about the policy of that name.
func OfPolicy(name string, d *v1alpha1.ReplicaDecision) Decision {
	shown := Decision{
		Key: fmt.Sprintf("ReplicaPolicy/%s/%d", name, d.Time.Unix()), At: d.Time.UnixMilli(), Object: "ReplicaPolicy " + name, Mode: string(d.Mode),
		Summary: fmt.Sprintf("from %d to %s", d.From, plural.Count(d.To, "replica")), Terms: d.Reasons, Open: d.Measured == nil,
	}
	measured := d.Measured
	if measured == nil {
		measured = &v1alpha1.ReplicaOutcome{}
	}
	add := func(name, expected, got string) {
		if expected != "" || got != "" {
			shown.Outcomes = append(shown.Outcomes, Outcome{name, cmp.Or(expected, "–"), got})
		}
	}
	add("requests per second", d.Expected.ArrivalRate, measured.ArrivalRate)
	add("response time", duration(d.Expected.ResponseTime), duration(measured.ResponseTime))
	add("utilisation", percent(d.Expected.UtilizationPercent), percent(measured.UtilizationPercent))
	if d.Measured == nil {
		add("all ready after", span(d.Expected.ReadySeconds), "")
	} else {
		add("all ready after", span(d.Expected.ReadySeconds), span(measured.ReadySeconds))
	}
	return shown
}

// OfPool returns a decision about the pool of that name.
func OfPool(name string, d *v1alpha1.WorkerDecision) Decision {
	shown := Decision{
		Key: fmt.Sprintf("WorkerPool/%s/%d", name, d.Time.Unix()), At: d.Time.UnixMilli(), Object: "WorkerPool " + name, Mode: string(d.Mode),
		Summary: fmt.Sprintf("drain %s: %s", plural.Count(len(d.Drain), "worker"), d.Reason), Open: d.MeasuredReady == nil,
	}
	if d.Add > 0 {
		what := plural.Count(d.Add, "worker")
		if d.Flavor != "" {
			what += " of flavor " + d.Flavor
		}
		shown.Summary = fmt.Sprintf("add %s: %s", what, d.Reason)
	}
	shown.Terms = append([]string{fmt.Sprintf("%s waited, %d %s expected to wait at the end of the initialisation time", plural.Count(d.Waiting, "task"), d.WaitingThen, plural.Form(d.WaitingThen, "was", "were"))}, rejections(d.Rejected)...)
	if d.ExpectedReady != nil || d.MeasuredReady != nil {
		shown.Outcomes = []Outcome{{"done after", cmp.Or(duration(d.ExpectedReady), "–"), duration(d.MeasuredReady)}}
	}
	return shown
}

// ofEvent returns an Event as a decision. A repeated Event has its last time.
func ofEvent(e *eventsv1.Event) Decision {
	at := e.EventTime.Time
	if e.Series != nil {
		at = e.Series.LastObservedTime.Time
	}
	if at.IsZero() {
		at = cmp.Or(e.DeprecatedLastTimestamp.Time, e.CreationTimestamp.Time)
	}
	object := e.Regarding.Kind + " " + e.Regarding.Name
	if e.Regarding.Namespace != "" && e.Regarding.Kind != "Node" {
		object = e.Regarding.Kind + " " + e.Regarding.Namespace + "/" + e.Regarding.Name
	}
	return Decision{
		Key: "Event/" + e.Namespace + "/" + e.Name, At: at.UnixMilli(), Object: object, Warning: e.Type == corev1.EventTypeWarning,
		Summary: clip.Bytes(e.Reason+": "+e.Note, longest),
	}
}

func money(dollars string) string {
	if dollars == "" {
		return "–"
	}
	return "$" + dollars
}

func percent(number string) string {
	if number == "" {
		return ""
	}
	return number + " %"
}

func span(seconds int64) string { return (time.Duration(seconds) * time.Second).String() }

func duration(d *metav1.Duration) string {
	if d == nil {
		return ""
	}
	return d.Duration.String()
}
