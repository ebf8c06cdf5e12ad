package controlplane

// InputError is an error in the caller's input. A retry does not help.
type InputError struct {
	Option string // the field of Options at fault; empty for manifests
	Err    error
}

func (e *InputError) Error() string { return e.Err.Error() }
func (e *InputError) Unwrap() error { return e.Err }
