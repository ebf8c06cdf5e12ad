package objects

import (
	"bytes"
	"slices"
)

// status is the beginning of an item's status, and pod identifies an item as a pod.
var (
	status = []byte("  status:")
	pod    = []byte("\n  kind: Pod\n")
)

// statusKept are the status fields of a pod that are needed. Of the fields that are lists, these are the fields of their
// elements that are needed; nil for all.
var statusKept = map[string][]string{
	"phase": nil, "startTime": nil, "nominatedNodeName": nil, "resources": nil, "allocatedResources": nil,
	"conditions":            {"type", "status", "reason"},
	"containerStatuses":     {"name", "resources", "allocatedResources"},
	"initContainerStatuses": {"name", "resources", "allocatedResources"},
}

// podStatus is the position in the status of a pod.
type podStatus struct {
	keeps  bool     // the current field is needed
	only   []string // fields of the elements of the current field that are needed; nil for all
	listed bool     // elements begin at the indentation of the field, as kubectl prints them
	inside bool     // the current field of the element is needed
}

// needed returns the part of an item's line that is needed: of the status of a pod only some fields. Parsing YAML
// dominates the cost, and half of a pod is its status.
func (d *document) needed(line []byte) []byte {
	blank := len(bytes.TrimSpace(line)) == 0
	switch {
	case bytes.HasPrefix(line, status):
		d.status = nil
		if bytes.Contains(d.item, pod) && len(bytes.TrimSpace(line)) == len("status:") {
			d.status = &podStatus{}
		}
		return line
	case d.status != nil && !blank && !bytes.HasPrefix(line, []byte("   ")):
		d.status = nil
	}
	if d.status == nil {
		return line
	}
	return d.status.needed(line)
}

// Indentations of a field of the status, and of a field of an element of a list, as kubectl prints them.
const fieldAt, elementAt = 4, 6

var dash = []byte("    -\n")

func (s *podStatus) needed(line []byte) []byte {
	indent := len(line) - len(bytes.TrimLeft(line, " "))
	begins := bytes.HasPrefix(line, []byte("    - "))
	switch {
	case begins:
		s.listed, s.inside = true, s.wants(line[elementAt:])
		if s.keeps && !s.inside {
			return dash // the element begins with a field that is not needed
		}
	case indent == fieldAt:
		only, is := statusKept[fieldOf(line[fieldAt:])]
		*s = podStatus{keeps: is, only: only, inside: true}
	case s.listed && indent == elementAt && line[elementAt] != '-':
		s.inside = s.wants(line[elementAt:])
	}
	if s.keeps && s.inside {
		return line
	}
	return nil
}

// wants reports whether a field of an element is needed.
func (s *podStatus) wants(text []byte) bool {
	return s.only == nil || slices.Contains(s.only, fieldOf(text))
}

// fieldOf returns the name of the field with which a text begins.
func fieldOf(text []byte) string {
	name, _, _ := bytes.Cut(text, []byte(":"))
	return string(name)
}
