package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Migration moves one running pod to another node. What it says is all that those who
// carry it out know: none of them calls another, each reads the Migration and writes the
// part of its status that is its own. So any of them can die at any moment and continue
// later, or another in its place.
//
// To delete a Migration is to cancel it: what was made is removed and the pod continues
// where it was, unless the new pod has taken over already.
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

	// spec says what is to be moved. It cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: delete the Migration and make another"
	// +required
	Spec MigrationSpec `json:"spec"`

	// status is how far it has come.
	// +optional
	Status MigrationStatus `json:"status,omitempty"`
}

// MigrationList is a list of migrations.
//
// +kubebuilder:object:root=true
type MigrationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the migrations.
	Items []Migration `json:"items"`
}

// MigrationMethod says what becomes of the state of a pod that moves.
//
// +kubebuilder:validation:Enum=Checkpoint;Restart
type MigrationMethod string

const (
	// MethodCheckpoint moves the memory and the processes of the container.
	MethodCheckpoint MigrationMethod = "Checkpoint"
	// MethodRestart starts the container again. The pod must have declared that with the
	// annotation supercargo.dev/migration: restart.
	MethodRestart MigrationMethod = "Restart"
)

// DefaultMigrationDeadline is the API server's default of spec.deadline.
const DefaultMigrationDeadline = 5 * time.Minute

// MigrationSpec says what is to be moved.
type MigrationSpec struct {
	// podName is the name of the pod.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	PodName string `json:"podName"`

	// podUID is its UID. If it is given, a later pod of the same name is not moved.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	PodUID string `json:"podUID,omitempty"`

	// targetNode is where it goes; empty leaves that to the scheduler.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	TargetNode string `json:"targetNode,omitempty"`

	// method says what becomes of its state.
	// +kubebuilder:default=Checkpoint
	// +optional
	Method MigrationMethod `json:"method,omitempty"`

	// deadline is how long it may take from its start until the new pod runs. Then the
	// pod continues where it was.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s') && duration(self) <= duration('24h')",message="must be between 10s and 24h"
	// +optional
	Deadline metav1.Duration `json:"deadline,omitempty,omitzero"`
}

// MigrationPhase sums a migration up.
//
// +kubebuilder:validation:Enum=Pending;Reserving;Moving;Verifying;HandingOver;CleaningUp;RollingBack;Succeeded;RolledBack;Refused
type MigrationPhase string

const (
	// MigrationPending waits until there is room among the moves in flight.
	MigrationPending MigrationPhase = "Pending"
	// MigrationReserving has found the pod movable and looks for its new node. The pod
	// runs.
	MigrationReserving MigrationPhase = "Reserving"
	// MigrationMoving has frozen the pod, and takes, ships and stages its checkpoint.
	MigrationMoving MigrationPhase = "Moving"
	// MigrationVerifying waits until the new pod runs. The old one is still frozen.
	MigrationVerifying MigrationPhase = "Verifying"
	// MigrationHandingOver gives the old pod's place to the new one. There is no way
	// back.
	MigrationHandingOver MigrationPhase = "HandingOver"
	// MigrationCleaningUp removes images and archives after a success.
	MigrationCleaningUp MigrationPhase = "CleaningUp"
	// MigrationRollingBack removes what was made and lets the pod continue where it was.
	MigrationRollingBack MigrationPhase = "RollingBack"
	// MigrationSucceeded is an end: the pod runs on its new node.
	MigrationSucceeded MigrationPhase = "Succeeded"
	// MigrationRolledBack is an end: the pod continues where it was.
	MigrationRolledBack MigrationPhase = "RolledBack"
	// MigrationRefused is an end: the pod cannot be moved, and nothing was touched.
	MigrationRefused MigrationPhase = "Refused"
)

// MigrationOrder is what the agents of the two nodes are to do. Each carries it out as
// far as it concerns its node, and says so in its report. Orders only continue in the
// sequence given here, and Thaw takes the place of what was not ordered yet.
//
// +kubebuilder:validation:Enum=Prepare;Freeze;Kill;Thaw;Clean
type MigrationOrder string

