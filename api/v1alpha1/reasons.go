package v1alpha1

// This file has the reasons of conditions and Events, and the actions of Events. `make generate` writes
// docs/reference/events.md and conditions.md from the comments. The marker +event has the type of an
// Event with the reason; the marker +condition has the conditions with the reason, and their status.

// Reasons of all kinds that can be paused.
const (
	// ReasonPaused means that Supercargo is paused.
	// +event=Normal
	ReasonPaused = ConditionPaused
	// ReasonResumed means that Supercargo is no longer paused.
	// +event=Normal
	ReasonResumed = "Resumed"
	// ReasonPausedByConfigMap means that the ConfigMap `supercargo-pause` exists. Otherwise the condition
	// is absent.
	// +condition=Paused=True
	ReasonPausedByConfigMap = "PausedByConfigMap"
	// ReasonActionDisabled means that the program only reports what it would do for the object, because its option
	// `--actions` does not list the action.
	// +condition=Paused=True
	ReasonActionDisabled = "ActionDisabled"
)

// Reasons of NodeFleets.
const (
	// FleetReasonBuy means that the fleet has decided to buy machines.
	// +event=Normal
	FleetReasonBuy = "Buy"
	// FleetReasonRelease means that the fleet has decided to release machines.
	// +event=Normal
	FleetReasonRelease = "Release"
	// FleetReasonExchange means that the fleet has decided to replace machines by cheaper ones.
	// +event=Normal
	FleetReasonExchange = "Exchange"
	// FleetReasonReleased means that a machine was released.
	// +event=Normal
	FleetReasonReleased = "Released"
	// FleetReasonMachineAbandoned means that machines did not join in time. Their flavor is in back-off.
	// +event=Warning
	FleetReasonMachineAbandoned = "MachineAbandoned"
	// FleetReasonPodDoesNotFit means that a node has less room for pods than expected, and its flavor is
	// in back-off for such pods.
	// +event=Warning
	FleetReasonPodDoesNotFit = "PodDoesNotFit"
	// FleetReasonImageDoesNotRun means that an image does not run on an architecture of the fleet. For
	// some time, the fleet does not buy such machines for pods with it.
	// +event=Warning
	FleetReasonImageDoesNotRun = "ImageDoesNotRun"
	// FleetReasonDrainFailed means that a node could not be drained, cordoned or uncordoned. The fleet
	// tries again.
	// +event=Warning
	// +condition=Degraded=True
	FleetReasonDrainFailed = "DrainFailed"
	// FleetReasonReleaseFailed means that machines could not be released. The fleet tries again.
	// +event=Warning
	// +condition=Degraded=True
	FleetReasonReleaseFailed = "ReleaseFailed"
	// FleetReasonResourceMissing means that a node still lacks an extended resource of its flavor after `joinTimeout`.
	FleetReasonResourceMissing = "ResourceMissing"

	// FleetReasonTaintRemains means that a node has kept a startup taint for `joinTimeout`.
	// +event=Warning
	FleetReasonTaintRemains = "TaintRemains"
	// FleetReasonDrainCancelled means that the drain of a node was cancelled, and the node is kept.
	// +event=Warning
	FleetReasonDrainCancelled = "DrainCancelled"
	// FleetReasonMachineInterrupted means that the machine of a node is about to be taken, as a taint or a
	// condition of the node announces, and that its pods leave.
	// +event=Warning
	FleetReasonMachineInterrupted = "MachineInterrupted"
	// FleetReasonUncordoned means that a cordoned empty node accepts pods again, because a pending pod
	// needs its room.
	// +event=Normal
	FleetReasonUncordoned = "Uncordoned"
	// FleetReasonLimitReached means that pods are pending because a limit is reached.
	// +event=Warning
	// +condition=Limited=True
	FleetReasonLimitReached = "LimitReached"
	// FleetReasonBudgetInvalid means that the schedule of a budget is invalid, so that the budget applies at all times;
	// that it never comes; or that a budget never allows a machine to be drained or released.
	// +event=Warning
	// +condition=Degraded=True
	FleetReasonBudgetInvalid = "BudgetInvalid"
	// FleetReasonNodesUnhealthy means that too many nodes have unhealthy conditions at the same time, so that no machine is
	// replaced for that.
	// +event=Warning
	FleetReasonNodesUnhealthy = "NodesUnhealthy"
	// FleetReasonNoMachineFits means that pods are pending that fit on no machine of the fleet.
	// +event=Warning
	FleetReasonNoMachineFits = "NoMachineFits"
	// FleetReasonNodesUnidentified means that machines are kept because their nodes are unknown.
	// +event=Warning
	// +condition=Degraded=True
	FleetReasonNodesUnidentified = "NodesUnidentified"
	// FleetReasonNodesNotReady means that machines are kept although their nodes are not ready.
	// +event=Warning
	// +condition=Degraded=True
	FleetReasonNodesNotReady = "NodesNotReady"
	// FleetReasonFlavorsUnavailable means that flavors of the fleet are unavailable.
	// +event=Warning
	// +condition=Degraded=True
	FleetReasonFlavorsUnavailable = "FlavorsUnavailable"
	// FleetReasonNodePoolsOverlap means that pods are pending that fit machines of the fleet and of a
	// NodePool of Karpenter. The fleet buys no machines for them.
	// +event=Warning
	// +condition=Degraded=True
	FleetReasonNodePoolsOverlap = "NodePoolsOverlap"
	// FleetReasonPodsAtRisk means that the `nodeDrainTimeoutSeconds` of MachineDeployments is shorter
	// than a Migration may take.
	// +event=Warning
	FleetReasonPodsAtRisk = "PodsAtRisk"
	// FleetReasonPriceUnknown means that some flavors have no price and are not bought. On Ready, no
	// flavor has a price.
	// +event=Warning
	// +condition=Ready=False,Priced=False
	FleetReasonPriceUnknown = "PriceUnknown"
	// FleetReasonClusterAutoscalerActive means that the status ConfigMap of cluster-autoscaler is fresh.
	// The fleet is not scaled while cluster-autoscaler is active.
	// +event=Warning
	// +condition=Ready=False
	FleetReasonClusterAutoscalerActive = "ClusterAutoscalerActive"
	// FleetReasonNoFlavors means that the fleet names no flavor that exists.
	// +event=Warning
	// +condition=Ready=False
	FleetReasonNoFlavors = "NoFlavors"
	// FleetReasonReleasing means that the fleet is being deleted, and its machines are being released.
	// +condition=Ready=False
	FleetReasonReleasing = "Releasing"
	// FleetReasonReconciled means that the last round succeeded.
	// +condition=Ready=True
	FleetReasonReconciled = "Reconciled"
	// FleetReasonRetrying means that the last round failed with an error that a retry resolves, such as
	// a conflict.
	// +condition=Ready=True
	FleetReasonRetrying = "Retrying"
	// FleetReasonFailed means that the API server or the provider returned an error.
	// +condition=Ready=False
	FleetReasonFailed = "Failed"
	// FleetReasonCatalogueUnreadable means that the ConfigMap of `pricing.catalogue` cannot be read.
	// +condition=Ready=False,Priced=False
	FleetReasonCatalogueUnreadable = "CatalogueUnreadable"
	// FleetReasonPriceListUnknown means that `pricing.list` or `region` is not one of the built-in
	// lists.
	// +condition=Ready=False,Priced=False
	FleetReasonPriceListUnknown = "PriceListUnknown"
	// FleetReasonTemplateMissing means that a MachineDeployment of `clusterAPI.templates`, or what it
	// refers to, does not exist.
	// +condition=Ready=False
	FleetReasonTemplateMissing = "TemplateMissing"
	// FleetReasonTemplateInUse means that another fleet uses the same template.
	// +condition=Ready=False
	FleetReasonTemplateInUse = "TemplateInUse"
	// FleetReasonClusterAmbiguous means that it is unknown which Cluster of cluster-api this cluster is,
	// or that the fleet specifies another.
	// +condition=Ready=False
	FleetReasonClusterAmbiguous = "ClusterAmbiguous"
	// FleetReasonInstanceTypeFieldUnknown means that the field of the infrastructure template that has
	// the instance type is not known.
	// +condition=Ready=False
	FleetReasonInstanceTypeFieldUnknown = "InstanceTypeFieldUnknown"
	// FleetReasonInstanceTypeFieldMissing means that the infrastructure template does not have the field
	// `instanceTypeField`.
	// +condition=Ready=False
	FleetReasonInstanceTypeFieldMissing = "InstanceTypeFieldMissing"
	// FleetReasonInstanceTypeFieldOverridden means that a variable or patch of the Cluster overrides the
	// field `instanceTypeField`.
	// +condition=Ready=False
	FleetReasonInstanceTypeFieldOverridden = "InstanceTypeFieldOverridden"
	// FleetReasonInstanceTypesUnknown means that the fleet's instance types are in no list of prices.
	// +condition=Ready=False
	FleetReasonInstanceTypesUnknown = "InstanceTypesUnknown"
	// FleetReasonProviderRefused means that the provider refused a request.
	// +condition=Ready=False
	FleetReasonProviderRefused = "ProviderRefused"
	// FleetReasonProviderUnreachable means that the provider does not answer.
	// +condition=Ready=False
	FleetReasonProviderUnreachable = "ProviderUnreachable"
	// FleetReasonCredentialsRefused means that OpenStack refuses the credentials.
	// +condition=Ready=False
	FleetReasonCredentialsRefused = "CredentialsRefused"
	// FleetReasonUserDataUnusable means that `openStack.userData` cannot be used.
	// +condition=Ready=False
	FleetReasonUserDataUnusable = "UserDataUnusable"
	// FleetReasonObjectMissing means that an object that `openStack` names does not exist.
	// +condition=Ready=False
	FleetReasonObjectMissing = "ObjectMissing"
	// FleetReasonObjectForbidden means that an object that `openStack` names may not be read.
	// +condition=Ready=False
	FleetReasonObjectForbidden = "ObjectForbidden"
	// FleetReasonForbidden means that OpenStack or the API server does not allow the request.
	// +condition=Ready=False
	FleetReasonForbidden = "Forbidden"
	// FleetReasonEndpointMissing means that OpenStack's catalogue has no endpoint of a service.
	// +condition=Ready=False
	FleetReasonEndpointMissing = "EndpointMissing"
	// FleetReasonReferenceUnknown means that an image, network or other resource that `openStack` names
	// does not exist.
	// +condition=Ready=False
	FleetReasonReferenceUnknown = "ReferenceUnknown"
	// FleetReasonReferenceAmbiguous means that several resources have the name that `openStack`
	// specifies.
	// +condition=Ready=False
	FleetReasonReferenceAmbiguous = "ReferenceAmbiguous"
	// FleetReasonNodeClaimsNotServed means that the cluster does not serve NodeClaims of Karpenter in
	// version karpenter.sh/v1.
	// +condition=Ready=False
	FleetReasonNodeClaimsNotServed = "NodeClaimsNotServed"
	// FleetReasonPricesKnown means that every flavor that can be bought has a price.
	// +condition=Priced=True
	FleetReasonPricesKnown = "PricesKnown"
	// FleetReasonWithinLimits means that no pod is pending because of a limit.
	// +condition=Limited=False
	FleetReasonWithinLimits = "WithinLimits"
	// FleetReasonEnoughOnOrder means that no pod is pending because of a limit, and that no machine is
	// bought for some pods, because more than enough machines are on order for all of them.
	// +condition=Limited=False
	FleetReasonEnoughOnOrder = "EnoughOnOrder"
	// FleetReasonMachinesReady means that no flavor is in back-off.
	// +condition=Degraded=False
	FleetReasonMachinesReady = "MachinesReady"
	// FleetReasonMachinesNotReady means that machines did not join in time, and their flavors are in
	// back-off.
	// +condition=Degraded=True
	FleetReasonMachinesNotReady = "MachinesNotReady"
	// FleetReasonPodsDoNotFit means that nodes have less room for pods than expected.
	// +condition=Degraded=True
	FleetReasonPodsDoNotFit = "PodsDoNotFit"
)

