package meter

import "supercargo.dev/supercargo/internal/energy"

// Where the coefficients of a model come from.
const (
	originOwn   = "profile"      // the MachineProfile of the machine type says it
	originType  = "machine-type" // the table has the machine type
	originCPU   = "vcpu"         // the table has the CPU
	originGuess = "vcpu-mean"    // the mean of the CPUs of the cloud, or of all
)

// modelFor returns the power model of the node: that of its MachineProfile if there is one
// and says it, that of its machine type if the table has it, else that of as many virtual CPUs as the node has. The caller holds the lock.
func (m *Meter) modelFor(cpus int) energy.Model {
	if m.cpus == cpus {
		return m.model
	}
	m.cpus = cpus
	if m.own != nil {
		m.model, m.origin = *m.own, originOwn
	} else {
		m.model, m.origin = chooseModel(m.Table, m.machine, microarchitecture(m.Proc), cpus)
	}
	m.Log.Info("The node's power is modelled", "by", m.origin, "machineType", m.machine.Type, "cpus", cpus, "idleWatts", m.model.Idle, "fullWatts", m.model.Full)
	return m.model
}

// chooseModel returns a model and where it comes from.
func chooseModel(table *energy.Table, machine Machine, microarchitecture string, cpus int) (energy.Model, string) {
	if model, ok := table.MachineType(machine.Type); ok {
		return model, originType
	}
	names := []string{microarchitecture}
	if microarchitecture == "Skylake" {
		names = append(names, "Sky Lake") // as the rows of aws have it
	}
	cloud := cloudOf(machine.ProviderID)
	for _, c := range []string{cloud, "aws", "azure", "gcp"} { // a machine of one's own is like a cloud's
		for _, name := range names {
			if model, exact := table.CPUs(c, name, float64(cpus)); exact {
				return model, originCPU
			}
		}
	}
	model, _ := table.CPUs(cloud, microarchitecture, float64(cpus))
	return model, originGuess
}