const (
	// OrderPrepare asks for all that can be done while the pod runs: the source looks at
	// the container and makes a certificate; the target, once reservation names it, looks
	// for room and for the base image, makes a certificate and listens.
	OrderPrepare MigrationOrder = "Prepare"
	// OrderFreeze asks the source to freeze the container, to dump it and to ship it to
	// the target, and the target to take and stage it. Both reports must be Prepared.
	OrderFreeze MigrationOrder = "Freeze"
	// OrderKill asks the source to kill the frozen container: the new pod has taken its
	// place.
	OrderKill MigrationOrder = "Kill"
	// OrderThaw asks the source to let the container continue, and the target to remove what
	// it staged.
	OrderThaw MigrationOrder = "Thaw"
	// OrderClean asks both to remove all that is left of the migration.
	OrderClean MigrationOrder = "Clean"
)

// MigrationStatus is how far a migration has come. The controller writes what is not
// said to be another's.
type MigrationStatus struct {
	// observedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase sums it up.
	// +optional
	Phase MigrationPhase `json:"phase,omitempty"`

	// conditions are Eligible, Reserved, Frozen, Shipped, Verified, HandedOver, CleanedUp
	// and Finished, one for each step of the way.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// plan is what was found out before anything was touched. It does not change.
	// +optional
	Plan *MigrationPlan `json:"plan,omitempty"`

	// order is what the agents are to do.
	// +optional
	Order MigrationOrder `json:"order,omitempty"`

	// reservation is the room that the scheduler keeps for the new pod. The scheduler
	// writes it, and takes it back when it gives the room away.
	// +optional
	Reservation *MigrationReservation `json:"reservation,omitempty"`

	// source is what the agent of the pod's node says.
	// +optional
	Source *SourceReport `json:"source,omitempty"`

	// target is what the agent of the new pod's node says.
	// +optional
	Target *TargetReport `json:"target,omitempty"`

	// measured is what it took.
	// +optional
	Measured *MigrationMeasured `json:"measured,omitempty"`
}

// MigrationBackend is how the state of a container is taken and restored.
//
// +kubebuilder:validation:Enum=Containerd;Kubelet;Restart;Simulated
type MigrationBackend string

const (
	// BackendContainerd takes checkpoints by containerd's task API, and stages them in
	// its content store.
	BackendContainerd MigrationBackend = "Containerd"
	// BackendKubelet takes checkpoints by the kubelet's API.
	BackendKubelet MigrationBackend = "Kubelet"
	// BackendRestart takes none.
	BackendRestart MigrationBackend = "Restart"
	// BackendSimulated plays a move of modelled size and speed, on nodes that run no
	// containers.
	BackendSimulated MigrationBackend = "Simulated"
)

// MigrationPlan is what is to be done to whom.
type MigrationPlan struct {
	// startedAt is when the plan was made, from which the deadline counts.
	StartedAt metav1.Time `json:"startedAt"`

	// deadlineAt is when the pod must run on its new node.
	DeadlineAt metav1.Time `json:"deadlineAt"`

	// sourceNode is where the pod runs.
	SourceNode string `json:"sourceNode"`

	// podUID is the UID of the pod.
	PodUID string `json:"podUID"`

	// container is the name of its container.
	Container string `json:"container"`

	// containerID is its ID without the runtime's prefix.
	// +optional
	ContainerID string `json:"containerID,omitempty"`

	// baseImage is the image that the container was first made from, as the pod named it.
	BaseImage string `json:"baseImage"`

	// backend is how its state is taken.
	Backend MigrationBackend `json:"backend"`

	// restoredPod is the name of the new pod.
	RestoredPod string `json:"restoredPod"`

	// image is the name of the checkpoint image. It exists on the target node alone.
	// +optional
	Image string `json:"image,omitempty"`

	// owner is the controller that the new pod is handed to; nil for a bare pod.
	// +optional
	Owner *metav1.OwnerReference `json:"owner,omitempty"`

	// notes say what changes for the pod, such as its name and address.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Notes []string `json:"notes,omitempty"`
}

