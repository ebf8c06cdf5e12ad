//go:build replicas

package replicas

import (
	"slices"
	"time"

	"supercargo.dev/supercargo/autoscaler/adapter/nginx"
)

// window is the period over which response times are averaged: the same for every law, regardless of its
// control interval.
const window = 2 * time.Second

// outcome contains the results of a service under one law, from nginx's access log.
type outcome struct {
	Law                  string      `json:"law"`
	SLOViolationPercent  float64     `json:"sloViolationPercent"` // windows whose mean exceeds the SLO
	SlowRequestsPercent  float64     `json:"slowRequestsPercent"` // requests of twice the SLO and more, failed ones among them
	MeanResponseSeconds  float64     `json:"meanResponseSeconds"`
	P95ResponseSeconds   float64     `json:"p95ResponseSeconds"`
	ReplicaSeconds       float64     `json:"replicaSeconds"`
	ScalingActions       int         `json:"scalingActions"`
	MinReplicas          int         `json:"minReplicas"`
	MaxReplicas          int         `json:"maxReplicas"`
	Requests             int         `json:"requests"`
	Statuses             map[int]int `json:"statuses"`
	StartUpSeconds       float64     `json:"startUpSeconds"`
	GeneratorLateSeconds float64     `json:"generatorLateSeconds"`
	MachineBusyPercent   float64     `json:"machineBusyPercent"`   // of all its CPU time
	MachineStolenPercent float64     `json:"machineStolenPercent"` // given to other machines on the same host
	Evaluations          []step      `json:"looks"`
}

// judge summarizes requests. A request belongs to the window in which it arrived. A request that failed or
// timed out counts as if it had taken giveUp.
func judge(requests []nginx.Request, begin time.Time, slo time.Duration) outcome {
	o := outcome{Requests: len(requests), Statuses: map[int]int{}}
	type sum struct {
		seconds  float64
		requests int
	}
	windows := map[int64]sum{}
	var all []float64
	total, slow := 0.0, 0
	for _, r := range requests {
		o.Statuses[r.Status]++
		seconds := r.Seconds
		if r.Status >= 400 {
			seconds = giveUp.Seconds()
		}
		came := r.At.Add(-time.Duration(r.Seconds * float64(time.Second))).Sub(begin)
		w := windows[int64(came/window)]
		windows[int64(came/window)] = sum{w.seconds + seconds, w.requests + 1}
		all = append(all, seconds)
		total += seconds
		if seconds >= 2*slo.Seconds() {
			slow++
		}
	}
	broken := 0
	for _, w := range windows {
		if w.seconds/float64(w.requests) > slo.Seconds() {
			broken++
		}
	}
	slices.Sort(all)
	if len(all) > 0 {
		o.SLOViolationPercent = round(100 * float64(broken) / float64(len(windows)))
		o.SlowRequestsPercent = round(100 * float64(slow) / float64(len(all)))
		o.MeanResponseSeconds = round(total / float64(len(all)))
		o.P95ResponseSeconds = round(all[len(all)*95/100])
	}
	return o
}
