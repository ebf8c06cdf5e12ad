// Package v1alpha1 holds the names and kinds of the supercargo.dev/v1alpha1 API.
//
// +kubebuilder:object:generate=true
// +groupName=supercargo.dev
package v1alpha1

// GroupName is the API group of every Supercargo kind, and the prefix of its
// labels and annotations.
const GroupName = "supercargo.dev"

const (
	// LabelClass says which kind of work a pod is (batch or service) and which
	// kind a node takes (batch, service or any). A pod without it is batch when
	// a Job owns it and a service otherwise; a node without it takes any.
	LabelClass = GroupName + "/class"

	// LabelMachineType names a node's machine type. Machines of one type are
	// taken to be equally fast and to draw the same power.
	LabelMachineType = GroupName + "/machine-type"

	// LabelProbe is on the Job and the pod of a probe: a short name of the machine type
	// that is probed. Taken from the annotation AnnotationProbes, which has it whole.
	LabelProbe = GroupName + "/probe"

	// TaintProbing keeps other pods from a node that is probed.
	TaintProbing = GroupName + "/probing"

	// LabelFleet names the NodeFleet that rented a node's machine. A node that carries it
	// is removed once its machine has gone, where nobody else does that.
	LabelFleet = GroupName + "/fleet"

	// LabelWorkerPool names the WorkerPool that a pod is a worker of.
	LabelWorkerPool = GroupName + "/worker-pool"
)

// ConditionPaused is on NodeFleets, ReplicaPolicies and WorkerPools while the cluster is paused: what they
// decide is not carried out. It is not there otherwise.
const ConditionPaused = "Paused"

const (
	// AnnotationRuntime is how long a batch pod is expected to run from its
	// start, as a Go duration ("3m", "1h30m").
	AnnotationRuntime = GroupName + "/runtime"

	// AnnotationCategory groups batch pods of one namespace that do the same
	// kind of work. The runtimes of finished ones predict the next.
	AnnotationCategory = GroupName + "/category"

	// AnnotationExpectedFinish is when a bound batch pod is expected to end, in
	// RFC 3339. The scheduler writes it in the same call that binds the pod.
	AnnotationExpectedFinish = GroupName + "/expected-finish"

	// AnnotationMigration says how a pod may be moved to another node:
	// [MigrationCheckpoint], [MigrationRestart] or [MigrationNever]. A pod without it
	// is not evicted to save money.
	AnnotationMigration = GroupName + "/migration"

	// AnnotationEnergyWeight is H on a pod or on its namespace: the weight of energy
	// against runtime when a node is chosen, from 0, runtime alone, to 1, energy alone.
	AnnotationEnergyWeight = GroupName + "/energy-weight"

	// AnnotationHardware is on a node: what its machine is made of, as the node agent found
	// it, a MachineHardware as JSON.
	AnnotationHardware = GroupName + "/hardware"

	// AnnotationGovernor is on a node: the CPU governor that its machine runs under when
	// nobody probes it, as the node agent found it. Machines without one have none.
	AnnotationGovernor = GroupName + "/cpu-governor"

	// AnnotationProbes is on the Job of a probe: the machine type that it is about.
	AnnotationProbes = GroupName + "/probes"

	// AnnotationDraining is on a node that is being emptied: the name of the NodeFleet that
	// does so, or Descheduler, a slash, since when, in RFC 3339, and where it is known after
	// another slash when the last pod is expected to have left.
	AnnotationDraining = GroupName + "/draining"

	// AnnotationRequestedBy is on a Migration that empties a node: the NodeFleet that asked
	// for it, or Descheduler.
	AnnotationRequestedBy = GroupName + "/requested-by"

	// AnnotationFlavor is on a worker's pod: the flavor of a NodeFleet that it was made to
	// fill.
	AnnotationFlavor = GroupName + "/flavor"

	// AnnotationPricePerHour is the price of a machine in dollars per hour, on
	// Nodes and MachineDeployments.
	AnnotationPricePerHour = GroupName + "/price-per-hour"
)

// The values of AnnotationMigration.
const (
	// MigrationCheckpoint lets a pod be moved with its state.
	MigrationCheckpoint = "checkpoint"
	// MigrationRestart lets a pod be killed and restarted elsewhere.
	MigrationRestart = "restart"
	// MigrationNever keeps a pod where it is.
	MigrationNever = "never"
)
