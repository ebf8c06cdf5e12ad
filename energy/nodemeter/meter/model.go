package meter

import "supercargo.dev/supercargo/energy"

// Origins of a model's coefficients.
const (
	originOwn   = "profile"      // the MachineProfile of the machine type
	originType  = "machine-type" // the machine type in the table
	originCPU   = "vcpu"         // the CPU in the table
	originGuess = "vcpu-mean"    // the mean of the CPUs of the cloud, or of all
)

// modelFor returns the power model of the node: that of its MachineProfile, else that of its
// machine type in the table, else that of its number of virtual CPUs. The caller holds the lock.
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
	m.Log.Info("Estimating the node's power with a model", "by", m.origin, "machineType", m.machine.Type, "cpus", cpus, "idleWatts", m.model.Idle, "fullWatts", m.model.Full)
	return m.model
}

// chooseModel returns a model and its origin.
func chooseModel(table *energy.Table, machine Machine, microarchitecture string, cpus int) (energy.Model, string) {
	if model, ok := table.MachineType(machine.Type); ok {
		return model, originType
	}
	names := []string{microarchitecture}
	if microarchitecture == "Skylake" {
		names = append(names, "Sky Lake") // the spelling in the rows of aws
	}
	cloud := cloudOf(machine.ProviderID)
	for _, c := range []string{cloud, "aws", "azure", "gcp"} { // an own machine is similar to a cloud's
		for _, name := range names {
			if model, exact := table.CPUs(c, name, float64(cpus)); exact {
				return model, originCPU
			}
		}
	}
	model, _ := table.CPUs(cloud, microarchitecture, float64(cpus))
	return model, originGuess
}
