package law

import "fmt"

// Want returns nil if ok, and otherwise an error that names a constant with its value, and says what is wanted instead.
func Want(ok bool, want, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%s: must be %s", fmt.Sprintf(format, args...), want)
}