// Reasons of pending pods. They are those of cluster-autoscaler.
const (
	// PodReasonTriggeredScaleUp means that a machine was ordered for the pod: which one, when, and when it is expected.
	// +event=Normal
	PodReasonTriggeredScaleUp = "TriggeredScaleUp"
	// PodReasonNotTriggerScaleUp means that no NodeFleet buys a machine for the pod, and why.
	// +event=Normal
	PodReasonNotTriggerScaleUp = "NotTriggerScaleUp"
)

// Reasons of ReplicaPolicies.
const (
	// PolicyReasonScaled means that the target was scaled.
	// +event=Normal
	PolicyReasonScaled = "Scaled"
	// PolicyReasonNotScaled means that the target could not be scaled.
	// +event=Warning
	// +condition=Ready=False
	PolicyReasonNotScaled = "NotScaled"
	// PolicyReasonScaleConflict means that a decision was dropped, because another client changed the
	// target.
	// +event=Warning
	PolicyReasonScaleConflict = "ScaleConflict"
	// PolicyReasonStateDiscarded means that the law's state in the status cannot be read, and the law
	// starts from the beginning.
	// +event=Warning
	PolicyReasonStateDiscarded = "StateDiscarded"
	// PolicyReasonStateNotSaved means that the law's state is too large for the status.
	// +event=Warning
	PolicyReasonStateNotSaved = "StateNotSaved"
	// PolicyReasonActive means that the law decides, and its decisions are carried out as the mode
	// specifies.
	// +condition=Ready=True
	PolicyReasonActive = "Active"
	// PolicyReasonConflict means that condition Conflict is true.
	// +condition=Ready=False
	PolicyReasonConflict = "Conflict"
	// PolicyReasonScaledToZero means that the target has 0 replicas, and is not scaled from there.
	// +condition=Ready=False
	PolicyReasonScaledToZero = "ScaledToZero"
	// PolicyReasonNoAutoscalerFollows means that in mode `ViaHPA`, no HorizontalPodAutoscaler follows
	// the published number.
	// +condition=Ready=False
	PolicyReasonNoAutoscalerFollows = "NoAutoscalerFollows"
	// PolicyReasonInvalidSpec means that a field of the policy is invalid.
	// +condition=Ready=False
	PolicyReasonInvalidSpec = "InvalidSpec"
	// PolicyReasonNoSuchSource means that `source` names no source of the autoscaler.
	// +condition=Ready=False
	PolicyReasonNoSuchSource = "NoSuchSource"
	// PolicyReasonForbidden means that the autoscaler may not read or scale the target.
	// +condition=Ready=False
	PolicyReasonForbidden = "Forbidden"
	// PolicyReasonKindNotAllowed means that the kind of the target is not in `--scale-kinds`.
	// +condition=Ready=False
	PolicyReasonKindNotAllowed = "KindNotAllowed"
	// PolicyReasonNotScalable means that the target has no scale subresource.
	// +condition=Ready=False
	PolicyReasonNotScalable = "NotScalable"
	// PolicyReasonTargetNotFound means that the target does not exist.
	// +condition=Ready=False
	PolicyReasonTargetNotFound = "TargetNotFound"
	// PolicyReasonMeasured means that all measurements that the law needs are available.
	// +condition=Measured=True
	PolicyReasonMeasured = "Measured"
	// PolicyReasonNotMeasured means that a measurement is missing. The number of replicas does not
	// change.
	// +condition=Measured=False
	PolicyReasonNotMeasured = "NotMeasured"
	// PolicyReasonWithinLimits means that the law requests fewer replicas than `maxReplicas`.
	// +condition=Limited=False
	PolicyReasonWithinLimits = "WithinLimits"
	// PolicyReasonAtMaximum means that the law requests `maxReplicas`.
	// +condition=Limited=True
	PolicyReasonAtMaximum = "AtMaximum"
	// PolicyReasonNoOtherScaler means that no other autoscaler scales the target.
	// +condition=Conflict=False
	PolicyReasonNoOtherScaler = "NoOtherScaler"
	// PolicyReasonAnotherScaler means that another autoscaler scales the target.
	// +condition=Conflict=True
	PolicyReasonAnotherScaler = "AnotherScaler"
	// PolicyReasonTolerated means that another autoscaler has the same target, and that the policy only observes or its mode
	// is `ViaHPA`.
	// +condition=Conflict=False
	PolicyReasonTolerated = "Tolerated"
	// PolicyReasonStateSaved means that the state of the law is saved in the status. A restarted
	// autoscaler continues from it.
	// +condition=Remembered=True
	PolicyReasonStateSaved = "StateSaved"
	// PolicyReasonTooLarge means that the state of the law is too large for the status.
	// +condition=Remembered=False
	PolicyReasonTooLarge = "TooLarge"
)

