// Package v1alpha1 holds the names and kinds of the supercargo.dev/v1alpha1 API.
//
// +kubebuilder:object:generate=true
// +groupName=supercargo.dev
package v1alpha1

// GroupName is the API group of every Supercargo kind, and the prefix of its
// labels and annotations.
const GroupName = "supercargo.dev"

const (
	// LabelClass is a label of pods and nodes. On a pod it is the kind of work: batch or
	// service. On a node it is the kind of pods that the node accepts: batch, service or any.
	// A pod without it is batch if a Job owns it, and a service otherwise. A node without it
	// accepts any pod.
	LabelClass = GroupName + "/class"

	// LabelMachineType is a label of a node that contains its machine type. Machines of one
	// type are assumed to have the same speed and the same power consumption.
	LabelMachineType = GroupName + "/machine-type"

	// LabelProbe is a label of the Job and the pod of a probe. It contains a short name of the
	// probed machine type. The full name is in the annotation AnnotationProbes.
	LabelProbe = GroupName + "/probe"

	// TaintProbing keeps other pods away from a node that is being probed.
	TaintProbing = GroupName + "/probing"

	// LabelFleet is a label of a node that contains the name of the NodeFleet that created its
	// machine. The fleet deletes a Node with this label when its machine no longer exists, if
	// no other controller does so.
	LabelFleet = GroupName + "/fleet"

	// LabelWorkerPool is a label of a worker pod that contains the name of its WorkerPool.
	LabelWorkerPool = GroupName + "/worker-pool"
)

// ConditionPaused is a condition of NodeFleets, ReplicaPolicies and WorkerPools. It is true
// while the cluster is paused and decisions are therefore not carried out. Otherwise it is
// absent.
const ConditionPaused = "Paused"

const (
	// AnnotationRuntime is the expected runtime of a batch pod, counted from its start, as a
	// Go duration ("3m", "1h30m").
	AnnotationRuntime = GroupName + "/runtime"

	// AnnotationCategory groups batch pods of one namespace that do the same kind of work. The
	// runtimes of finished pods predict those of the next.
	AnnotationCategory = GroupName + "/category"

	// AnnotationExpectedFinish is the time at which a bound batch pod is expected to end, in
	// RFC 3339. The scheduler writes it in the API call that binds the pod.
	AnnotationExpectedFinish = GroupName + "/expected-finish"

	// AnnotationMigration specifies how a pod may be moved to another node:
	// [MigrationCheckpoint], [MigrationRestart] or [MigrationNever]. Without it, a batch pod
	// is not moved to reduce cost, and a service pod is evicted only as
	// spec.consolidation.evictServices of its NodeFleet allows.
	AnnotationMigration = GroupName + "/migration"

	// AnnotationInterruptible is an annotation of a pod: "false" keeps it off machines that may
	// be interrupted, which are spot machines. Without it, or with "true", a pod may run on
	// them, unless its node selector, affinity or tolerations keep it off.
	AnnotationInterruptible = GroupName + "/interruptible"

	// AnnotationEnergyWeight is an annotation of a pod or a namespace. It is the weight H of
	// energy against runtime when a node is chosen, from 0 (runtime only) to 1 (energy only).
	AnnotationEnergyWeight = GroupName + "/energy-weight"

	// AnnotationHardware is an annotation of a node. It contains the hardware of the machine
	// as detected by the node agent, a MachineHardware as JSON.
	AnnotationHardware = GroupName + "/hardware"

	// AnnotationGovernor is an annotation of a node. It contains the CPU governor of the
	// machine while it is not being probed, as detected by the node agent. It is absent if the
	// machine has no CPU governor.
	AnnotationGovernor = GroupName + "/cpu-governor"

	// AnnotationProbes is an annotation of the Job of a probe. It contains the machine type
	// that the Job probes.
	AnnotationProbes = GroupName + "/probes"

	// AnnotationDraining is an annotation of a node that is being drained. Its value has up to
	// three parts, separated by slashes: the name of the NodeFleet that drains the node, or
	// Descheduler; the start time in RFC 3339; and, if known, the time at which the last pod
	// is expected to leave.
	AnnotationDraining = GroupName + "/draining"

	// AnnotationRequestedBy is an annotation of a Migration that drains a node. It contains
	// the name of the NodeFleet that requested the Migration, or Descheduler.
	AnnotationRequestedBy = GroupName + "/requested-by"

	// AnnotationFlavor is an annotation of a worker pod. It contains the flavor of a NodeFleet
	// whose machine the worker is sized to fill.
	AnnotationFlavor = GroupName + "/flavor"

	// AnnotationPricePerHour is an annotation of Nodes and MachineDeployments. It contains the
	// price of a machine, in dollars per hour.
	AnnotationPricePerHour = GroupName + "/price-per-hour"
)

// The values of AnnotationMigration.
const (
	// MigrationCheckpoint allows moving a pod with its state.
	MigrationCheckpoint = "checkpoint"
	// MigrationRestart allows evicting a pod, so that its controller starts it again on another node.
	MigrationRestart = "restart"
	// MigrationNever forbids moving a pod.
	MigrationNever = "never"
)
