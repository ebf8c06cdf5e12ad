package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// WorkerPool manages the workers of a Work Queue manager. It computes the number of workers
// from the waiting tasks, the learned requirements of each category of tasks, and the time
// that a worker needs to start.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=wp,categories=supercargo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Waiting",type=integer,JSONPath=`.status.queue.waiting`
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.queue.running`
// +kubebuilder:printcolumn:name="Workers",type=integer,JSONPath=`.status.workers.connected`
// +kubebuilder:printcolumn:name="Starting",type=integer,JSONPath=`.status.workers.starting`
// +kubebuilder:printcolumn:name="Draining",type=integer,JSONPath=`.status.workers.draining`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 52",message="metadata.name must not exceed 52 characters, because the names of pods and hosts contain it"
type WorkerPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec specifies the desired behavior of the pool.
	// +required
	Spec WorkerPoolSpec `json:"spec"`

	// status is the observed state of the pool.
	// +optional
	Status WorkerPoolStatus `json:"status,omitempty"`
}

// WorkerPoolList is a list of WorkerPools.
//
// +kubebuilder:object:root=true
type WorkerPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items is the list of WorkerPools.
	Items []WorkerPool `json:"items"`
}

// WorkerPoolMode specifies whether decisions are carried out.
//
// +kubebuilder:validation:Enum=Act;Observe
type WorkerPoolMode string

const (
	// WorkerPoolAct carries out decisions.
	WorkerPoolAct WorkerPoolMode = "Act"
	// WorkerPoolObserve records decisions and their reasons in the status, and creates and
	// deletes no worker.
	WorkerPoolObserve WorkerPoolMode = "Observe"
)

// WorkerPacking specifies how workers are placed on nodes.
//
// +kubebuilder:validation:Enum=OnePerNode;Packed
type WorkerPacking string

const (
	// WorkersOnePerNode places each worker on a node of its own, which it fills.
	WorkersOnePerNode WorkerPacking = "OnePerNode"
	// WorkersPacked places several workers on one node.
	WorkersPacked WorkerPacking = "Packed"
)

// WorkerLaw specifies how the number of workers is computed.
//
// +kubebuilder:validation:Enum=Supercargo;HTA
type WorkerLaw string

const (
	// WorkerLawSupercargo computes the number of workers from the amount of waiting work.
	WorkerLawSupercargo WorkerLaw = "Supercargo"
	// WorkerLawHTA computes the number of workers from the number of waiting tasks.
	WorkerLawHTA WorkerLaw = "HTA"
)

// WorkerPoolSpec specifies the desired behavior of a pool.
//
// +kubebuilder:validation:XValidation:rule="has(self.worker.resources) || has(self.worker.nodeFleet)",message="worker.resources or worker.nodeFleet is required"
// +kubebuilder:validation:XValidation:rule="!has(self.worker.packing) || self.worker.packing != 'Packed' || has(self.worker.resources)",message="worker.resources is required if worker.packing is Packed"
type WorkerPoolSpec struct {
	// mode specifies whether decisions are carried out. Act carries them out. Observe only
	// records them in the status, and creates and deletes no worker.
	// +kubebuilder:default=Act
	// +optional
	Mode WorkerPoolMode `json:"mode,omitempty"`

	// manager specifies the address of the Work Queue manager and how to connect to it.
	// +required
	Manager WorkQueueManager `json:"manager"`

	// worker specifies the resources of each worker, and the machines on which workers run.
	// +required
	Worker WorkerShape `json:"worker"`

	// template is a pod template, as in a Job, with metadata (labels and annotations) and
	// spec. Its first container runs the worker. The image of that container must contain
	// work_queue_worker of cctools, and a shell as /bin/sh. The pool sets the command, the
	// arguments, and the CPU and memory requests of that container.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +required
	Template runtime.RawExtension `json:"template"`

	// limits specifies the minimum and the maximum number of workers.
	// +required
	Limits WorkerLimits `json:"limits"`

	// scaling specifies how and when the number of workers changes.
	// +kubebuilder:default={}
	// +optional
	Scaling WorkerScaling `json:"scaling,omitempty"`
}

// WorkQueueManager specifies the address of a Work Queue manager and how to connect to it.
// Exactly one of address and catalog must be set.
//
// +kubebuilder:validation:XValidation:rule="has(self.address) != has(self.catalog)",message="exactly one of address and catalog must be set"
type WorkQueueManager struct {
	// address is the address of the manager, as host:port. Both the autoscaler and the workers
	// use it.
	// +kubebuilder:validation:Pattern=`^(\[[0-9a-fA-F:.]+\]|[a-zA-Z0-9._-]+):[0-9]{1,5}$`
	// +kubebuilder:validation:MaxLength=260
	// +optional
	Address *string `json:"address,omitempty"`

	// catalog specifies catalog servers that know the address of the manager.
	// +optional
	Catalog *WorkQueueCatalog `json:"catalog,omitempty"`

	// passwordSecret refers to the manager's password. The value must be identical to the
	// content of the manager's password file, including a trailing newline.
	// +optional
	PasswordSecret *SecretKey `json:"passwordSecret,omitempty"`

	// tls specifies TLS settings. Set it if the manager was started with --ssl.
	// +optional
	TLS *WorkQueueTLS `json:"tls,omitempty"`

	// timeout is the maximum duration of one query to the manager.
	// +kubebuilder:default="15s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('100ms') && duration(self) <= duration('5m')",message="must be between 100ms and 5m"
	// +optional
	Timeout metav1.Duration `json:"timeout,omitempty"`

	// goneAfter is how long the manager must be gone before its workers are drained. The
	// manager is gone if every attempt to connect to it fails because its host refuses
	// connections to the port, or because its host name does not resolve. If the manager does
	// not answer for any other reason, its workers are kept, and condition Degraded is true
	// after this time.
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('8784h')",message="must be between 1s and 8784h"
	// +optional
	GoneAfter metav1.Duration `json:"goneAfter,omitempty"`
}

// WorkQueueCatalog specifies catalog servers and the project name of a manager.
type WorkQueueCatalog struct {
	// servers are the addresses of catalog servers, as host:port. They are queried in this
	// order.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=260
	// +kubebuilder:validation:items:Pattern=`^(\[[0-9a-fA-F:.]+\]|[a-zA-Z0-9._-]+):[0-9]{1,5}$`
	// +required
	Servers []string `json:"servers"`

	// project is the project name with which the manager was started (-N).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Project string `json:"project"`
}

// SecretKey is a reference to a key of a Secret in the same namespace.
type SecretKey struct {
	// name is the name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// key is the key in the Secret.
	// +kubebuilder:default=password
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Key string `json:"key,omitempty"`
}

// WorkQueueTLS specifies how the manager's certificate is verified.
type WorkQueueTLS struct {
	// caSecret refers to CA certificates in PEM. One of them must have signed the manager's
	// certificate. Default: the CA certificates of the system.
	// +optional
	CASecret *SecretKey `json:"caSecret,omitempty"`

	// serverName is the name in the manager's certificate, if it differs from the host of the
	// address.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ServerName string `json:"serverName,omitempty"`
}

// WorkerShape specifies the resources of a worker and the machines on which workers run.
//
// +kubebuilder:validation:XValidation:rule="!has(self.flavors) || has(self.nodeFleet)",message="nodeFleet is required if flavors is set"
type WorkerShape struct {
	// packing specifies how workers are placed on nodes. OnePerNode places each worker on a
	// node of its own. Packed places several workers on one node, and requires resources.
	// +kubebuilder:default=OnePerNode
	// +optional
	Packing WorkerPacking `json:"packing,omitempty"`

	// resources specifies the resources of each worker. Default: all resources of a machine of
	// the flavor, except those that DaemonSets request and those in reserved.
	// +optional
	Resources *WorkerResources `json:"resources,omitempty"`

	// nodeFleet is the name of the NodeFleet on whose machines workers run.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	NodeFleet string `json:"nodeFleet,omitempty"`

	// flavors are the names of the NodeFleet's flavors on which workers may run. Default: all
	// flavors.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	Flavors []string `json:"flavors,omitempty"`

	// reserved specifies the resources of each machine that workers do not use, in addition to
	// those that DaemonSets request.
	// +kubebuilder:default={memory: "256Mi"}
	// +optional
	Reserved WorkerReserve `json:"reserved,omitempty"`

	// idleTimeout is how long a worker waits for a task before it disconnects from the
	// manager. It then reconnects, unless it is being drained. Workers therefore leave without
	// losing a task. Files that the worker has cached are lost when it disconnects.
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be between 1s and 24h"
	// +optional
	IdleTimeout metav1.Duration `json:"idleTimeout,omitempty"`

	// drainTimeout is how long a worker that is being drained may continue its tasks. When it
	// expires, the worker and its tasks are killed. It should be longer than the longest task.
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('30s') && duration(self) <= duration('8784h')",message="must be between 30s and 8784h"
	// +optional
	DrainTimeout metav1.Duration `json:"drainTimeout,omitempty"`
}

// WorkerResources specifies the resources that a worker offers to the manager and that its pod
// requests.
type WorkerResources struct {
	// cores is the number of CPU cores. Workers can only offer whole cores.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +required
	Cores int32 `json:"cores"`

	// memory is the amount of memory, in whole MiB.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="must be at least 1Mi"
	// +required
	Memory resource.Quantity `json:"memory"`

	// disk is the amount of disk space, in whole MiB. Default: the free disk space that the
	// worker detects, which its pod does not request.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="must be at least 1Mi"
	// +optional
	Disk *resource.Quantity `json:"disk,omitempty"`

	// gpus is the number of GPUs. The pod requests them as nvidia.com/gpu.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	GPUs int32 `json:"gpus,omitempty"`
}

// WorkerReserve specifies the resources of a machine that workers do not use.
type WorkerReserve struct {
	// cpu is the amount of CPU.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="must not be negative"
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// memory is the amount of memory.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="must not be negative"
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// WorkerLimits specifies the minimum and the maximum number of workers.
//
// +kubebuilder:validation:XValidation:rule="self.min <= self.max",message="min must not exceed max"
type WorkerLimits struct {
	// min is the minimum number of workers, even when no task waits. Workers that are being
	// drained do not count.
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Min int32 `json:"min"`

	// max is the maximum number of workers. Workers that are being drained count.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +required
	Max int32 `json:"max"`
}

// WorkerScaling specifies how and when the number of workers changes.
type WorkerScaling struct {
	// law specifies how the number of workers is computed. Supercargo uses the amount of
	// waiting work. HTA uses the number of waiting tasks.
	// +kubebuilder:default=Supercargo
	// +optional
	Law WorkerLaw `json:"law,omitempty"`

	// interval is the time between two queries to the manager.
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="must be between 1s and 1h"
	// +optional
	Interval metav1.Duration `json:"interval,omitempty"`

	// expectedInitTime is the expected time from requesting a worker until it accepts tasks.
	// It applies to flavors of which no worker has started yet.
	// +kubebuilder:default="3m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be between 1s and 24h"
	// +optional
	ExpectedInitTime metav1.Duration `json:"expectedInitTime,omitempty"`
}

// WorkerPhase is the phase of a pool.
//
// +kubebuilder:validation:Enum=Waiting;WarmUp;Runtime;CleanUp
type WorkerPhase string

// WorkerPoolStatus is the observed state of a pool.
type WorkerPoolStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Connected, Limited, Overstated and Degraded.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// phase is Waiting if there is no manager, WarmUp until one category of tasks has been
	// measured, CleanUp if there is no work, and Runtime otherwise.
	// +optional
	Phase WorkerPhase `json:"phase,omitempty"`

	// queue is the last state that the manager reported.
	// +optional
	Queue *WorkQueueStatus `json:"queue,omitempty"`

	// silentSince is the time since which the manager has not answered.
	// +optional
	SilentSince *metav1.Time `json:"silentSince,omitempty"`

	// goneSince is the time since which every attempt to connect to the manager has been
	// refused by its host, or has found no host of its name.
	// +optional
	GoneSince *metav1.Time `json:"goneSince,omitempty"`

	// workers contains the numbers of workers.
	// +optional
	Workers WorkerCounts `json:"workers,omitempty"`

	// shortageCores is the number of cores that the waiting tasks require, such as "12.5".
	// +kubebuilder:validation:MaxLength=32
	// +optional
	ShortageCores string `json:"shortageCores,omitempty"`

	// categories contains the learned properties of each category of tasks.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Categories []TaskCategory `json:"categories,omitempty"`

	// initTimes are the learned start-up times of workers, by flavor.
	// +listType=map
	// +listMapKey=flavor
	// +kubebuilder:validation:MaxItems=100
	// +optional
	InitTimes []WorkerInitTime `json:"initTimes,omitempty"`

	// resized is the time at which workers were last added or drained.
	// +optional
	Resized *metav1.MicroTime `json:"resized,omitempty"`

	// lastDecision is the last decision that changed the number of workers, or that would have
	// changed it in mode Act.
	// +optional
	LastDecision *WorkerDecision `json:"lastDecision,omitempty"`
}

// WorkQueueStatus is the state that a manager reported.
type WorkQueueStatus struct {
	// address is the address of the manager.
	// +kubebuilder:validation:MaxLength=260
	Address string `json:"address"`

	// project is the project name of the manager. It is empty if the manager has none.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Project string `json:"project,omitempty"`

	// started is the time at which the manager started. A different time means a different
	// queue.
	// +optional
	Started *metav1.Time `json:"started,omitempty"`

	// waiting is the number of waiting tasks.
	Waiting int32 `json:"waiting"`

	// running is the number of running tasks.
	Running int32 `json:"running"`

	// done is the number of tasks that have ended.
	Done int64 `json:"done"`

	// workersLost is the number of workers that the manager has lost, whether or not they ran
	// tasks.
	WorkersLost int64 `json:"workersLost"`
}

// WorkerCounts contains the numbers of workers.
type WorkerCounts struct {
	// pods is the number of pods of the pool.
	Pods int32 `json:"pods"`

	// connected is the number of workers that are connected to the manager, including those of
	// other origin. While the manager does not answer, the number is that of its last answer, as
	// are foreign and starting.
	Connected int32 `json:"connected"`

	// foreign is the number of connected workers that do not belong to the pool.
	// +optional
	Foreign int32 `json:"foreign,omitempty"`

	// starting is the number of pods whose worker has not connected yet.
	Starting int32 `json:"starting"`

	// draining is the number of pods that are being drained.
	Draining int32 `json:"draining"`
}

// TaskCategory contains the learned properties of tasks that do the same kind of work.
type TaskCategory struct {
	// name is the name of the category.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// cpu is the maximum CPU that a task occupies.
	CPU resource.Quantity `json:"cpu"`

	// memory is the maximum memory that a task occupies.
	Memory resource.Quantity `json:"memory"`

	// disk is the maximum disk space that a task occupies.
	// +optional
	Disk *resource.Quantity `json:"disk,omitempty"`

	// gpus is the maximum number of GPUs that a task occupies.
	// +optional
	GPUs int64 `json:"gpus,omitempty"`

	// source is the source of these values: Declared by the tasks or their category, Measured
	// by a manager that allocates what it measures, or WholeWorker.
	// +kubebuilder:validation:MaxLength=32
	Source string `json:"source"`

	// used is the maximum usage of a completed task, as measured by the manager's monitor. It
	// is unset if no monitor runs.
	// +optional
	Used *TaskUse `json:"used,omitempty"`

	// meanRuntime is the mean runtime of the tasks that ended last.
	// +optional
	MeanRuntime *metav1.Duration `json:"meanRuntime,omitempty"`

	// samples is the number of tasks in meanRuntime.
	// +optional
	Samples int32 `json:"samples,omitempty"`

	// ended is the total number of tasks from which the category was learned.
	// +optional
	Ended int64 `json:"ended,omitempty"`

	// unplaceable explains why a task of the category fits on no worker. It is empty if a task
	// fits.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Unplaceable string `json:"unplaceable,omitempty"`
}

// TaskUse is the measured maximum usage of a task. Values that were not measured are unset.
type TaskUse struct {
	// cpu is the CPU usage, averaged over three minutes. The peak usage of a shorter task is
	// higher.
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// memory is the resident memory.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`

	// disk is the disk space of the task's files.
	// +optional
	Disk *resource.Quantity `json:"disk,omitempty"`
}

