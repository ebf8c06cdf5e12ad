package commandtest

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
)

// Contract is a command line that prints JSON, and what scripts outside of this project read of it. Fields may be added
// to a document, but not renamed, dropped or given another unit.
type Contract struct {
	Name  string
	Stdin string
	Args  []string
	// Fields has a line for each field: its path and the kind of its value. A name with [] is a list, of which each
	// element has the rest of the path, and the list must have an element. The kinds are those of kindFault.
	Fields string
	// Values are what some fields must be: they hold the units. A field within a list has one value in all.
	Values map[string]any
}

// Hold runs the command lines with -o json. Each must exit with 0 and print one document to stdout, nothing else
// anywhere, no null, and each field.
func Hold(t *testing.T, program Program, contracts []Contract) {
	t.Helper()
	for _, c := range contracts {
		t.Run(c.Name, func(t *testing.T) {
			code, stdout, stderr := Run(t, program, c.Stdin, append(c.Args, "-o", "json")...)
			if code != 0 || stderr != "" {
				t.Fatalf("exit code %d and stderr %q, want 0 and nothing", code, stderr)
			}
			for _, fault := range c.Faults(stdout) {
				t.Error(fault)
			}
		})
	}
}

// Faults returns what is wrong with the printed document.
func (c *Contract) Faults(stdout string) (faults []string) {
	decoder := json.NewDecoder(strings.NewReader(stdout))
	var document any
	if err := decoder.Decode(&document); err != nil {
		return []string{fmt.Sprintf("it prints no JSON: %v", err)}
	}
	if _, err := decoder.Token(); err != io.EOF || !strings.HasSuffix(stdout, "}\n") {
		faults = append(faults, "after the document comes more, or no end of line")
	}
	faults = append(faults, nulls("", document)...)
	for line := range strings.Lines(c.Fields) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		path, kind := words[0], strings.Join(words[1:], " ")
		values, missing := valuesAt(document, path)
		if missing != "" {
			faults = append(faults, missing)
		}
		for _, v := range values {
			if fault := kindFault(v, kind); fault != "" {
				faults = append(faults, fmt.Sprintf("%s is %v: %s", path, v, fault))
			}
		}
	}
	for path, want := range c.Values {
		if values, _ := valuesAt(document, path); len(values) != 1 || values[0] != want {
			faults = append(faults, fmt.Sprintf("%s is %v, want %v", path, values, want))
		}
	}
	return faults
}

// kinds are the kinds of values of a contract, with what each accepts.
var kinds = map[string]func(value any) bool{
	"string":  func(v any) bool { text, is := v.(string); return is && text != "" },
	"text":    func(v any) bool { _, is := v.(string); return is }, // it may be empty
	"boolean": func(v any) bool { _, is := v.(bool); return is },
	"list":    func(v any) bool { _, is := v.([]any); return is }, // its elements are not of the contract, or there may be none
	"number":  numbers(math.Inf(-1), math.Inf(1)),
	"amount":  numbers(0, math.Inf(1)),
	"count":   func(v any) bool { n, is := v.(float64); return is && n >= 0 && n == math.Trunc(n) },
	"share":   numbers(0, 1),
	"percent": numbers(0, 100),
}

// numbers accepts numbers from least to most.
func numbers(least, most float64) func(value any) bool {
	return func(v any) bool { n, is := v.(float64); return is && n >= least && n <= most }
}

// kindFault returns why a value is not of a kind.
func kindFault(value any, kind string) string {
	accepts := kinds[kind]
	switch {
	case accepts == nil:
		return fmt.Sprintf("the test names kind %q, which there is not", kind)
	case accepts(value):
		return ""
	}
	return "must be of kind " + kind
}

// valuesAt returns all values of a document at a path, or which part of the path is missing.
func valuesAt(document any, path string) (all []any, missing string) {
	if path == "" {
		return []any{document}, ""
	}
	name, rest, _ := strings.Cut(path, ".")
	name, list := strings.CutSuffix(name, "[]")
	object, _ := document.(map[string]any)
	value, is := object[name]
	if !is {
		return nil, fmt.Sprintf("%s is missing in %v", name, document)
	}
	if !list {
		return valuesAt(value, rest)
	}
	elements, _ := value.([]any)
	if len(elements) == 0 {
		return nil, fmt.Sprintf("%s is no list, or has no element", name)
	}
	for _, e := range elements {
		values, lacks := valuesAt(e, rest)
		all, missing = append(all, values...), lacks
		if missing != "" {
			return all, missing
		}
	}
	return all, ""
}

// nulls names the fields that are null.
func nulls(path string, value any) (faults []string) {
	switch v := value.(type) {
	case nil:
		return []string{path + " is null"}
	case map[string]any:
		for name, part := range v {
			faults = append(faults, nulls(path+"."+name, part)...)
		}
	case []any:
		for _, part := range v {
			faults = append(faults, nulls(path+"[]", part)...)
		}
	}
	return faults
}
