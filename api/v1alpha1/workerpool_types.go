package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// WorkerPool keeps as many workers of a Work Queue manager as its queue is worth: by what
// waits, what tasks of each category were seen to need, and how long a worker takes to come.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=wp,categories=supercargo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Waiting",type=integer,JSONPath=`.status.queue.waiting`
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.queue.running`
// +kubebuilder:printcolumn:name="Workers",type=integer,JSONPath=`.status.workers.connected`
// +kubebuilder:printcolumn:name="Coming",type=integer,JSONPath=`.status.workers.coming`
// +kubebuilder:printcolumn:name="Leaving",type=integer,JSONPath=`.status.workers.leaving`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 52",message="the name must not have more than 52 characters: pods and hosts are called after it"
type WorkerPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the pool is to be.
	// +required
	Spec WorkerPoolSpec `json:"spec"`

	// status is what it is, and why.
	// +optional
	Status WorkerPoolStatus `json:"status,omitempty"`
}

// WorkerPoolList is a list of pools.
//
// +kubebuilder:object:root=true
type WorkerPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the pools.
	Items []WorkerPool `json:"items"`
}

// WorkerPoolMode says whether decisions are carried out.
//
// +kubebuilder:validation:Enum=Act;Observe
type WorkerPoolMode string

const (
	// WorkerPoolAct carries decisions out.
	WorkerPoolAct WorkerPoolMode = "Act"
	// WorkerPoolObserve decides and shows why, and makes and removes no worker.
	WorkerPoolObserve WorkerPoolMode = "Observe"
)

// WorkerPacking says how workers lie on nodes.
//
// +kubebuilder:validation:Enum=OnePerNode;Packed
type WorkerPacking string

const (
	// WorkersOnePerNode gives each worker a node of its own, which it fills.
	WorkersOnePerNode WorkerPacking = "OnePerNode"
	// WorkersPacked lets several workers share a node.
	WorkersPacked WorkerPacking = "Packed"
)

// WorkerLaw says how many workers there are to be.
//
// +kubebuilder:validation:Enum=Supercargo;HTA
type WorkerLaw string

const (
	// WorkerLawSupercargo counts the work that waits.
	WorkerLawSupercargo WorkerLaw = "Supercargo"
	// WorkerLawHTA counts the tasks that wait.
	WorkerLawHTA WorkerLaw = "HTA"
)

// WorkerPoolSpec is what a pool is to be.
//
// +kubebuilder:validation:XValidation:rule="has(self.worker.resources) || has(self.worker.nodeFleet)",message="give worker.resources, what each worker has, or worker.nodeFleet, whose machines workers are made to fill"
// +kubebuilder:validation:XValidation:rule="!has(self.worker.packing) || self.worker.packing != 'Packed' || has(self.worker.resources)",message="packing Packed needs worker.resources: what each worker has"
type WorkerPoolSpec struct {
	// mode is Act, or Observe to see decisions without any worker being made or removed.
	// +kubebuilder:default=Act
	// +optional
	Mode WorkerPoolMode `json:"mode,omitempty"`

	// manager says where the Work Queue manager is.
	// +required
	Manager WorkQueueManager `json:"manager"`

	// worker says what each worker has, and on which machines.
	// +required
	Worker WorkerShape `json:"worker"`

	// template is a pod template, as that of a Job: metadata with labels and annotations,
	// and spec. Its first container runs the worker, and needs an image that has
	// work_queue_worker of cctools and a shell as /bin/sh; its command, arguments, CPU and
	// memory requests are set by the pool.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +required
	Template runtime.RawExtension `json:"template"`

	// limits bound the number of workers.
	// +required
	Limits WorkerLimits `json:"limits"`

	// scaling says when the number of workers is looked at.
	// +kubebuilder:default={}
	// +optional
	Scaling WorkerScaling `json:"scaling,omitempty"`
}

// WorkQueueManager says where a Work Queue manager is and how to talk to it.
//
// +kubebuilder:validation:XValidation:rule="has(self.address) != has(self.catalog)",message="give either address, as host:port, or catalog, which knows it by its project name"
type WorkQueueManager struct {
	// address is host:port, for this program and for workers alike.
	// +kubebuilder:validation:Pattern=`^(\[[0-9a-fA-F:.]+\]|[a-zA-Z0-9._-]+):[0-9]{1,5}$`
	// +kubebuilder:validation:MaxLength=260
	// +optional
	Address *string `json:"address,omitempty"`

	// catalog finds the manager by its project name.
	// +optional
	Catalog *WorkQueueCatalog `json:"catalog,omitempty"`

	// passwordSecret has the manager's password: the bytes of the file that the manager
	// reads it from, a line end included.
	// +optional
	PasswordSecret *SecretKey `json:"passwordSecret,omitempty"`

	// tls is for managers that were started with --ssl.
	// +optional
	TLS *WorkQueueTLS `json:"tls,omitempty"`

	// timeout bounds one question to the manager.
	// +kubebuilder:default="15s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('100ms') && duration(self) <= duration('5m')",message="must be between 100ms and 5m"
	// +optional
	Timeout metav1.Duration `json:"timeout,omitempty"`

	// goneAfter is for how long each attempt must find the manager gone before its workers
	// are drained: its host refuses connections to the port, or has no address by its name.
	// Workers of a manager that is silent in any other way are kept, and condition Degraded
	// says so after this time.
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('8784h')",message="must be between 1s and 8784h"
	// +optional
	GoneAfter metav1.Duration `json:"goneAfter,omitempty"`
}

// WorkQueueCatalog names catalog servers and the project of a manager.
type WorkQueueCatalog struct {
	// servers are asked one after the other, each as host:port.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=260
	// +kubebuilder:validation:items:Pattern=`^(\[[0-9a-fA-F:.]+\]|[a-zA-Z0-9._-]+):[0-9]{1,5}$`
	// +required
	Servers []string `json:"servers"`

	// project is the name that the manager was started with (-N).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Project string `json:"project"`
}

// SecretKey names a key of a Secret in the same namespace.
type SecretKey struct {
	// name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// key in the Secret.
	// +kubebuilder:default=password
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Key string `json:"key,omitempty"`
}

// WorkQueueTLS says how to check the manager's certificate.
type WorkQueueTLS struct {
	// caSecret has the certificates, as PEM, of which one must have signed that of the
	// manager. Default: those that the system trusts.
	// +optional
	CASecret *SecretKey `json:"caSecret,omitempty"`

	// serverName is the name in the certificate, where it is not the host of the address.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ServerName string `json:"serverName,omitempty"`
}

// WorkerShape says what a worker has.
//
// +kubebuilder:validation:XValidation:rule="!has(self.flavors) || has(self.nodeFleet)",message="flavors are those of a nodeFleet: name it"
type WorkerShape struct {
	// packing is OnePerNode, or Packed to let workers share nodes.
	// +kubebuilder:default=OnePerNode
	// +optional
	Packing WorkerPacking `json:"packing,omitempty"`

	// resources is what each worker has. Default: what a machine of the flavor leaves.
	// +optional
	Resources *WorkerResources `json:"resources,omitempty"`

	// nodeFleet names the NodeFleet on whose machines workers run.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	NodeFleet string `json:"nodeFleet,omitempty"`

	// flavors are those of the NodeFleet that may be used. Default: all.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	Flavors []string `json:"flavors,omitempty"`

	// reserved is what workers leave of each machine beyond what DaemonSets take.
	// +kubebuilder:default={memory: "256Mi"}
	// +optional
	Reserved WorkerReserve `json:"reserved,omitempty"`

	// idleTimeout is how long a worker waits for a task before it says good-bye to the
	// manager. It then comes back, unless it was told to leave: this is how workers leave
	// without losing a task. Files that a worker has kept are lost with it.
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be between 1s and 24h"
	// +optional
	IdleTimeout metav1.Duration `json:"idleTimeout,omitempty"`

	// drainTimeout is how long a worker that was told to leave may continue with its tasks.
	// Then it is killed with them: give more than the longest task takes.
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('30s') && duration(self) <= duration('8784h')",message="must be between 30s and 8784h"
	// +optional
	DrainTimeout metav1.Duration `json:"drainTimeout,omitempty"`
}

// WorkerResources is what a worker offers to the manager, and its pod requests.
type WorkerResources struct {
	// cores, since a worker offers whole ones.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +required
	Cores int32 `json:"cores"`

	// memory in whole MiB.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="must be at least 1Mi"
	// +required
	Memory resource.Quantity `json:"memory"`

	// disk in whole MiB. Default: what the worker finds free, which it does not request.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="must be at least 1Mi"
	// +optional
	Disk *resource.Quantity `json:"disk,omitempty"`

	// gpus, requested as nvidia.com/gpu.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	GPUs int32 `json:"gpus,omitempty"`
}

// WorkerReserve is what workers leave of a machine.
type WorkerReserve struct {
	// cpu that is left.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="must not be negative"
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// memory that is left.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="must not be negative"
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// WorkerLimits bound the number of workers.
//
// +kubebuilder:validation:XValidation:rule="self.min <= self.max",message="min must not exceed max"
type WorkerLimits struct {
	// min is how many workers there are at least, even when no task waits. Those that are leaving do not
	// count.
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Min int32 `json:"min"`

	// max is how many workers there are at most. No worker is made while there are as many,
	// those that are leaving included.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +required
	Max int32 `json:"max"`
}

// WorkerScaling says when the number of workers is looked at.
type WorkerScaling struct {
	// law says how many workers there are to be.
	// +kubebuilder:default=Supercargo
	// +optional
	Law WorkerLaw `json:"law,omitempty"`

	// interval is how often the manager is asked.
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="must be between 1s and 1h"
	// +optional
	Interval metav1.Duration `json:"interval,omitempty"`

	// expectedInitTime is how long a worker is taken to need from being asked for to taking
	// tasks, while none of its flavor has been seen to come.
	// +kubebuilder:default="3m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be between 1s and 24h"
	// +optional
	ExpectedInitTime metav1.Duration `json:"expectedInitTime,omitempty"`
}

// WorkerPhase says what a pool is about.
//
// +kubebuilder:validation:Enum=Waiting;WarmUp;Runtime;CleanUp
type WorkerPhase string

// WorkerPoolStatus is what a pool is, and why.
type WorkerPoolStatus struct {
	// observedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Connected, Limited, Overstated and Degraded.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// phase is Waiting for a manager, WarmUp while no category of tasks is measured,
	// Runtime, or CleanUp when there is nothing to do.
	// +optional
	Phase WorkerPhase `json:"phase,omitempty"`

	// queue is what the manager said last.
	// +optional
	Queue *WorkQueueStatus `json:"queue,omitempty"`

	// silentSince is since when the manager has not answered.
	// +optional
	SilentSince *metav1.Time `json:"silentSince,omitempty"`

	// goneSince is since when each attempt to ask the manager was refused by its host, or
	// found no host of its name.
	// +optional
	GoneSince *metav1.Time `json:"goneSince,omitempty"`

	// workers are counts of them.
	// +optional
	Workers WorkerCounts `json:"workers,omitempty"`

	// shortageCores is how many cores the tasks that wait want, such as "12.5".
	// +kubebuilder:validation:MaxLength=32
	// +optional
	ShortageCores string `json:"shortageCores,omitempty"`

	// categories are what was learned of tasks.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Categories []TaskCategory `json:"categories,omitempty"`

	// initTimes are how long workers took to come, by flavor.
	// +listType=map
	// +listMapKey=flavor
	// +kubebuilder:validation:MaxItems=100
	// +optional
	InitTimes []WorkerInitTime `json:"initTimes,omitempty"`

	// resized is when workers were last added or drained.
	// +optional
	Resized *metav1.MicroTime `json:"resized,omitempty"`

	// lastDecision is the last one that changed the number of workers, or would have in
	// mode Act.
	// +optional
	LastDecision *WorkerDecision `json:"lastDecision,omitempty"`
}

// WorkQueueStatus is what a manager said.
type WorkQueueStatus struct {
	// address is where the manager is.
	// +kubebuilder:validation:MaxLength=260
	Address string `json:"address"`

	// project is its name; empty if it has none.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Project string `json:"project,omitempty"`

	// started is when it began. Another time is another queue.
	// +optional
	Started *metav1.Time `json:"started,omitempty"`

	// waiting and running are counts of tasks.
	Waiting int32 `json:"waiting"`

	// running is how many tasks run.
	Running int32 `json:"running"`

	// done is how many have ended.
	Done int64 `json:"done"`

	// workersLost is how many workers the manager has lost with or without tasks.
	WorkersLost int64 `json:"workersLost"`
}

// WorkerCounts are counts of workers.
type WorkerCounts struct {
	// pods is how many pods the pool has.
	Pods int32 `json:"pods"`

	// connected is how many workers the manager has, from this pool or not.
	Connected int32 `json:"connected"`

	// foreign is how many of them do not belong to the pool.
	// +optional
	Foreign int32 `json:"foreign,omitempty"`

	// coming is how many pods have no connected worker yet.
	Coming int32 `json:"coming"`

	// leaving is how many pods were told to leave.
	Leaving int32 `json:"leaving"`
}

// TaskCategory is what was learned of tasks that do the same kind of work.
type TaskCategory struct {
	// name of the category.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// cpu, memory, disk and gpus are what a task occupies at most.
	CPU resource.Quantity `json:"cpu"`

	// memory that a task occupies.
	Memory resource.Quantity `json:"memory"`

	// disk that a task occupies.
	// +optional
	Disk *resource.Quantity `json:"disk,omitempty"`

	// gpus that a task occupies.
	// +optional
	GPUs int64 `json:"gpus,omitempty"`

	// source says where that is from: Declared by the tasks or their category, Measured by
	// the manager where it was told to set aside what it measures, or WholeWorker.
	// +kubebuilder:validation:MaxLength=32
	Source string `json:"source"`

	// used is the most that the manager's monitor has seen a task use, of those that ended;
	// absent where no monitor runs.
	// +optional
	Used *TaskUse `json:"used,omitempty"`

	// meanRuntime is how long the tasks ran that ended last.
	// +optional
	MeanRuntime *metav1.Duration `json:"meanRuntime,omitempty"`

	// samples is of how many tasks the mean is.
	// +optional
	Samples int32 `json:"samples,omitempty"`

	// ended is how many tasks were learned from in all.
	// +optional
	Ended int64 `json:"ended,omitempty"`

	// unplaceable says why no worker holds a task of the category; empty if one does.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Unplaceable string `json:"unplaceable,omitempty"`
}

// TaskUse is what a task was measured to use at most. What nobody has measured is absent.
type TaskUse struct {
	// cpu is a mean over three minutes: a task that runs for less has used more.
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// memory that was resident.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`

	// disk that the task's files took.
	// +optional
	Disk *resource.Quantity `json:"disk,omitempty"`
}