// Reasons of WorkerPools.
const (
	// PoolReasonAdded means that the pool has decided to add workers.
	// +event=Normal
	PoolReasonAdded = "Added"
	// PoolReasonDrained means that the pool has decided to drain workers.
	// +event=Normal
	PoolReasonDrained = "Drained"
	// PoolReasonNotResponding means that the manager does not respond, that its response is invalid,
	// or that it could not be queried.
	// +event=Warning
	// +condition=Connected=False
	PoolReasonNotResponding = "NotResponding"
	// PoolReasonManagerUnreachable means that the manager has not responded for `manager.goneAfter`.
	// +event=Warning
	// +condition=Degraded=True
	PoolReasonManagerUnreachable = "ManagerUnreachable"
	// PoolReasonManagerResponseInvalid means that the manager's responses have been invalid for
	// `manager.goneAfter`.
	// +event=Warning
	// +condition=Degraded=True
	PoolReasonManagerResponseInvalid = "ManagerResponseInvalid"
	// PoolReasonManagerNotQueried means that the manager could not be queried for `manager.goneAfter`.
	// +event=Warning
	// +condition=Degraded=True
	PoolReasonManagerNotQueried = "ManagerNotQueried"
	// PoolReasonQueueReplaced means that the manager has a new queue, and learned runtimes are
	// discarded.
	// +event=Normal
	PoolReasonQueueReplaced = "QueueReplaced"
	// PoolReasonRelearned means that the runtimes of tasks have changed, and are learned again.
	// +event=Normal
	PoolReasonRelearned = "Relearned"
	// PoolReasonTasksTooLarge means that tasks are waiting that fit on no worker.
	// +event=Warning
	// +condition=Limited=True
	PoolReasonTasksTooLarge = "TasksTooLarge"
	// PoolReasonRequestsExceedUsage means that categories request far more than their tasks use.
	// +event=Normal
	// +condition=Overstated=True
	PoolReasonRequestsExceedUsage = "RequestsExceedUsage"
	// PoolReasonWorkersNotReady means that a worker does not start.
	// +event=Warning
	// +condition=Degraded=True
	PoolReasonWorkersNotReady = "WorkersNotReady"
	// PoolReasonWorkersDoNotConnect means that workers run, but have not connected to the manager.
	// +event=Warning
	// +condition=Degraded=True
	PoolReasonWorkersDoNotConnect = "WorkersDoNotConnect"
	// PoolReasonWorkerFailed means that the pod of a worker failed.
	// +event=Warning
	PoolReasonWorkerFailed = "WorkerFailed"
	// PoolReasonActive means that the pool makes decisions.
	// +condition=Ready=True
	PoolReasonActive = "Active"
	// PoolReasonNotResized means that the pool makes no decisions.
	// +condition=Ready=False
	PoolReasonNotResized = "NotResized"
	// PoolReasonInvalidSpec means that a field of the pool is invalid.
	// +event=Warning
	// +condition=Ready=False
	PoolReasonInvalidSpec = "InvalidSpec"
	// PoolReasonInvalidTemplate means that the template of the pool is invalid.
	// +event=Warning
	// +condition=Ready=False
	PoolReasonInvalidTemplate = "InvalidTemplate"
	// PoolReasonResizeFailed means that the last decision could not be carried out.
	// +event=Warning
	// +condition=Ready=False
	PoolReasonResizeFailed = "ResizeFailed"
	// PoolReasonNodeFleetMissing means that `worker.nodeFleet` names no NodeFleet.
	// +event=Warning
	// +condition=Ready=False
	PoolReasonNodeFleetMissing = "NodeFleetMissing"
	// PoolReasonNoFlavors means that the NodeFleet has no flavor for the pool.
	// +event=Warning
	// +condition=Ready=False
	PoolReasonNoFlavors = "NoFlavors"
	// PoolReasonResponding means that the manager responds.
	// +condition=Connected=True
	PoolReasonResponding = "Responding"
	// PoolReasonWithinLimits means that no task waits because of a limit.
	// +condition=Limited=False
	PoolReasonWithinLimits = "WithinLimits"
	// PoolReasonLimitReached means that tasks wait that justify more workers than `limits.max`.
	// +condition=Limited=True
	PoolReasonLimitReached = "LimitReached"
	// PoolReasonRequestsMatchUsage means that no category requests far more than its tasks use.
	// +condition=Overstated=False
	PoolReasonRequestsMatchUsage = "RequestsMatchUsage"
	// PoolReasonNotMeasured means that the manager does not report what tasks have used, or that the
	// pool has not seen enough of them.
	// +condition=Overstated=False
	PoolReasonNotMeasured = "NotMeasured"
	// PoolReasonWorkersReady means that no worker is late.
	// +condition=Degraded=False
	PoolReasonWorkersReady = "WorkersReady"
)

