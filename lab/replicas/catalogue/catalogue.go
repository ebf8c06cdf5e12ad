// Package catalogue lists the control laws for replicas by name.
package catalogue

import (
	"fmt"
	"slices"
	"strings"

	"supercargo.dev/supercargo/autoscaler/replica/doublethreshold"
	"supercargo.dev/supercargo/autoscaler/replica/inversequeue"
	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/predictive"
	"supercargo.dev/supercargo/lab/replicas/baseline"
	"supercargo.dev/supercargo/lab/replicas/hpa"
)

// Options are the inputs of every law. Each law uses the options that apply to it; laws that follow utilisation use
// only the limits.
type Options struct {
	law.Goal
	// RatePerReplica configures the proportional law: requests per second for each replica. If it is 0, the law derives
	// the rate from the model, so that the SLO holds at PeakRate.
	RatePerReplica float64
	// PeakRate is the highest expected arrival rate, in requests per second.
	PeakRate float64
}

type entry struct {
	name, what string
	make       func(Options) (law.Law, error)
}

var entries = []entry{
	{predictive.Name, "queueing model at the forecast rate, with learned speed and margin (ours)",
		func(o Options) (law.Law, error) { return predictive.New(predictive.For(o.Goal)) }},
	{inversequeue.Name, "inverse queueing model with learned references and feedback (Cai and Buyya)", makeInverseQueue},
	{doublethreshold.Name, "two thresholds of utilisation, sampled every 30, 10 or 1 s (DHPA, Jiang and Wu)", makeDoubleThreshold},
	{hpa.Name, "Kubernetes' HorizontalPodAutoscaler over utilisation, with tolerance and stabilisation", makeHPA},
	{hpa.PaperName, "the HorizontalPodAutoscaler as the DHPA paper ran it, with cool-downs", makePaperHPA},
	{baseline.QMDL, "feedback by a linear model derived from the queueing model", func(o Options) (law.Law, error) { return baseline.NewQMDL(o.Goal) }},
	{baseline.QMCA, "feedback by a correction of the arrival rate", func(o Options) (law.Law, error) { return baseline.NewQMCA(o.Goal) }},
	{baseline.InverseP, "feedback by an inversely proportional model", func(o Options) (law.Law, error) { return baseline.NewInverseP(o.Goal) }},
	{baseline.Proportional, "in proportion to the arrival rate", makeProportional},
}

// Names returns the names of the laws, the default first.
func Names() []string {
	var names []string
	for _, e := range entries {
		names = append(names, e.name)
	}
	return names
}

// Describe returns a one-line description of a law. It is empty for an unknown law.
func Describe(name string) string {
	if at := index(name); at >= 0 {
		return entries[at].what
	}
	return ""
}

// New makes a law with its default constants and the given options. It fails if the name is unknown, or if the law
// refuses the options.
func New(name string, o Options) (law.Law, error) {
	if _, is := hpa.AtTarget(name); is {
		c := hpa.Default()
		c.Limits = o.Limits
		return hpa.NewAtTarget(name, c)
	}
	at := index(name)
	if at < 0 {
		return nil, fmt.Errorf("law %q is unknown, must be %s", name, Known())
	}
	return entries[at].make(o)
}

// Knows reports whether there is a law of a name.
func Knows(name string) bool {
	_, is := hpa.AtTarget(name)
	return is || index(name) >= 0
}

// Known says which names there are.
func Known() string {
	return "one of " + strings.Join(Names(), ", ") + ", or hpa-N with N from 1 to 100"
}

func index(name string) int {
	return slices.IndexFunc(entries, func(e entry) bool { return e.name == name })
}

func makeInverseQueue(o Options) (law.Law, error) {
	c := inversequeue.Default()
	c.Goal = o.Goal
	return inversequeue.New(c)
}

func makeDoubleThreshold(o Options) (law.Law, error) {
	c := doublethreshold.Default()
	c.Limits = o.Limits
	return doublethreshold.New(c)
}

func makeHPA(o Options) (law.Law, error) {
	c := hpa.Default()
	c.Limits = o.Limits
	return hpa.New(c)
}

func makePaperHPA(o Options) (law.Law, error) {
	c := hpa.Paper()
	c.Limits = o.Limits
	return hpa.NewPaper(c)
}

func makeProportional(o Options) (law.Law, error) {
	rate := o.RatePerReplica
	if rate == 0 && o.PeakRate > 0 {
		aim, _ := o.Reachable(o.SLO.Seconds(), o.PeakRate)
		n, _ := o.Servers(o.PeakRate, aim)
		rate = o.PeakRate / float64(n)
	}
	return baseline.NewProportional(baseline.ProportionalConfig{Goal: o.Goal, RatePerReplica: rate})
}