// WorkerInitTime is the learned time from requesting a worker of a flavor until it is
// connected.
type WorkerInitTime struct {
	// flavor is the name of the flavor. It is empty if workers are not created for a flavor.
	// +kubebuilder:validation:MaxLength=253
	Flavor string `json:"flavor"`

	// mean is the mean time.
	Mean metav1.Duration `json:"mean"`

	// deviation is the standard deviation of the time.
	Deviation metav1.Duration `json:"deviation"`

	// node is the mean time until a node was available.
	Node metav1.Duration `json:"node"`

	// image is the mean time from then until the container ran.
	Image metav1.Duration `json:"image"`

	// connect is the mean time from then until the worker was connected to the manager.
	Connect metav1.Duration `json:"connect"`

	// samples is the number of workers from which the time was learned.
	Samples int64 `json:"samples"`
}

// WorkerDecision is a decision of the pool and its reason.
type WorkerDecision struct {
	// time is the time of the decision.
	Time metav1.Time `json:"time"`

	// mode is the mode of the pool at the time of the decision. In mode Observe nothing was
	// changed.
	Mode WorkerPoolMode `json:"mode"`

	// reason explains the decision.
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`

	// add is the number of workers to create.
	// +optional
	Add int32 `json:"add,omitempty"`

	// flavor is the flavor of the workers to create.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Flavor string `json:"flavor,omitempty"`

	// drain are the names of the pods to drain.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Drain []string `json:"drain,omitempty"`

	// rejected explains why other flavors were not chosen.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Rejected []Rejection `json:"rejected,omitempty"`

	// waiting is the number of waiting tasks at the time of the decision.
	Waiting int32 `json:"waiting"`

	// waitingThen is the number of tasks that were expected to wait at the end of the
	// initialization time without this decision. Tasks that do not justify a worker are not
	// included: those that fit no worker, and those whose category must be measured first.
	WaitingThen int32 `json:"waitingThen"`

	// expectedReady is the expected time until the created workers are connected. It is not set
	// if not all could be created.
	// +optional
	ExpectedReady *metav1.Duration `json:"expectedReady,omitempty"`

	// measuredReady is the actual time until all created workers were connected, or until all
	// drained workers had left.
	// +optional
	MeasuredReady *metav1.Duration `json:"measuredReady,omitempty"`
}

// The conditions of a WorkerPool.
const (
	// PoolReady means that the pool is reconciled: the last decision could be made and carried
	// out.
	PoolReady = "Ready"
	// PoolConnected means that the manager answers.
	PoolConnected = "Connected"
	// PoolLimited means that tasks wait because the pool has reached its maximum number of
	// workers, or because the tasks fit on no worker.
	PoolLimited = "Limited"
	// PoolOverstated means that tasks declare far more resources than they were measured to
	// use, so that fewer tasks than possible run on a worker at the same time.
	PoolOverstated = "Overstated"
	// PoolDegraded means that the manager has not answered for a long time, or that workers do
	// not start or do not connect.
	PoolDegraded = "Degraded"
)
