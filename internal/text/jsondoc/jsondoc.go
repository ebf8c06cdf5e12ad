// Package jsondoc writes the JSON output of programs.
package jsondoc

import (
	"encoding/json"
	"io"
)

// Write writes a document as indented JSON with a final newline.
func Write(w io.Writer, document any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(document)
}

// List returns the list, or an empty one instead of nil, so that JSON has [] instead of null.
func List[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
