package playground

// InputError is an error about what the caller gave. Trying again does not
// help.
type InputError struct {
	Option string // the field of Options it is about; empty for manifests
	Err    error
}

func (e *InputError) Error() string { return e.Err.Error() }
func (e *InputError) Unwrap() error { return e.Err }
