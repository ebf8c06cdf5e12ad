package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Migration moves one running pod to another node. Its controller, the scheduler and the
// agents of the two nodes coordinate only through the Migration: each reads it, and writes
// only its own part of the status. Each can therefore restart at any time and continue.
//
// Deleting a Migration cancels it: its resources are removed, and the pod continues on its
// node, unless the new pod has already taken over.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=mig,categories=supercargo
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.status.plan.sourceNode`
// +kubebuilder:selectablefield:JSONPath=`.status.reservation.node`
// +kubebuilder:printcolumn:name="Pod",type=string,JSONPath=`.spec.podName`
// +kubebuilder:printcolumn:name="From",type=string,JSONPath=`.status.plan.sourceNode`
// +kubebuilder:printcolumn:name="To",type=string,JSONPath=`.status.reservation.node`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="New pod",type=string,JSONPath=`.status.plan.restoredPod`,priority=1
// +kubebuilder:printcolumn:name="Frozen s",type=string,JSONPath=`.status.measured.frozenSeconds`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Migration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec specifies the pod to move. It is immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable: delete the Migration and create another"
	// +required
	Spec MigrationSpec `json:"spec"`

	// status is the progress of the migration.
	// +optional
	Status MigrationStatus `json:"status,omitempty"`
}

// MigrationList is a list of Migrations.
//
// +kubebuilder:object:root=true
type MigrationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items is the list of Migrations.
	Items []Migration `json:"items"`
}

// DefaultMigrationDeadline is the API server's default of spec.deadline.
const DefaultMigrationDeadline = 5 * time.Minute

// MigrationSpec specifies the pod to move.
type MigrationSpec struct {
	// podName is the name of the pod.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	PodName string `json:"podName"`

	// podUID is the UID of the pod. If set, a later pod of the same name is not moved.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	PodUID string `json:"podUID,omitempty"`

	// targetNode is the name of the node to move the pod to. If empty, the scheduler chooses
	// the node.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	TargetNode string `json:"targetNode,omitempty"`

	// deadline is the maximum duration from the start of the migration until the new pod runs.
	// When it expires, the migration is rolled back and the pod continues on its node.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s') && duration(self) <= duration('24h')",message="must be between 10s and 24h"
	// +optional
	Deadline metav1.Duration `json:"deadline,omitempty,omitzero"`
}

// MigrationPhase is a summary of the state of a migration.
//
// +kubebuilder:validation:Enum=Pending;Reserving;Moving;Verifying;HandingOver;CleaningUp;RollingBack;Succeeded;RolledBack;Refused
type MigrationPhase string

const (
	// MigrationPending means that the migration waits until fewer migrations are in flight.
	MigrationPending MigrationPhase = "Pending"
	// MigrationReserving means that the pod can be moved and that the migration waits for a
	// node for the new pod. The pod runs.
	MigrationReserving MigrationPhase = "Reserving"
	// MigrationMoving means that the pod is frozen, and that its checkpoint is being taken,
	// transferred and staged.
	MigrationMoving MigrationPhase = "Moving"
	// MigrationVerifying means that the migration waits until the new pod runs. The old pod is
	// still frozen.
	MigrationVerifying MigrationPhase = "Verifying"
	// MigrationHandingOver means that the new pod replaces the old one. The migration can no
	// longer be rolled back.
	MigrationHandingOver MigrationPhase = "HandingOver"
	// MigrationCleaningUp means that the migration succeeded and its images and archives are
	// being removed.
	MigrationCleaningUp MigrationPhase = "CleaningUp"
	// MigrationRollingBack means that the resources of the migration are being removed and
	// that the pod continues on its node.
	MigrationRollingBack MigrationPhase = "RollingBack"
	// MigrationSucceeded means that the pod runs on its new node. The phase is final.
	// +event=Normal
	// +condition=Finished=True
	MigrationSucceeded MigrationPhase = "Succeeded"
	// MigrationRolledBack means that the pod continues on its old node. The phase is final.
	// +event=Warning
	// +condition=Finished=True
	MigrationRolledBack MigrationPhase = "RolledBack"
	// MigrationRefused means that the pod cannot be moved, and nothing was changed. The phase is final.
	// +event=Warning
	// +condition=Finished=True
	MigrationRefused MigrationPhase = "Refused"
)

// MigrationOrder is an instruction to the agents of the two nodes. Each agent carries out the
// part that concerns its node and records the result in its report. Orders follow each other
// in the sequence below; Thaw replaces the orders that have not been given yet.
//
// +kubebuilder:validation:Enum=Prepare;Freeze;Kill;Thaw;Clean
type MigrationOrder string

const (
	// OrderPrepare requests all preparation that is possible while the pod runs. The source
	// checks the container and creates a certificate. The target, once named by the
	// reservation, checks for disk space and the base image, creates a certificate and
	// listens.
	OrderPrepare MigrationOrder = "Prepare"
	// OrderFreeze requests the source to freeze and dump the container and to send the dump to
	// the target. It requests the target to receive and stage the dump. Both reports must be
	// Prepared.
	OrderFreeze MigrationOrder = "Freeze"
	// OrderKill requests the source to kill the frozen container, because the new pod has
	// replaced it.
	OrderKill MigrationOrder = "Kill"
	// OrderThaw requests the source to resume the container, and the target to remove what it
	// staged.
	OrderThaw MigrationOrder = "Thaw"
	// OrderClean requests both agents to remove everything that remains of the migration.
	OrderClean MigrationOrder = "Clean"
)

// MigrationCommit is how far a migration is committed: what its participants rely on, and what must
// not be undone. It only grows.
//
// +kubebuilder:validation:Enum=Frozen;HandedOver
type MigrationCommit string

const (
	// CommitFrozen means that the container may have been frozen since. It continues only by order
	// Thaw, which is given once the new pod is gone, or when it has been frozen for too long and its
	// state was not sent.
	CommitFrozen MigrationCommit = "Frozen"
	// CommitHandedOver means that the new pod replaces the old one, or has replaced it. The old
	// container never continues.
	CommitHandedOver MigrationCommit = "HandedOver"
)

// MigrationHold is what a migration waits for without a time limit, because to continue could let
// two copies of the container run.
//
// +kubebuilder:validation:Enum=NewPod;SourceNode;SourceAgent
type MigrationHold string

const (
	// HoldNewPod means that the migration waits until it is known whether the new pod runs.
	HoldNewPod MigrationHold = "NewPod"
	// HoldSourceNode means that the migration waits for the node of the old pod, which is not ready.
	HoldSourceNode MigrationHold = "SourceNode"
	// HoldSourceAgent means that the migration waits for the agent on the node of the old pod.
	HoldSourceAgent MigrationHold = "SourceAgent"
)

// MigrationStatus is the progress of a migration. The controller writes all fields, except
// those that name another writer.
type MigrationStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is a summary of the state of the migration.
	// +optional
	Phase MigrationPhase `json:"phase,omitempty"`

	// conditions are Eligible, Reserved, Frozen, Shipped, Verified, HandedOver, CleanedUp and
	// Finished: one for each step of the migration.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// plan is the result of the checks before the migration starts. It does not change
	// afterwards.
	// +optional
	Plan *MigrationPlan `json:"plan,omitempty"`

	// order is the current instruction to the agents.
	// +optional
	Order MigrationOrder `json:"order,omitempty"`

	// commit is how far the migration is committed; unset while it can end without any effect on
	// the pod. Decisions depend on it, and not on the conditions.
	// +optional
	Commit MigrationCommit `json:"commit,omitempty"`

	// heldBy is what the migration waits for without a time limit; unset if it does not. Meanwhile
	// it counts towards no limit of migrations in flight.
	// +optional
	HeldBy MigrationHold `json:"heldBy,omitempty"`

	// reservation is the node on which the scheduler reserves resources for the new pod. The
	// scheduler writes it, and removes it when it releases the reservation.
	// +optional
	Reservation *MigrationReservation `json:"reservation,omitempty"`

	// source is the report of the agent on the node of the pod. Only that agent writes it.
	// +optional
	Source *SourceReport `json:"source,omitempty"`

	// target is the report of the agent on the node of the new pod. Only that agent writes it.
	// +optional
	Target *TargetReport `json:"target,omitempty"`

	// measured contains the durations and sizes of the migration.
	// +optional
	Measured *MigrationMeasured `json:"measured,omitempty"`
}

// MigrationBackend is the mechanism that takes and restores the state of a container.
//
// +kubebuilder:validation:Enum=Containerd;Simulated
type MigrationBackend string

const (
	// BackendContainerd takes checkpoints with the task API of containerd. The runtime that
	// containerd starts in place of runc restores them.
	BackendContainerd MigrationBackend = "Containerd"
	// BackendSimulated simulates a move of modelled size and speed on nodes that run no
	// containers.
	BackendSimulated MigrationBackend = "Simulated"
)

// MigrationPlan describes the steps of a migration and the objects involved.
type MigrationPlan struct {
	// startedAt is the time at which the plan was made. The deadline is relative to it.
	StartedAt metav1.Time `json:"startedAt"`

	// deadlineAt is the time by which the new pod must run.
	DeadlineAt metav1.Time `json:"deadlineAt"`

	// sourceNode is the name of the node on which the pod runs.
	SourceNode string `json:"sourceNode"`

	// podUID is the UID of the pod.
	PodUID string `json:"podUID"`

	// container is the name of the container of the pod.
	Container string `json:"container"`

	// containerID is the ID of the container, without the prefix of the runtime.
	// +optional
	ContainerID string `json:"containerID,omitempty"`

	// baseImage is the image from which the container was originally created, as specified in
	// the pod.
	BaseImage string `json:"baseImage"`

	// backend is the mechanism that takes and restores the state of the container.
	Backend MigrationBackend `json:"backend"`

	// restoredPod is the name of the new pod.
	RestoredPod string `json:"restoredPod"`

	// owner is the controller that becomes the owner of the new pod. It is unset for a pod
	// without a controller.
	// +optional
	Owner *metav1.OwnerReference `json:"owner,omitempty"`

	// notes describe what changes for the pod, such as its name and its IP address.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Notes []string `json:"notes,omitempty"`
}

// MigrationReservation is a reservation of resources on a node.
type MigrationReservation struct {
	// node is the name of the node.
	Node string `json:"node"`

	// podUID is the UID of the new pod.
	PodUID string `json:"podUID"`

	// time is the time at which the reservation was made.
	Time metav1.Time `json:"time"`
}

// SourceStep is the progress of the agent on the source node. The steps follow each other,
// except Thawed and Failed, which may follow any step.
//
// +kubebuilder:validation:Enum=Prepared;Frozen;Dumped;Shipped;Killed;Thawed;Cleaned;Failed
type SourceStep string

const (
	// SourcePrepared means that the container can be moved, as far as its node can determine.
	SourcePrepared SourceStep = "Prepared"
	// SourceFrozen means that the container is frozen. The agent writes it before it freezes
	// the container, so that Prepared always means that the container runs.
	SourceFrozen SourceStep = "Frozen"
	// SourceDumped means that the state of the container is on disk.
	SourceDumped SourceStep = "Dumped"
	// SourceShipped means that the target has received the dump and confirmed its checksum.
	SourceShipped SourceStep = "Shipped"
	// SourceKilled means that the frozen container has been killed.
	SourceKilled SourceStep = "Killed"
	// SourceThawed means that the container runs again or was never frozen, and that nothing
	// remains of the migration.
	SourceThawed SourceStep = "Thawed"
	// SourceCleaned means that nothing remains of the migration.
	SourceCleaned SourceStep = "Cleaned"
	// SourceFailed means that the order cannot be carried out. A frozen container stays frozen
	// until the order is Thaw.
	SourceFailed SourceStep = "Failed"
)

// SourceReport is the report of the agent on the source node. Only that agent writes it.
type SourceReport struct {
	// step is the current step of the agent.
	Step SourceStep `json:"step"`

	// time is the time at which the agent reported the step.
	Time metav1.MicroTime `json:"time"`

	// certificate is the certificate that the agent presents to the target, in PEM. It is
	// valid only for this migration.
	// +kubebuilder:validation:MaxLength=8192
	// +optional
	Certificate string `json:"certificate,omitempty"`

	// requirements are the requirements on a node that restores the container, in the format
	// of the annotation supercargo.dev/checkpoint-requirements.
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	Requirements string `json:"requirements,omitempty"`

	// memoryBytes is the memory usage of the container when it was prepared, in bytes.
	// +optional
	MemoryBytes int64 `json:"memoryBytes,omitempty"`

	// frozenAt is the time at which the container was frozen.
	// +optional
	FrozenAt *metav1.MicroTime `json:"frozenAt,omitempty"`

	// thawedAt is the time at which the container was resumed.
	// +optional
	ThawedAt *metav1.MicroTime `json:"thawedAt,omitempty"`

	// dumpSeconds is the duration of the dump, in seconds, such as "0.132".
	// +optional
	DumpSeconds string `json:"dumpSeconds,omitempty"`

	// dumpBytes is the size of the dump, in bytes.
	// +optional
	DumpBytes int64 `json:"dumpBytes,omitempty"`

	// shipSeconds is the duration of the transfer, in seconds, summed over all attempts.
	// +optional
	ShipSeconds string `json:"shipSeconds,omitempty"`

	// shipBytes is the number of bytes sent over the network after the freeze, compressed.
	// +optional
	ShipBytes int64 `json:"shipBytes,omitempty"`

	// shipTries is the number of attempts to transfer the dump.
	// +optional
	ShipTries int32 `json:"shipTries,omitempty"`

	// reason is a CamelCase word for the cause of a failure.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason,omitempty"`

	// message describes the failure and how to fix it.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}

