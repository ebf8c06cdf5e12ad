package energyperformance

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/platform/self"
)

// Reasons of Events about whether anything is known of the machines.
const (
	reasonUnknown = "MachinesUnknown"
	reasonKnown   = "MachinesKnown"
)

// lack is why nothing is known of any machine.
type lack int

const (
	lacksNothing lack = iota
	lacksReading      // the profiles cannot be read
	lacksModels       // no profile has models
	lacksTypes        // none of those that have is about the machines there are
)

// notKnown says that nothing is known of any machine, and why, once until something is known or
// it is for another reason: by an Event on what the scheduler is, since neither a pod nor a node
// is to blame. It says nothing where only the nodes that this pod can run on are unknown, nor
// before the profiles have been read.
func (p *Plugin) notKnown() {
	lacks, why := p.lacks()
	if lacks == lacksNothing || lacks == p.said {
		return
	}
	p.said = lacks
	if lacks == lacksTypes {
		why = "no MachineProfile with models is about " + p.kinds.types()
	}
	p.handle.EventRecorder().Eventf(self.Object(), nil, corev1.EventTypeWarning, reasonUnknown, "Scheduling",
		"%s: all nodes score alike, and pods go where the other plugins have them go", why)
}

// lacks says why nothing is known of any machine, without the machine types. It asks for what
// may have been read since the cycle began. Cost: O(n) for n nodes.
func (p *Plugin) lacks() (lack, string) {
	if p.reading != nil {
		switch why, done := p.reading(); {
		case !done:
			return lacksNothing, "" // as far as anybody knows
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

// someKnown says that something is known again, if nothing was.
func (p *Plugin) someKnown() {
	if p.said == lacksNothing {
		return
	}
	p.said = lacksNothing
	p.handle.EventRecorder().Eventf(self.Object(), nil, corev1.EventTypeNormal, reasonKnown, "Scheduling", "pods are scored by energy and runtime again")
}

// mostNamed is how many machine types an Event names.
const mostNamed = 5

// types names the machine types of the nodes that are remembered.
func (k *kinds) types() string {
	var names []string
	for i := range k.places {
		name := "nodes that name no machine type"
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