// Reasons of Migrations. The reason of the last Event, and of condition Finished when it is true, is
// the final phase.
const (
	// MigrationReasonReserved means that a node has room for the new pod, and both nodes are prepared.
	// +event=Normal
	// +condition=Reserved=True
	MigrationReasonReserved = "Reserved"
	// MigrationReasonFrozen means that the pod is frozen.
	// +event=Normal
	// +condition=Frozen=True
	MigrationReasonFrozen = "Frozen"
	// MigrationReasonStaged means that the checkpoint is on the target node.
	// +event=Normal
	// +condition=Shipped=True
	MigrationReasonStaged = "Staged"
	// MigrationReasonRestored means that the new pod runs.
	// +event=Normal
	MigrationReasonRestored = "Restored"
	// MigrationReasonHandedOver means that the new pod has replaced the old one.
	// +event=Normal
	MigrationReasonHandedOver = "HandedOver"
	// MigrationReasonRollingBack means that the Migration is being rolled back.
	// +event=Warning
	MigrationReasonRollingBack = "RollingBack"
	// MigrationReasonWaitingForNewPod means that the old pod is frozen until it is known whether the new
	// one runs.
	// +event=Warning
	// +condition=Frozen=True
	MigrationReasonWaitingForNewPod = "WaitingForNewPod"
	// MigrationReasonSourceNotReady means that the node of the old pod is not ready, and the Migration
	// waits for the node.
	// +event=Warning
	// +condition=Frozen=True,HandedOver=False
	MigrationReasonSourceNotReady = "SourceNotReady"
	// MigrationReasonAgentNotReporting means that an agent does not report.
	// +event=Warning
	// +condition=Frozen=True,HandedOver=False
	MigrationReasonAgentNotReporting = "AgentNotReporting"
	// MigrationReasonNewPodNotDeleted means that the node of the new pod has not confirmed its deletion.
	// +event=Warning
	// +condition=CleanedUp=False
	MigrationReasonNewPodNotDeleted = "NewPodNotDeleted"
	// MigrationReasonMovable means that the pod can be moved.
	// +condition=Eligible=True
	MigrationReasonMovable = "Movable"
	// MigrationReasonWaitingForOthers means that a limit on Migrations is reached.
	// +condition=Eligible=Unknown
	MigrationReasonWaitingForOthers = "WaitingForOthers"
	// MigrationReasonPaused means that Supercargo is paused.
	// +condition=Eligible=Unknown
	MigrationReasonPaused = "Paused"
	// MigrationReasonPodNotFound means that the pod does not exist.
	// +condition=Eligible=False
	MigrationReasonPodNotFound = "PodNotFound"
	// MigrationReasonPodReplaced means that another pod now has the name.
	// +condition=Eligible=False
	MigrationReasonPodReplaced = "PodReplaced"
	// MigrationReasonAlreadyMoving means that another Migration moves the pod.
	// +condition=Eligible=False
	MigrationReasonAlreadyMoving = "AlreadyMoving"
	// MigrationReasonBeingMoved means that the pod is the new pod of a Migration that has not ended.
	// +condition=Eligible=False
	MigrationReasonBeingMoved = "BeingMoved"
	// MigrationReasonPodNotCopyable means that the old pod cannot be copied to a new one.
	// +condition=Eligible=False
	MigrationReasonPodNotCopyable = "PodNotCopyable"
	// MigrationReasonNotOptedIn means that the pod lacks the annotation `supercargo.dev/migration`, or
	// the annotation has another value.
	// +condition=Eligible=False
	MigrationReasonNotOptedIn = "NotOptedIn"
	// MigrationReasonNotRunning means that the pod or its container is not running.
	// +condition=Eligible=False,Finished=False
	MigrationReasonNotRunning = "NotRunning"
	// MigrationReasonDeleting means that the pod or its owner is being deleted.
	// +condition=Eligible=False
	MigrationReasonDeleting = "Deleting"
	// MigrationReasonGangUnsupported means that the pod belongs to a gang.
	// +condition=Eligible=False
	MigrationReasonGangUnsupported = "GangUnsupported"
	// MigrationReasonMultipleContainers means that the pod has several containers.
	// +condition=Eligible=False
	MigrationReasonMultipleContainers = "MultipleContainers"
	// MigrationReasonDevicesUnsupported means that the pod uses devices.
	// +condition=Eligible=False
	MigrationReasonDevicesUnsupported = "DevicesUnsupported"
	// MigrationReasonRuntimeClassUnsupported means that the pod has a RuntimeClass.
	// +condition=Eligible=False
	MigrationReasonRuntimeClassUnsupported = "RuntimeClassUnsupported"
	// MigrationReasonEmptyDirUnsupported means that the pod has an emptyDir whose contents cannot be copied.
	// +condition=Eligible=False
	MigrationReasonEmptyDirUnsupported = "EmptyDirUnsupported"
	// MigrationReasonVolumeUnsupported means that the pod has a volume that is bound to its node, or missing.
	// +condition=Eligible=False
	MigrationReasonVolumeUnsupported = "VolumeUnsupported"
	// MigrationReasonVolumeNotShared means that the pod has a volume that only one node can mount at a
	// time.
	// +condition=Eligible=False
	MigrationReasonVolumeNotShared = "VolumeNotShared"
	// MigrationReasonHostNamespaceUnsupported means that the pod uses namespaces of its node.
	// +condition=Eligible=False
	MigrationReasonHostNamespaceUnsupported = "HostNamespaceUnsupported"
	// MigrationReasonUserNamespaceUnsupported means that the pod has a user namespace of its own.
	// +condition=Eligible=False
	MigrationReasonUserNamespaceUnsupported = "UserNamespaceUnsupported"
	// MigrationReasonStaticPodUnsupported means that the pod is a static pod of the kubelet.
	// +condition=Eligible=False
	MigrationReasonStaticPodUnsupported = "StaticPodUnsupported"
	// MigrationReasonOwnerUnsupported means that the owner of the pod is gone, would replace the pod, or would not
	// adopt the new pod.
	// +condition=Eligible=False
	MigrationReasonOwnerUnsupported = "OwnerUnsupported"
	// MigrationReasonJobSuspended means that the Job is suspended.
	// +condition=Eligible=False
	MigrationReasonJobSuspended = "JobSuspended"
	// MigrationReasonPodReplacementPolicyUnsupported means that the Job replaces pods that are being deleted, and
	// counts them as failed.
	// +condition=Eligible=False
	MigrationReasonPodReplacementPolicyUnsupported = "PodReplacementPolicyUnsupported"
	// MigrationReasonScaledDown means that the ReplicaSet is scaled to 0.
	// +condition=Eligible=False
	MigrationReasonScaledDown = "ScaledDown"
	// MigrationReasonSelectorUnsupported means that the ReplicaSet would adopt the new pod too early.
	// +condition=Eligible=False
	MigrationReasonSelectorUnsupported = "SelectorUnsupported"
	// MigrationReasonStartupProbePending means that the startup probe has not succeeded yet.
	// +condition=Eligible=False
	MigrationReasonStartupProbePending = "StartupProbePending"
	// MigrationReasonLivenessProbeTooStrict means that a liveness probe would kill the frozen container.
	// +condition=Eligible=False
	MigrationReasonLivenessProbeTooStrict = "LivenessProbeTooStrict"
	// MigrationReasonServiceUnsupported means that the pod is an endpoint of a Service.
	// +condition=Eligible=False
	MigrationReasonServiceUnsupported = "ServiceUnsupported"
	// MigrationReasonNodeGone means that the node of the pod does not exist.
	// +condition=Eligible=False
	MigrationReasonNodeGone = "NodeGone"
	// MigrationReasonNodeNotReady means that the node of the pod is not ready.
	// +condition=Eligible=False
	MigrationReasonNodeNotReady = "NodeNotReady"
	// MigrationReasonAgentMissing means that no agent has reported on the node of the pod.
	// +condition=Eligible=False
	MigrationReasonAgentMissing = "AgentMissing"
	// MigrationReasonNoBackend means that the agent has no backend for such a checkpoint.
	// +condition=Eligible=False
	MigrationReasonNoBackend = "NoBackend"
	// MigrationReasonTargetUnsuitable means that no node can run the pod, or the named node cannot.
	// +condition=Eligible=False
	MigrationReasonTargetUnsuitable = "TargetUnsuitable"
	// MigrationReasonQuotaExceeded means that a ResourceQuota does not allow the new pod.
	// +condition=Eligible=False
	MigrationReasonQuotaExceeded = "QuotaExceeded"
	// MigrationReasonNotAdmitted means that the API server does not admit the new pod.
	// +condition=Eligible=False
	MigrationReasonNotAdmitted = "NotAdmitted"
	// MigrationReasonPodChanged means that admission changes the new pod.
	// +condition=Eligible=False
	MigrationReasonPodChanged = "PodChanged"
	// MigrationReasonImagesAlwaysPulled means that admission sets `imagePullPolicy: Always`.
	// +condition=Eligible=False
	MigrationReasonImagesAlwaysPulled = "ImagesAlwaysPulled"
	// MigrationReasonPreparing means that the agent of the old pod's node prepares the Migration.
	// +condition=Reserved=False
	MigrationReasonPreparing = "Preparing"
	// MigrationReasonScheduling means that the scheduler has not selected a node yet. On HandedOver, the
	// old container is dead, and the new pod is about to be bound.
	// +condition=Reserved=False,HandedOver=False
	MigrationReasonScheduling = "Scheduling"
	// MigrationReasonPreparingTarget means that the agent of the target prepares the Migration.
	// +condition=Reserved=False
	MigrationReasonPreparingTarget = "PreparingTarget"
	// MigrationReasonNodeBusy means that another Migration uses the node.
	// +condition=Reserved=False
	MigrationReasonNodeBusy = "NodeBusy"
	// MigrationReasonOverBudget means that a PodDisruptionBudget is at its limit.
	// +condition=Reserved=False
	MigrationReasonOverBudget = "OverBudget"
	// MigrationReasonThawed means that the old pod continues. On Finished, another process has resumed
	// the container.
	// +condition=Frozen=False,Finished=False
	MigrationReasonThawed = "Thawed"
	// MigrationReasonEnded means that the old container is dead.
	// +condition=Frozen=False
	MigrationReasonEnded = "Ended"
	// MigrationReasonSourceGone means that the old pod or its container does not exist.
	// +condition=Frozen=False,Finished=False
	MigrationReasonSourceGone = "SourceGone"
	// MigrationReasonRunning means that the new pod runs.
	// +condition=Verified=True
	MigrationReasonRunning = "Running"
	// MigrationReasonStartError means that the new pod does not start.
	// +condition=Verified=False
	MigrationReasonStartError = "StartError"
	// MigrationReasonTakenOver means that the new pod has replaced the old one.
	// +condition=HandedOver=True
	MigrationReasonTakenOver = "TakenOver"
	// MigrationReasonNewPodGone means that the new pod was deleted. On HandedOver, it had replaced the
	// old one before.
	// +condition=HandedOver=True,Finished=False
	MigrationReasonNewPodGone = "NewPodGone"
	// MigrationReasonInProgress means that the new pod is replacing the old one. On CleanedUp, the
	// agents are removing what remains.
	// +condition=HandedOver=False,CleanedUp=False
	MigrationReasonInProgress = "InProgress"
	// MigrationReasonCleanedUp means that nothing remains of the Migration on either node.
	// +condition=CleanedUp=True
	MigrationReasonCleanedUp = "CleanedUp"
	// MigrationReasonAgentsNotReporting means that agents have not reported yet that they have cleaned
	// up.
	// +condition=CleanedUp=False
	MigrationReasonAgentsNotReporting = "AgentsNotReporting"
	// MigrationReasonCancelled means that the Migration was deleted.
	// +condition=Finished=False
	MigrationReasonCancelled = "Cancelled"
	// MigrationReasonDeadlineExceeded means that `deadline` has passed.
	// +condition=Finished=False
	MigrationReasonDeadlineExceeded = "DeadlineExceeded"
	// MigrationReasonReservationTimeout means that the scheduler found no node in time.
	// +condition=Finished=False
	MigrationReasonReservationTimeout = "ReservationTimeout"
	// MigrationReasonReservationLost means that the scheduler released the room on the target.
	// +condition=Finished=False
	MigrationReasonReservationLost = "ReservationLost"
	// MigrationReasonNewPodNotCreated means that the new pod could not be created.
	// +condition=Finished=False
	MigrationReasonNewPodNotCreated = "NewPodNotCreated"
	// MigrationReasonNewPodDeleted means that another client is deleting the new pod.
	// +condition=Finished=False
	MigrationReasonNewPodDeleted = "NewPodDeleted"
	// MigrationReasonNameTaken means that another pod has the name of the new pod.
	// +condition=Finished=False
	MigrationReasonNameTaken = "NameTaken"
	// MigrationReasonCheckpointStagingMissing means that the new pod's scheduler lacks
	// CheckpointStaging.
	// +condition=Finished=False
	MigrationReasonCheckpointStagingMissing = "CheckpointStagingMissing"
	// MigrationReasonBoundElsewhere means that the new pod is on another node.
	// +condition=Finished=False
	MigrationReasonBoundElsewhere = "BoundElsewhere"
	// MigrationReasonRestoreFailed means that the new pod failed, or does not start.
	// +condition=Finished=False
	MigrationReasonRestoreFailed = "RestoreFailed"
	// MigrationReasonSourceEnded means that the old pod ended.
	// +condition=Finished=False
	MigrationReasonSourceEnded = "SourceEnded"
	// MigrationReasonSourceDeleted means that the old pod is being deleted.
	// +condition=Finished=False
	MigrationReasonSourceDeleted = "SourceDeleted"
	// MigrationReasonSourceRestarted means that the kubelet restarted the old container.
	// +condition=Finished=False
	MigrationReasonSourceRestarted = "SourceRestarted"
	// MigrationReasonTargetGone means that the target does not exist.
	// +condition=Finished=False
	MigrationReasonTargetGone = "TargetGone"
	// MigrationReasonTargetCordoned means that the target is cordoned, or tainted.
	// +condition=Finished=False
	MigrationReasonTargetCordoned = "TargetCordoned"
	// MigrationReasonTargetNotReady means that the target is not ready.
	// +condition=Finished=False
	MigrationReasonTargetNotReady = "TargetNotReady"
	// MigrationReasonAgentFailed means that an agent failed without a reason.
	// +condition=Finished=False
	MigrationReasonAgentFailed = "AgentFailed"
	// MigrationReasonNotSupported means that the node does not support the operation.
	// +condition=Eligible=False,Finished=False
	MigrationReasonNotSupported = "NotSupported"
	// MigrationReasonOpenConnections means that the container has TCP connections.
	// +condition=Eligible=False,Finished=False
	MigrationReasonOpenConnections = "OpenConnections"
	// MigrationReasonAddressUnsupported means that the container uses the pod's IP address, which the new pod does not
	// have.
	// +condition=Eligible=False,Finished=False
	MigrationReasonAddressUnsupported = "AddressUnsupported"
	// MigrationReasonVolumeFilesOpen means that the container has opened a file of a ConfigMap, a Secret, a token or
	// another volume that the kubelet writes.
	// +condition=Eligible=False,Finished=False
	MigrationReasonVolumeFilesOpen = "VolumeFilesOpen"
	// MigrationReasonFileLocksHeld means that the container has locked a file of a volume.
	// +condition=Eligible=False,Finished=False
	MigrationReasonFileLocksHeld = "FileLocksHeld"
	// MigrationReasonTooLarge means that the checkpoint is larger than allowed.
	// +condition=Eligible=False,Finished=False
	MigrationReasonTooLarge = "TooLarge"
	// MigrationReasonNoRoom means that a node has no room for the checkpoint.
	// +condition=Eligible=False,Finished=False
	MigrationReasonNoRoom = "NoRoom"
	// MigrationReasonImageMissing means that the base image is not on the target.
	// +condition=Finished=False
	MigrationReasonImageMissing = "ImageMissing"
	// MigrationReasonImageLost means that the staged image is gone.
	// +condition=Finished=False
	MigrationReasonImageLost = "ImageLost"
	// MigrationReasonFreezeFailed means that the container could not be frozen.
	// +condition=Finished=False
	MigrationReasonFreezeFailed = "FreezeFailed"
	// MigrationReasonDumpFailed means that the container's state could not be dumped.
	// +condition=Finished=False
	MigrationReasonDumpFailed = "DumpFailed"
	// MigrationReasonDumpLost means that the dump no longer exists.
	// +condition=Finished=False
	MigrationReasonDumpLost = "DumpLost"
	// MigrationReasonTransferFailed means that the target did not receive the checkpoint.
	// +condition=Finished=False
	MigrationReasonTransferFailed = "TransferFailed"
	// MigrationReasonInvalidArchive means that the received data is not a valid checkpoint.
	// +condition=Finished=False
	MigrationReasonInvalidArchive = "InvalidArchive"
	// MigrationReasonContainerGone means that the container has ended.
	// +condition=Finished=False
	MigrationReasonContainerGone = "ContainerGone"
	// MigrationReasonForeignContainer means that the container belongs to another pod.
	// +condition=Eligible=False,Finished=False
	MigrationReasonForeignContainer = "ForeignContainer"
	// MigrationReasonFreezeExpired means that the container was frozen for the maximum time, and
	// continues.
	// +condition=Finished=False
	MigrationReasonFreezeExpired = "FreezeExpired"
)

