// Package terms holds the words that decisions about containers and those who act on
// containers share.
package terms

// State is what a container does.
type State string

const (
	// Unknown says that nobody has looked.
	Unknown State = ""
	// Running says that its processes run, or could.
	Running State = "Running"
	// Frozen says that it is frozen.
	Frozen State = "Frozen"
	// Gone says that it has ended, or there is no such container.
	Gone State = "Gone"
)

// The reasons of failures.
const (
	// ReasonNotRunning: the container does not run.
	ReasonNotRunning = "NotRunning"
	// ReasonNotSupported: this node cannot do it.
	ReasonNotSupported = "NotSupported"
	// ReasonOpenConnections: the container has TCP connections, which cannot be moved.
	ReasonOpenConnections = "OpenConnections"
	// ReasonTooLarge: the checkpoint is larger than is allowed.
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
	// ReasonDumpLost: the state that was taken has gone, such as by a reboot.
	ReasonDumpLost = "DumpLost"
	// ReasonTransferFailed: the target did not get it.
	ReasonTransferFailed = "TransferFailed"
	// ReasonBadArchive: what came is not a checkpoint.
	ReasonBadArchive = "BadArchive"
	// ReasonContainerGone: the container has ended by itself or by others.
	ReasonContainerGone = "ContainerGone"
	// ReasonThawed: somebody else let the container go on, so what was taken is no longer
	// its state.
	ReasonThawed = "Thawed"
	// ReasonForeignContainer: the ID that the plan names is that of a container of another
	// pod.
	ReasonForeignContainer = "ForeignContainer"
	// ReasonFreezeExpired: the container has been frozen for as long as it may without its
	// state on the way, and continues.
	ReasonFreezeExpired = "FreezeExpired"
)
