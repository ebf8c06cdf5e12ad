package energyperformance

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/platform/self"
)

// lack is why no machine is known.
type lack int

const (
	lacksNothing lack = iota
	lacksReading      // the profiles cannot be read
	lacksModels       // no profile has models
	lacksTypes        // no profile with models matches the machine types of the nodes
)

// notKnown records an Event that no machine is known, and why, once until a machine is known or the reason changes. The
// Event is on the scheduler's pod, since neither a pod nor a node is the cause. It records nothing if only the feasible
// nodes of this pod are unknown, or before the profiles have been read.
func (p *Plugin) notKnown() {
	lacks, why := p.lacks()
	if lacks == lacksNothing || lacks == p.reported {
		return
	}
	p.reported = lacks
	if lacks == lacksTypes {
		why = "no MachineProfile has models of " + p.kinds.types()
	}
	p.handle.EventRecorder().Eventf(self.Object(), nil, corev1.EventTypeWarning, v1alpha1.SchedulingReasonMachinesUnknown, v1alpha1.ActionScheduling,
		"%s: all nodes get the same score, so the other score plugins decide", why)
}

// lacks returns why no machine is known, without the machine types. It reads the profiles again, because they may have
// arrived since the cycle started. Cost: O(n) for n nodes.
func (p *Plugin) lacks() (lack, string) {
	if p.reading != nil {
		switch why, done := p.reading(); {
		case !done:
			return lacksNothing, "" // not known yet
		case why != "":
			return lacksReading, why
		}
	}
	machines := p.machines.Machines()
	if len(machines) == 0 {
		return lacksModels, "no MachineProfile has models"
	}
	for i := range p.kinds.places {
		if machines[p.kinds.places[i].machineType] != nil {
			return lacksNothing, ""
		}
	}
	return lacksTypes, ""
}

// someKnown records an Event that a machine is known again, if none was.
func (p *Plugin) someKnown() {
	if p.reported == lacksNothing {
		return
	}
	p.reported = lacksNothing
	p.handle.EventRecorder().Eventf(self.Object(), nil, corev1.EventTypeNormal, v1alpha1.SchedulingReasonMachinesKnown, v1alpha1.ActionScheduling, "pods are scored by energy and runtime again")
}

// mostNamed bounds the machine types in an Event.
const mostNamed = 5

// types lists the machine types of the cached nodes.
func (k *kinds) types() string {
	var names []string
	for i := range k.places {
		name := "nodes without a machine type"
		if t := k.places[i].machineType; t != "" {
			name = fmt.Sprintf("machine type %q", t)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if more := len(names) - mostNamed; more > 0 {
		names = append(names[:mostNamed], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
