// Package jsondoc writes what programs print for scripts.
package jsondoc

import (
	"encoding/json"
	"io"
)

// Write writes a document as indented JSON that ends in a newline.
func Write(w io.Writer, document any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(document)
}

// List returns the list, or an empty one in place of nil: JSON then has [] and not null.
func List[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
