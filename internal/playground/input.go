package playground

// InputError is an error about what the caller gave: a directory, a
// configuration, a manifest. Trying again does not help.
type InputError struct{ Err error }

func (e *InputError) Error() string { return e.Err.Error() }
func (e *InputError) Unwrap() error { return e.Err }

// inputErr marks an error as one about the input.
func inputErr(err error) error {
	if err == nil {
		return nil
	}
	return &InputError{Err: err}
}