// MigrationReservation is room on a node.
type MigrationReservation struct {
	// node has the room.
	Node string `json:"node"`

	// podUID is the UID of the new pod.
	PodUID string `json:"podUID"`

	// time is since when.
	Time metav1.Time `json:"time"`
}

// SourceStep is how far the agent of the source node has come. The steps follow each
// other, but for Thawed, which may follow any, and Failed.
//
// +kubebuilder:validation:Enum=Prepared;Frozen;Dumped;Shipped;Killed;Thawed;Cleaned;Failed
type SourceStep string

const (
	// SourcePrepared says: the container can be moved as far as its node can tell.
	SourcePrepared SourceStep = "Prepared"
	// SourceFrozen says: the container is frozen. It is written before the container is
	// frozen, so that whoever reads Prepared knows that it runs.
	SourceFrozen SourceStep = "Frozen"
	// SourceDumped says: its state is dumped to disk.
	SourceDumped SourceStep = "Dumped"
	// SourceShipped says: the target has it and has confirmed its checksum.
	SourceShipped SourceStep = "Shipped"
	// SourceKilled says: the frozen container is dead.
	SourceKilled SourceStep = "Killed"
	// SourceThawed says: the container runs again, or was never frozen, and nothing is left of
	// the migration.
	SourceThawed SourceStep = "Thawed"
	// SourceCleaned says: nothing is left of the migration.
	SourceCleaned SourceStep = "Cleaned"
	// SourceFailed says: the order cannot be carried out. A frozen container stays frozen
	// until Thaw is ordered.
	SourceFailed SourceStep = "Failed"
)

