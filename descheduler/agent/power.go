package agent

import (
	"context"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/energy"
	"supercargo.dev/supercargo/internal/energy/profile"
)

// profileEvery is how often the MachineProfiles are read anew, for the power that they say
// a node without a meter draws.
const profileEvery = 5 * time.Minute

// profiles is what was read of the MachineProfiles last.
type profiles struct {
	machineType string
	at          time.Time
	wrong       string // with reading them; said once
}

// tellModel tells the node's meter what the MachineProfile of its machine type says that it
// draws, if that has not been asked for a while. Without the kind, or the right to read it,
// the meter continues with its own table.
func (n *nodes) tellModel(ctx context.Context, machineType string) {
	now := n.agent.Clock.Now()
	if n.profiles.machineType == machineType && now.Sub(n.profiles.at) < profileEvery {
		return
	}
	n.profiles.machineType, n.profiles.at = machineType, now
	var list v1alpha1.MachineProfileList
	if err := n.agent.api.List(ctx, &list); err != nil {
		if err.Error() != n.profiles.wrong && ctx.Err() == nil {
			n.profiles.wrong = err.Error()
			n.agent.Log.Info("What MachineProfiles say of the node's power is not known", "error", err)
		}
		return
	}
	n.profiles.wrong = ""
	n.agent.Meter.SetModel(powerOf(list.Items, machineType))
}

// powerOf returns the power model in the profile of a machine type, the one whose name comes
// first if there are several; nil if none says something that can be.
func powerOf(objects []v1alpha1.MachineProfile, machineType string) *energy.Model {
	slices.SortFunc(objects, func(a, b v1alpha1.MachineProfile) int { return strings.Compare(a.Name, b.Name) })
	for i := range objects {
		o := &objects[i]
		if machineType == "" || o.Spec.MachineType != machineType || o.Spec.Power == nil {
			continue
		}
		if model, err := profile.PowerOf(o); err == nil {
			return &model
		}
	}
	return nil
}