// TargetStep is the progress of the agent on the target node.
//
// +kubebuilder:validation:Enum=Prepared;Staged;Cleaned;Failed
type TargetStep string

const (
	// TargetPrepared means that the node has enough disk space and the base image, and that
	// the agent listens.
	TargetPrepared TargetStep = "Prepared"
	// TargetStaged means that the checkpoint is ready to be restored.
	TargetStaged TargetStep = "Staged"
	// TargetCleaned means that nothing remains of the migration except the restored container.
	TargetCleaned TargetStep = "Cleaned"
	// TargetFailed means that the order cannot be carried out.
	TargetFailed TargetStep = "Failed"
)

// TargetReport is the report of the agent on the target node. Only that agent writes it.
type TargetReport struct {
	// node is the name of the node that this report is about. The reservation may have changed
	// since.
	Node string `json:"node"`

	// step is the current step of the agent.
	Step TargetStep `json:"step"`

	// time is the time at which the agent reported the step.
	Time metav1.MicroTime `json:"time"`

	// address is the address on which the agent listens, as host:port.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Address string `json:"address,omitempty"`

	// certificate is the certificate that the agent presents to the source, in PEM. It is
	// valid only for this migration.
	// +kubebuilder:validation:MaxLength=8192
	// +optional
	Certificate string `json:"certificate,omitempty"`

	// digest is the checksum of the staged checkpoint.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Digest string `json:"digest,omitempty"`

	// stagedBytes is the size of the staged checkpoint, in bytes.
	// +optional
	StagedBytes int64 `json:"stagedBytes,omitempty"`

	// reason is a CamelCase word for the cause of a failure.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason,omitempty"`

	// message describes the failure and how to fix it.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}

// MigrationMeasured contains the measured durations and sizes of a migration. Durations are
// decimal numbers of seconds, such as "1.250".
type MigrationMeasured struct {
	// frozenSeconds is the time during which no copy of the container ran, in seconds.
	// +optional
	FrozenSeconds string `json:"frozenSeconds,omitempty"`

	// dumpSeconds is the duration of the dump, in seconds.
	// +optional
	DumpSeconds string `json:"dumpSeconds,omitempty"`

	// shipSeconds is the duration of the transfer to the target, in seconds.
	// +optional
	ShipSeconds string `json:"shipSeconds,omitempty"`

	// restoreSeconds is the time from staging the image until the container ran, in seconds.
	// +optional
	RestoreSeconds string `json:"restoreSeconds,omitempty"`

	// totalSeconds is the time from the start of the migration until the old container was
	// removed or resumed, in seconds.
	// +optional
	TotalSeconds string `json:"totalSeconds,omitempty"`

	// checkpointBytes is the size of the checkpoint, in bytes.
	// +optional
	CheckpointBytes int64 `json:"checkpointBytes,omitempty"`

	// shippedBytes is the number of bytes sent over the network after the freeze, compressed.
	// +optional
	ShippedBytes int64 `json:"shippedBytes,omitempty"`
}

// The conditions of a Migration, in the order of its steps.
const (
	// MigrationEligible means that the pod can be moved. If it is false, its message explains
	// why and what would make the pod movable.
	MigrationEligible = "Eligible"
	// MigrationReserved means that a node has resources reserved for the new pod, and that
	// both nodes are prepared.
	MigrationReserved = "Reserved"
	// MigrationFrozen means that the pod is frozen.
	MigrationFrozen = "Frozen"
	// MigrationShipped means that the checkpoint is on the target node.
	MigrationShipped = "Shipped"
	// MigrationVerified means that the new pod runs.
	MigrationVerified = "Verified"
	// MigrationHandedOver means that the new pod has replaced the old one.
	MigrationHandedOver = "HandedOver"
	// MigrationCleanedUp means that nothing remains of the migration on either node.
	MigrationCleanedUp = "CleanedUp"
	// MigrationFinished is true when the migration has ended. Its reason is the final phase.
	MigrationFinished = "Finished"
)

const (
	// LabelMigration is a label of the new pod of a migration. Its value is the UID of the
	// Migration.
	LabelMigration = GroupName + "/migration"

	// AnnotationMigrationName is an annotation of the new pod of a migration. Its value is the
	// name of the Migration.
	AnnotationMigrationName = GroupName + "/migration-name"

	// AnnotationRequirements is an annotation of the new pod of a migration. It contains the
	// requirements on a node that restores the pod, as JSON.
	AnnotationRequirements = GroupName + "/checkpoint-requirements"

	// AnnotationCapability is an annotation of a node. It describes which checkpoints the
	// node's agent can take and restore, as JSON.
	AnnotationCapability = GroupName + "/checkpoint-capability"

	// AnnotationBaseImage is an annotation of a pod that a Migration created. It contains the image
	// of its container, and nothing reads the value.
	AnnotationBaseImage = GroupName + "/base-image"

	// AnnotationCommand is an annotation of a restored pod. It contains the command and the
	// arguments of its container before it was restored, as JSON. The pod itself has a command that
	// does not exist, so that its container cannot start without its checkpoint.
	AnnotationCommand = GroupName + "/command"

	// FinalizerMigration keeps a Migration until its resources have been removed.
	FinalizerMigration = GroupName + "/migration"
)
