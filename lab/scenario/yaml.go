package scenario

import (
	"fmt"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"supercargo.dev/supercargo/internal/input/document"
	"supercargo.dev/supercargo/internal/input/table"
	"supercargo.dev/supercargo/internal/text/clip"
)

// value is a node of the document and the path to it, such as
// "spec.nodes[0].count".
type value struct {
	node *yaml.Node
	path string
}

// reader reads one document and collects its errors.
type reader struct {
	file   string
	open   func(path string) ([]byte, error)
	faults []table.Error
	more   int
	others []table.Error // of files that the document references
}

// maxCollected limits the number of errors kept until they are sorted.
const maxCollected = 1000

// document returns the root of the single document in text.
func (r *reader) document(text []byte) (value, bool) {
	if len(text) > MaxBytes {
		r.faultAt(0, "", fmt.Sprintf("is larger than %d bytes", MaxBytes))
		return value{}, false
	}
	switch documents, err := document.Decode(text); {
	case len(documents) > 1:
		r.faultAt(documents[1].Line, "", "begins a second document: must contain one Scenario")
	case err != nil:
		r.faultAt(err.Line, "", err.Problem)
	case len(documents) == 0:
		r.faultAt(0, "", "is empty: must contain a Scenario")
	default:
		return value{documents[0].Content[0], ""}, true
	}
	return value{}, false
}

func (r *reader) faultAt(line int, path, problem string) {
	if len(r.faults) == maxCollected {
		r.more++
		return
	}
	r.faults = append(r.faults, table.Error{File: r.file, Line: line, Column: path, Problem: problem})
}

// fault records an error at a value.
func (r *reader) fault(v value, format string, args ...any) {
	r.faultAt(v.node.Line, v.path, fmt.Sprintf(format, args...))
}

// bad records an error at a scalar and quotes its content.
func (r *reader) bad(v value, err error) { r.fault(v, "%q %v", clip.Cell(v.node.Value), err) }

// count returns the number of errors so far.
func (r *reader) count() int { return len(r.faults) + r.more + len(r.others) }

// err returns the errors ordered by line, those of other files last, or nil.
func (r *reader) err() error {
	if r.count() == 0 {
		return nil
	}
	slices.SortStableFunc(r.faults, func(a, b table.Error) int { return a.Line - b.Line })
	list := slices.Concat(r.faults, r.others)
	kept := min(len(list), table.MaxErrors)
	return &table.Errors{List: list[:kept], More: len(list) - kept + r.more}
}

// field is a possible key of an object. If want is not empty, the key is required, and want
// describes its content.
type field struct {
	name, want string
	read       func(v value)
}

func optional(name string, read func(v value)) field       { return field{name, "", read} }
func required(name, want string, read func(v value)) field { return field{name, want, read} }

// into returns a function that stores what read returns.
func into[T any](target *T, read func(v value) T) func(v value) {
	return func(v value) { *target = read(v) }
}

// object reads the fields of a mapping and reports whether all are valid.
func (r *reader) object(v value, fields ...field) bool {
	before := r.count()
	if v.node.Kind != yaml.MappingNode {
		r.fault(v, "is %s: must be an object with the fields %s", kindOf(v), namesOf(fields))
		return false
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := v.node.Content[i]
		child := value{v.node.Content[i+1], join(v.path, clip.Cell(key.Value))}
		at := slices.IndexFunc(fields, func(f field) bool { return f.name == key.Value })
		switch {
		case key.Kind != yaml.ScalarNode || at < 0:
			r.faultAt(key.Line, child.path, "is not a known field: must be one of "+namesOf(fields))
		case seen[key.Value]:
			r.faultAt(key.Line, child.path, "is set twice")
		default:
			seen[key.Value] = true
			fields[at].read(child)
		}
	}
	for _, f := range fields {
		if f.want != "" && !seen[f.name] {
			r.faultAt(v.node.Line, join(v.path, f.name), "is required: must be "+f.want)
		}
	}
	return r.count() == before
}

func namesOf(fields []field) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return strings.Join(names, ", ")
}

// list reads the elements of a sequence.
func (r *reader) list(v value, each func(i int, v value)) {
	switch {
	case v.node.Kind != yaml.SequenceNode:
		r.fault(v, "is %s: must be a list", kindOf(v))
	case len(v.node.Content) > MaxEntries:
		r.fault(v, "has %d elements: must have at most %d", len(v.node.Content), MaxEntries)
	default:
		for i, node := range v.node.Content {
			each(i, value{node, fmt.Sprintf("%s[%d]", v.path, i)})
		}
	}
}

// pairs reads a mapping with arbitrary keys.
func (r *reader) pairs(v value, want string, each func(key string, v value)) {
	switch {
	case v.node.Kind != yaml.MappingNode:
		r.fault(v, "is %s: must be %s", kindOf(v), want)
		return
	case len(v.node.Content) > 2*MaxEntries:
		r.fault(v, "has %d elements: must have at most %d", len(v.node.Content)/2, MaxEntries)
		return
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := v.node.Content[i]
		child := value{v.node.Content[i+1], join(v.path, clip.Cell(key.Value))}
		switch {
		case key.Kind != yaml.ScalarNode:
			r.faultAt(key.Line, v.path, "has a key that is not a string: must be "+want)
		case seen[key.Value]:
			r.faultAt(key.Line, child.path, "is set twice")
		default:
			seen[key.Value] = true
			each(key.Value, child)
		}
	}
}

// scalar returns the text of a scalar value.
func (r *reader) scalar(v value, want string) (string, bool) {
	single := v.node.Kind == yaml.ScalarNode && v.node.Tag != "!!null"
	if !single {
		r.fault(v, "is %s: must be %s", kindOf(v), want)
	}
	return v.node.Value, single
}

// parsed reads a scalar with parse, whose error says what would be valid.
func parsed[T any](r *reader, want string, parse func(text string) (T, error)) func(v value) T {
	return func(v value) T {
		text, ok := r.scalar(v, want)
		if !ok {
			var zero T
			return zero
		}
		result, err := parse(text)
		if err != nil {
			r.bad(v, err)
		}
		return result
	}
}

// kindOf describes the type of a value.
func kindOf(v value) string {
	switch v.node.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias, which is not supported"
	}
	if v.node.Tag == "!!null" {
		return "empty"
	}
	return fmt.Sprintf("%q", clip.Cell(v.node.Value))
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
