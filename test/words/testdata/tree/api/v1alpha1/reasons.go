package v1alpha1

// Reasons.
const Reason = "Paused" // Paused means that a machine falls free.
const ReasonVolume = "Volume"