// Reasons of MachineProfiles and of the nodes that are probed.
const (
	// ProfileReasonWouldProbe means that a node could be probed, in mode `Observe` or during a pause.
	// +event=Normal
	// +condition=Probed=False
	ProfileReasonWouldProbe = "WouldProbe"
	// ProfileReasonNodeReserved means that a node is reserved for a probe.
	// +event=Normal
	// +condition=Probed=False
	ProfileReasonNodeReserved = "NodeReserved"
	// ProfileReasonProbing means that a node is being probed.
	// +event=Normal
	// +condition=Probed=False
	ProfileReasonProbing = "Probing"
	// ProfileReasonProbeSucceeded means that a node was probed.
	// +event=Normal
	// +condition=Probed=False
	ProfileReasonProbeSucceeded = "ProbeSucceeded"
	// ProfileReasonProbeFailed means that a probe failed.
	// +event=Warning
	// +condition=Probed=False
	ProfileReasonProbeFailed = "ProbeFailed"
	// ProfileReasonReservationLost means that a node's reservation was lost, and the node is reserved
	// again.
	// +event=Normal
	// +condition=Probed=False
	ProfileReasonReservationLost = "ReservationLost"
	// ProfileReasonProbed means that nothing remains to be probed, and the node is free.
	// +event=Normal
	// +condition=Probed=True
	ProfileReasonProbed = "Probed"
	// ProfileReasonNodeGone means that a probe is cancelled, because its node is gone.
	// +event=Normal
	// +condition=Probed=False
	ProfileReasonNodeGone = "NodeGone"
	// ProfileReasonNotActing means that a probe is cancelled, because `--probing` is not
	// `Act`, or Supercargo is paused.
	// +event=Normal
	// +condition=Probed=False
	ProfileReasonNotActing = "NotActing"
	// ProfileReasonOtherHardware means that a probe is cancelled, because the node has or reports other
	// hardware.
	// +event=Normal
	// +condition=Probed=False
	ProfileReasonOtherHardware = "OtherHardware"
	// ProfileReasonNodeBusy means that a probe is cancelled, because another pod is on the node.
	// +event=Normal
	// +condition=Probed=False
	ProfileReasonNodeBusy = "NodeBusy"
	// ProfileReasonPodsPending means that a probe is cancelled, because a pending pod needs the room.
	// +event=Normal
	// +condition=Probed=False
	ProfileReasonPodsPending = "PodsPending"
	// ProfileReasonTooManyProbes means that the maximum number of other machine types have a probe or a
	// reserved node.
	// A node that was reserved is free again.
	// +event=Normal
	// +condition=Probed=False
	ProfileReasonTooManyProbes = "TooManyProbes"
	// ProfileReasonNoEmptyNode means that no node can be probed. A node that was reserved is free again.
	// +event=Normal
	// +condition=Probed=False
	ProfileReasonNoEmptyNode = "NoEmptyNode"
	// ProfileReasonHardwareChanged means that the machines have other hardware, and learned data is
	// discarded.
	// +event=Normal
	ProfileReasonHardwareChanged = "HardwareChanged"
	// ProfileReasonModelsInvalid means that `status.models` was edited. The learned models replace it.
	// +event=Warning
	ProfileReasonModelsInvalid = "ModelsInvalid"
	// ProfileReasonLearned means that `status.models` predicts energy and runtime.
	// +condition=Ready=True
	ProfileReasonLearned = "Learned"
	// ProfileReasonSpecified means that `spec.models` predicts energy and runtime.
	// +condition=Ready=True
	ProfileReasonSpecified = "Specified"
	// ProfileReasonInvalidSpec means that a field of the profile is invalid.
	// +condition=Ready=False
	ProfileReasonInvalidSpec = "InvalidSpec"
	// ProfileReasonNothingLearned means that there are no models yet.
	// +condition=Ready=False
	ProfileReasonNothingLearned = "NothingLearned"
	// ProfileReasonFitted means that models were fitted to the samples.
	// +condition=Learned=True
	ProfileReasonFitted = "Fitted"
	// ProfileReasonInsufficientSamples means that there are too few samples.
	// +condition=Learned=False
	ProfileReasonInsufficientSamples = "InsufficientSamples"
	// ProfileReasonHardwareUnknown means that no node agent reports the hardware.
	// +event=Normal
	// +condition=Probed=False
	ProfileReasonHardwareUnknown = "HardwareUnknown"
	// ProfileReasonBackingOff means that probes have failed, and the next one starts later.
	// +condition=Probed=False
	ProfileReasonBackingOff = "BackingOff"
	// ProfileReasonProbeStopping means that the last probe is being removed.
	// +condition=Probed=False
	ProfileReasonProbeStopping = "ProbeStopping"
)

