package replicadecide

import (
	"fmt"
	"math"

	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/queueing"
)

// idlePercent is the utilisation below which replicas have time to spare: by the queueing model, more of them would hardly
// answer faster.
const idlePercent = 60

// slowElsewhere returns a note on responses that break the SLO while replicas have time to spare, by the model and, where
// it is measured, by their utilisation. The time is then spent elsewhere, such as in a service that they call, and no
// number of replicas makes up for it. It is empty if there is no reason to say so.
func (p *Policy) slowElsewhere(o law.Observation) string {
	if p.slo == 0 || !(o.ResponseTime > p.slo.Seconds()) || !(o.ArrivalRate > 0) || math.IsInf(o.ArrivalRate, 0) || o.Ready == 0 || o.Utilization > idlePercent {
		return ""
	}
	s := queueing.System{Servers: o.Ready, ArrivalRate: o.ArrivalRate, ServiceRate: p.model.ServiceRate(o.ArrivalRate)}
	if !s.Stable() || p.load(o.ArrivalRate, o.Ready) > idlePercent || s.Response() > p.slo.Seconds() {
		return ""
	}
	return fmt.Sprintf("responses take %.3g s, and by the queueing model %.3g s: more replicas may not help; a service that they call may be slow, or spec.service.ratePerReplica too high", o.ResponseTime, s.Response())
}
