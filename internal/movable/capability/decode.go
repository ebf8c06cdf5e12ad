package capability

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// unknown is what to do with unknown fields.
type unknown bool

const (
	passedOver unknown = false
	refused    unknown = true
)

// decode reads one JSON value of the known version.
func decode(text string, into any, fields unknown) error {
	if len(text) > MaxBytes {
		return fmt.Errorf("it has %d bytes: must be at most %d", len(text), MaxBytes)
	}
	// The version is checked first because a later version may change the fields.
	var header struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal([]byte(text), &header); err != nil {
		return err
	}
	if header.Version != Version {
		return fmt.Errorf("its version is %d: must be %d; run the same release of the agents and the scheduler", header.Version, Version)
	}
	d := json.NewDecoder(strings.NewReader(text))
	if fields == refused {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("unexpected data after the JSON")
	}
	return nil
}