// WorkerInitTime is how long workers of a flavor took from being asked for to being
// connected.
type WorkerInitTime struct {
	// flavor is its name; empty where workers are not made for one.
	// +kubebuilder:validation:MaxLength=253
	Flavor string `json:"flavor"`

	// mean of the times.
	Mean metav1.Duration `json:"mean"`

	// deviation is their standard deviation.
	Deviation metav1.Duration `json:"deviation"`

	// node is the mean time until there was a node.
	Node metav1.Duration `json:"node"`

	// image is the mean time from then until the container ran.
	Image metav1.Duration `json:"image"`

	// connect is the mean time from then until the manager knew the worker.
	Connect metav1.Duration `json:"connect"`

	// samples is how many workers it was learned from.
	Samples int64 `json:"samples"`
}

// WorkerDecision says what was decided, and why.
type WorkerDecision struct {
	// time is when it was made.
	Time metav1.Time `json:"time"`

	// mode in which it was made: in Observe nothing was changed.
	Mode WorkerPoolMode `json:"mode"`

	// reason says why.
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`

	// add is how many workers to make.
	// +optional
	Add int32 `json:"add,omitempty"`

	// flavor of the workers to make.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Flavor string `json:"flavor,omitempty"`

	// drain names pods that take no more tasks.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Drain []string `json:"drain,omitempty"`

	// rejected says why other flavors were not chosen.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Rejected []Rejection `json:"rejected,omitempty"`

	// waiting is how many tasks waited, and waitingThen how many of them were expected to
	// at the end of the initialisation time if nothing were done.
	Waiting int32 `json:"waiting"`

	// waitingThen is how many tasks were expected to wait.
	WaitingThen int32 `json:"waitingThen"`

	// expectedReady is how long the workers to make are expected to take.
	// +optional
	ExpectedReady *metav1.Duration `json:"expectedReady,omitempty"`

	// measuredReady is how long it took until all of them were connected, or those to leave
	// had left.
	// +optional
	MeasuredReady *metav1.Duration `json:"measuredReady,omitempty"`
}

// The conditions of a WorkerPool.
const (
	// PoolReady says that the pool is looked after: the last decision could be made and
	// carried out.
	PoolReady = "Ready"
	// PoolConnected says that the manager answers.
	PoolConnected = "Connected"
	// PoolLimited says that tasks wait because there may be no more workers, or because no
	// worker holds them.
	PoolLimited = "Limited"
	// PoolOverstated says that far more is set aside for tasks than they were measured to
	// use, so that fewer run at once on a worker than could.
	PoolOverstated = "Overstated"
	// PoolDegraded says that the manager has not answered for long, or that workers do not
	// come or do not connect.
	PoolDegraded = "Degraded"
)