// Reasons of nodes that are drained and pods that are moved.
const (
	// ConsolidationReasonEmptying means that a node is being drained.
	// +event=Normal
	ConsolidationReasonEmptying = "Emptying"
	// ConsolidationReasonWouldEmpty means that in mode `Observe`, a node would be drained.
	// +event=Normal
	ConsolidationReasonWouldEmpty = "WouldEmpty"
	// ConsolidationReasonDrainCancelled means that the drain of a node was cancelled, and the node is
	// kept.
	// +event=Warning
	ConsolidationReasonDrainCancelled = "DrainCancelled"
	// ConsolidationReasonUncordoned means that a node accepts pods again.
	// +event=Normal
	ConsolidationReasonUncordoned = "Uncordoned"
	// ConsolidationReasonMoving means that a pod is moved to save energy.
	// +event=Normal
	ConsolidationReasonMoving = "Moving"
	// ConsolidationReasonWouldMove means that in mode `Observe`, a pod would be moved.
	// +event=Normal
	ConsolidationReasonWouldMove = "WouldMove"
)

// Reasons of evictions.
const (
	// EvictionReasonEvictionMigrates means that an eviction became a Migration.
	// +event=Normal
	EvictionReasonEvictionMigrates = "EvictionMigrates"
	// EvictionReasonEvictedNotMovable means that the pod was evicted, because it cannot be moved.
	// +event=Warning
	EvictionReasonEvictedNotMovable = "EvictedNotMovable"
	// EvictionReasonEvictedFailed means that the pod was evicted, because moving it failed too often.
	// +event=Warning
	EvictionReasonEvictedFailed = "EvictedFailed"
	// EvictionReasonEvictionWebhookUnserved means that the webhook is installed, but has no server. The
	// Event is on the descheduler's Pod.
	// +event=Warning
	EvictionReasonEvictionWebhookUnserved = "EvictionWebhookUnserved"
)

