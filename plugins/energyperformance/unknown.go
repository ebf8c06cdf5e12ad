package energyperformance

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/self"
)

// Reasons of Events about whether anything is known of the machines.
const (
	reasonUnknown = "MachinesUnknown"
	reasonKnown   = "MachinesKnown"
)

// notKnown says that nothing is known of any machine, once until something is: by an Event on
// what the scheduler is, since neither a pod nor a node is to blame. It says nothing where only
// the nodes that this pod can run on are unknown, nor before the profiles have been read.
func (p *Plugin) notKnown() {
	if p.blind {
		return
	}
	why := ""
	if p.reading != nil {
		var done bool
		if why, done = p.reading(); !done {
			return
		}
	}
	machines := p.machines.Machines() // which may have been read since the cycle began
	for i := range p.kinds.places {
		if machines[p.kinds.places[i].machineType] != nil {
			return
		}
	}
	p.blind = true
	switch {
	case why != "":
	case len(machines) == 0:
		why = "no MachineProfile has models"
	default:
		why = "no MachineProfile with models is about " + p.kinds.types()
	}
	p.handle.EventRecorder().Eventf(self.Object(), nil, corev1.EventTypeWarning, reasonUnknown, "Scheduling",
		"%s: all nodes score alike, and pods go where the other plugins have them go", why)
}

// someKnown says that something is known again, if nothing was.
func (p *Plugin) someKnown() {
	if !p.blind {
		return
	}
	p.blind = false
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
