// Package terms holds the terms that decisions about containers share with the code that acts on
// them.
package terms

// State is the state of a container.
type State string

const (
	// Unknown means that the state was not observed.
	Unknown State = ""
	// Running means that its processes run, or could.
	Running State = "Running"
	// Frozen means that it is frozen.
	Frozen State = "Frozen"
	// Gone means that it has ended, or does not exist.
	Gone State = "Gone"
)

// The reasons of failures.
const (
	// ReasonNotRunning: the container does not run.
	ReasonNotRunning = "NotRunning"
	// ReasonNotSupported: this node does not support it.
	ReasonNotSupported = "NotSupported"
	// ReasonOpenConnections: the container has TCP connections, which cannot be moved.
	ReasonOpenConnections = "OpenConnections"
	// ReasonTooLarge: the checkpoint is larger than allowed.
	ReasonTooLarge = "TooLarge"
	// ReasonNoRoom: there is no room for it.
	ReasonNoRoom = "NoRoom"
	// ReasonImageMissing: the base image is not on the target.
	ReasonImageMissing = "ImageMissing"
	// ReasonImageLost: the staged image has gone.
	ReasonImageLost = "ImageLost"
	// ReasonFreezeFailed: the container could not be frozen.
	ReasonFreezeFailed = "FreezeFailed"
	// ReasonDumpFailed: its state could not be taken.
	ReasonDumpFailed = "DumpFailed"
	// ReasonDumpLost: the dump no longer exists, for instance after a reboot.
	ReasonDumpLost = "DumpLost"
	// ReasonTransferFailed: the target did not receive it.
	ReasonTransferFailed = "TransferFailed"
	// ReasonBadArchive: the received data is not a checkpoint.
	ReasonBadArchive = "BadArchive"
	// ReasonContainerGone: the container has ended.
	ReasonContainerGone = "ContainerGone"
	// ReasonThawed: something else resumed the container, so the dump is no longer its state.
	ReasonThawed = "Thawed"
	// ReasonForeignContainer: the container ID in the plan belongs to another pod.
	ReasonForeignContainer = "ForeignContainer"
	// ReasonFreezeExpired: the container was frozen for the maximum time, its state was not sent,
	// and it continues.
	ReasonFreezeExpired = "FreezeExpired"
)
