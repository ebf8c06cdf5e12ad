// Package costreport divides what machines cost over the pods on them: `supercargo report cost`.
//
// cost.go has the rule, cluster.go applies it to a cluster at one moment and recording.go to a recorded period, and write.go
// prints the result.
package costreport

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/jsondoc"
)

// By says by what pods are grouped. The zero value groups by namespace.
type By struct {
	// Label is the key of the label by whose values pods are grouped; empty for the namespace.
	Label string
}

// labelPrefix begins the name of a By with a label.
const labelPrefix = "label="

// ParseBy parses namespace, or label=KEY.
func ParseBy(text string) (By, error) {
	if text == "namespace" {
		return By{}, nil
	}
	if key, is := strings.CutPrefix(text, labelPrefix); is && key != "" {
		return By{Label: key}, nil
	}
	return By{}, fmt.Errorf("%q: must be namespace or label=KEY, such as label=team", text)
}

// String returns what [ParseBy] parses.
func (b By) String() string {
	if b.Label == "" {
		return "namespace"
	}
	return labelPrefix + b.Label
}

// Report is what machines cost, divided over groups of pods. Its rows and Idle add up to Total.
type Report struct {
	// By is what groups pods: namespace, or label=KEY.
	By string `json:"by"`
	// From and To are the recorded period; nil for a cluster at one moment.
	From *time.Time `json:"from,omitempty"`
	To   *time.Time `json:"to,omitempty"`
	// Nodes is the number of machines with a price, and Pods that of the pods on them.
	Nodes int `json:"nodes"`
	Pods  int `json:"pods"`
	// Rows are the groups, the most expensive first, ties by name.
	Rows []Row `json:"rows"`
	// Idle is the cost of what no pod requests. A fraction of a micro-dollar of a row counts as idle.
	Idle Cost `json:"idle"`
	// Total is the cost of all machines with a price.
	Total Cost `json:"total"`
	// Unpriced are the machines without a price, with the reason. They and the pods on them are left out.
	Unpriced []Unpriced `json:"unpriced,omitempty"`
	// Notes are what a reader should know, a sentence each.
	Notes []string `json:"notes,omitempty"`
}

// Row is the cost of a group of pods.
type Row struct {
	// Name is the namespace or the value of the label; empty for pods without the label.
	Name string `json:"name"`
	// Pods is the number of its pods.
	Pods int `json:"pods"`
	Cost
}

// Cost is an amount: per hour and month for a cluster at one moment, or in total for a period.
type Cost struct {
	PerHour  *dollars.Amount `json:"dollarsPerHour,omitempty"`
	PerMonth *dollars.Amount `json:"dollarsPerMonth,omitempty"`
	Dollars  *dollars.Amount `json:"dollars,omitempty"`
	// Share is the share of the total, from 0 to 1.
	Share float64 `json:"share"`
}

// Unpriced is a machine without a price.
type Unpriced struct {
	Node   string `json:"node"`
	Reason string `json:"reason"`
}

// ask is what a pod of a group requests.
type ask struct {
	group string
	packing.Size
}

// sharesOf returns the shares of a machine of which groups pay the price, by group. A pod pays for the greater of the shares
// of the CPU and the memory that it requests: no other pod can use the rest of the machine beyond that. If the shares of all
// pods add up to more than the machine, because some request more of the CPU and others more of the memory, each pays in
// proportion. Nobody pays for the rest: it is idle.
func sharesOf(whole packing.Size, asks []ask) map[string]float64 {
	shares := map[string]float64{}
	for _, a := range asks {
		shares[a.group] += max(audit.Share(a.MilliCPU, whole.MilliCPU), audit.Share(a.MemoryBytes, whole.MemoryBytes))
	}
	total := 0.0
	for _, group := range slices.Sorted(maps.Keys(shares)) { // sorted, because the order of a sum matters
		total += shares[group]
	}
	if total > 1 {
		for group := range shares {
			shares[group] /= total
		}
	}
	return shares
}

// account adds up what groups pay.
type account struct {
	// micros is what each group pays, in micro-dollars, and total is what all machines cost.
	micros map[string]float64
	total  float64
	// pods are the pods of each group.
	pods map[string]int
}

func newAccount() *account { return &account{micros: map[string]float64{}, pods: map[string]int{}} }

// charge divides the cost of a machine, in micro-dollars, among groups by their shares.
func (a *account) charge(micros float64, shares map[string]float64) {
	a.total += micros
	for group, share := range shares {
		a.micros[group] += micros * share
	}
}

// report sets the rows and sums of a report. cost makes a Cost of micro-dollars.
func (a *account) report(r *Report, cost func(dollars.Amount) Cost) {
	total := dollars.Amount(math.Round(a.total))
	left := total
	paid := make(map[string]dollars.Amount, len(a.pods))
	for group := range a.pods {
		paid[group] = dollars.Amount(math.Floor(a.micros[group]))
		left -= paid[group]
	}
	total, left = total-min(left, 0), max(left, 0) // sums of floating-point numbers may differ in the last digit
	share := func(amount dollars.Amount) Cost {
		c := cost(amount)
		if total > 0 {
			c.Share = float64(amount) / float64(total)
		}
		return c
	}
	for group, pods := range a.pods {
		r.Rows = append(r.Rows, Row{Name: group, Pods: pods, Cost: share(paid[group])})
		r.Pods += pods
	}
	slices.SortFunc(r.Rows, func(x, y Row) int {
		return cmp.Or(cmp.Compare(paid[y.Name], paid[x.Name]), cmp.Compare(x.Name, y.Name))
	})
	r.Rows = jsondoc.List(r.Rows)
	r.Idle, r.Total = share(left), share(total)
}

// rate is the Cost of micro-dollars per hour.
func rate(perHour dollars.Amount) Cost {
	return Cost{PerHour: &perHour, PerMonth: new(audit.HoursPerMonth * perHour)}
}

// sum is the Cost of micro-dollars.
func sum(amount dollars.Amount) Cost { return Cost{Dollars: &amount} }