// SourceReport is written by the agent of the source node alone.
type SourceReport struct {
	// step is how far it has come.
	Step SourceStep `json:"step"`

	// time is since when.
	Time metav1.MicroTime `json:"time"`

	// certificate is what it shows the target, in PEM. It is good for this migration
	// alone.
	// +kubebuilder:validation:MaxLength=8192
	// +optional
	Certificate string `json:"certificate,omitempty"`

	// requirements are what the target must have to restore the container, as the value
	// of the annotation supercargo.dev/checkpoint-requirements.
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	Requirements string `json:"requirements,omitempty"`

	// memoryBytes is how much memory the container used when it was prepared.
	// +optional
	MemoryBytes int64 `json:"memoryBytes,omitempty"`

	// frozenAt is when the container was frozen.
	// +optional
	FrozenAt *metav1.MicroTime `json:"frozenAt,omitempty"`

	// thawedAt is when it ran again.
	// +optional
	ThawedAt *metav1.MicroTime `json:"thawedAt,omitempty"`

	// dumpSeconds is how long the dump took, such as "0.132".
	// +optional
	DumpSeconds string `json:"dumpSeconds,omitempty"`

	// dumpBytes is how large the dump is.
	// +optional
	DumpBytes int64 `json:"dumpBytes,omitempty"`

	// shipSeconds is how long the transfer took, its tries together.
	// +optional
	ShipSeconds string `json:"shipSeconds,omitempty"`

	// shipBytes is what went over the wire, compressed.
	// +optional
	ShipBytes int64 `json:"shipBytes,omitempty"`

	// shipTries is how often it was tried.
	// +optional
	ShipTries int32 `json:"shipTries,omitempty"`

	// reason is a word for why it failed.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason,omitempty"`

	// message says what failed, and what to do about it.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}

// TargetStep is how far the agent of the target node has come.
//
// +kubebuilder:validation:Enum=Prepared;Staged;Cleaned;Failed
type TargetStep string

const (
	// TargetPrepared says: there is room and the base image, and the agent listens.
	TargetPrepared TargetStep = "Prepared"
	// TargetStaged says: the checkpoint image can be restored.
	TargetStaged TargetStep = "Staged"
	// TargetCleaned says: nothing is left of the migration but the restored container.
	TargetCleaned TargetStep = "Cleaned"
	// TargetFailed says: the order cannot be carried out.
	TargetFailed TargetStep = "Failed"
)

// TargetReport is written by the agent of the target node alone.
type TargetReport struct {
	// node is which one says so: the reservation may have changed since.
	Node string `json:"node"`

	// step is how far it has come.
	Step TargetStep `json:"step"`

	// time is since when.
	Time metav1.MicroTime `json:"time"`

	// address is where it listens, as host:port.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Address string `json:"address,omitempty"`

	// certificate is what it shows the source, in PEM. It is good for this migration
	// alone.
	// +kubebuilder:validation:MaxLength=8192
	// +optional
	Certificate string `json:"certificate,omitempty"`

	// digest is that of the staged image's manifest.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Digest string `json:"digest,omitempty"`

	// stagedBytes is what the staged image takes.
	// +optional
	StagedBytes int64 `json:"stagedBytes,omitempty"`

	// reason is a word for why it failed.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason,omitempty"`

	// message says what failed, and what to do about it.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}

// MigrationMeasured is what a migration took. Seconds are decimal numbers such as
// "1.250".
type MigrationMeasured struct {
	// frozenSeconds is how long no copy of the container ran.
	// +optional
	FrozenSeconds string `json:"frozenSeconds,omitempty"`

	// dumpSeconds is how long the dump took.
	// +optional
	DumpSeconds string `json:"dumpSeconds,omitempty"`

	// shipSeconds is how long it took to bring it to the target.
	// +optional
	ShipSeconds string `json:"shipSeconds,omitempty"`

	// restoreSeconds is the time from the staged image until the container ran.
	// +optional
	RestoreSeconds string `json:"restoreSeconds,omitempty"`

	// totalSeconds is the time from the start until the old container was gone, or went
	// on.
	// +optional
	TotalSeconds string `json:"totalSeconds,omitempty"`

	// checkpointBytes is how large the checkpoint was.
	// +optional
	CheckpointBytes int64 `json:"checkpointBytes,omitempty"`

	// shippedBytes is what went over the wire, compressed.
	// +optional
	ShippedBytes int64 `json:"shippedBytes,omitempty"`
}

// The conditions of a Migration, in the order of its steps.
const (
	// MigrationEligible says whether the pod can be moved; if not, why not and what would
	// make it movable.
	MigrationEligible = "Eligible"
	// MigrationReserved says that a node has room for the new pod, and that both nodes
	// are prepared.
	MigrationReserved = "Reserved"
	// MigrationFrozen says that the pod is frozen.
	MigrationFrozen = "Frozen"
	// MigrationShipped says that the checkpoint is on its new node.
	MigrationShipped = "Shipped"
	// MigrationVerified says that the new pod runs.
	MigrationVerified = "Verified"
	// MigrationHandedOver says that the new pod has the old one's place.
	MigrationHandedOver = "HandedOver"
	// MigrationCleanedUp says that nothing is left of the migration on either node.
	MigrationCleanedUp = "CleanedUp"
	// MigrationFinished is true when the migration has ended; its reason is the phase.
	MigrationFinished = "Finished"
)

const (
	// LabelMigration is on the new pod of a migration, with the migration's UID.
	LabelMigration = GroupName + "/migration"

	// AnnotationMigrationName is on the new pod of a migration, with the migration's name.
	AnnotationMigrationName = GroupName + "/migration-name"

	// AnnotationRequirements is on the new pod of a migration: what its node must have to
	// restore it, as JSON.
	AnnotationRequirements = GroupName + "/checkpoint-requirements"

	// AnnotationCapability is on a node: what its agent can take and restore, as JSON.
	AnnotationCapability = GroupName + "/checkpoint-capability"

	// AnnotationBaseImage is on a restored pod: the image that its container was first
	// made from.
	AnnotationBaseImage = GroupName + "/base-image"

	// FinalizerMigration keeps a Migration until what it made is removed.
	FinalizerMigration = GroupName + "/migration"
)