// Reasons of the scheduler plugins and of tariffs.
const (
	// SchedulingReasonInvalidAnnotation means that an annotation of the pod is malformed, and another
	// value is used.
	// +event=Warning
	SchedulingReasonInvalidAnnotation = "InvalidAnnotation"
	// SchedulingReasonInvalidLabel means that label `supercargo.dev/class` of the pod or node is
	// malformed.
	// +event=Warning
	SchedulingReasonInvalidLabel = "InvalidLabel"
	// SchedulingReasonInvalidMachineProfile means that a field of a MachineProfile is invalid. The Event
	// is on the MachineProfile.
	// +event=Warning
	SchedulingReasonInvalidMachineProfile = "InvalidMachineProfile"
	// SchedulingReasonMachinesUnknown means that EnergyPerformance has no machine models. The Event is
	// on the scheduler's Pod.
	// +event=Warning
	SchedulingReasonMachinesUnknown = "MachinesUnknown"
	// SchedulingReasonMachinesKnown means that EnergyPerformance has machine models again. The Event is
	// on the scheduler's Pod.
	// +event=Normal
	SchedulingReasonMachinesKnown = "MachinesKnown"
	// SchedulingReasonTariffUnreadable means that the file of a tariff cannot be read. The Event is on
	// the scheduler's or descheduler's Pod.
	// +event=Warning
	SchedulingReasonTariffUnreadable = "TariffUnreadable"
	// SchedulingReasonTariffInvalid means that the file is not a valid tariff. The Event is on the
	// scheduler's or descheduler's Pod.
	// +event=Warning
	SchedulingReasonTariffInvalid = "TariffInvalid"
	// SchedulingReasonTariffExpired means that the file has no current price. The Event is on the
	// scheduler's or descheduler's Pod.
	// +event=Warning
	SchedulingReasonTariffExpired = "TariffExpired"
	// SchedulingReasonTariffUsable means that the tariff applies again. The Event is on the scheduler's
	// or descheduler's Pod.
	// +event=Normal
	SchedulingReasonTariffUsable = "TariffUsable"
	// SchedulingReasonReserved means that the new pod of a Migration waits until it can start on this
	// node.
	// +event=Normal
	SchedulingReasonReserved = "Reserved"
)

