package governor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Home returns the governor that a machine has when it is not probed, as [Switch.Home] does:
// while it is changed, the one in the record. It takes no lock and changes nothing.
func Home(sysfs, state string) (string, error) {
	s := &Switch{cpufreq: filepath.Join(sysfs, "devices/system/cpu/cpufreq"), home: map[string]string{}}
	text, err := os.ReadFile(filepath.Join(state, file))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = s.readPolicies()
	case err == nil:
		err = json.Unmarshal(text, &s.home)
	}
	if err != nil {
		return "", fmt.Errorf("read the governor of the machine: %w", err)
	}
	return s.Home(), nil
}