// Actions of Events. An agent's Events have the name of the failed step as their action.
const (
	// ActionAbandon means that the reporting program gives up waiting for a machine.
	ActionAbandon = "Abandon"
	// ActionResume means that the reporting program resumes after a pause.
	ActionResume = "Resume"
	// ActionBuy means that the reporting program buys machines.
	ActionBuy = "Buy"
	// ActionConsolidate means that the reporting program drains a node, or uncordons it.
	ActionConsolidate = "Consolidate"
	// ActionDecide means that the reporting program decides about the size of a fleet or pool.
	ActionDecide = "Decide"
	// ActionDrain means that the reporting program drains a node.
	ActionDrain = "Drain"
	// ActionEvaluate means that the reporting program evaluates a policy.
	ActionEvaluate = "Evaluate"
	// ActionEvict means that the reporting program answers an eviction.
	ActionEvict = "Evict"
	// ActionFinish means that the reporting program ends a Migration.
	ActionFinish = "Finish"
	// ActionFreeze means that the reporting program freezes a pod.
	ActionFreeze = "Freeze"
	// ActionHandOver means that the reporting program replaces the old pod by the new one.
	ActionHandOver = "HandOver"
	// ActionLearn means that the reporting program learns from measurements.
	ActionLearn = "Learn"
	// ActionMeasure means that the reporting program measures what tasks use.
	ActionMeasure = "Measure"
	// ActionMigrate means that the reporting program creates a Migration.
	ActionMigrate = "Migrate"
	// ActionMove means that the reporting program moves pods.
	ActionMove = "Move"
	// ActionPlan means that the reporting program plans purchases.
	ActionPlan = "Plan"
	// ActionProbe means that the reporting program probes a node.
	ActionProbe = "Probe"
	// ActionRelease means that the reporting program releases machines.
	ActionRelease = "Release"
	// ActionReplace means that the reporting program replaces a worker.
	ActionReplace = "Replace"
	// ActionReserve means that the reporting program reserves room for a new pod.
	ActionReserve = "Reserve"
	// ActionRestore means that the reporting program restores saved state.
	ActionRestore = "Restore"
	// ActionRollBack means that the reporting program rolls a Migration back.
	ActionRollBack = "RollBack"
	// ActionSave means that the reporting program saves state.
	ActionSave = "Save"
	// ActionScale means that the reporting program scales a target.
	ActionScale = "Scale"
	// ActionScheduling means that the reporting program schedules a pod.
	ActionScheduling = "Scheduling"
	// ActionShip means that the reporting program transfers a checkpoint.
	ActionShip = "Ship"
	// ActionUncordon means that the reporting program uncordons a node.
	ActionUncordon = "Uncordon"
	// ActionWait means that the reporting program waits, and changes nothing.
	ActionWait = "Wait"
	// ActionWarn means that the reporting program warns of a configuration.
	ActionWarn = "Warn"
)
