package main

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// list contains the differences by design and the tests that are not run.
type list struct {
	// Differences are tests that pass with the stock scheduler and fail with
	// Supercargo, by design or not yet.
	Differences []entry `json:"differences"`
	// Excluded are tests that are not run.
	Excluded []entry `json:"excluded"`
}

// entry is one or several tests of a package, with the reason for the entry.
type entry struct {
	// Package is relative to the suite, "." for its root.
	Package string `json:"package"`
	// Test is the full name of a test. In the name of a difference, * matches any characters. In an excluded
	// entry, "" matches the whole package.
	Test   string `json:"test,omitempty"`
	Reason string `json:"reason"`
}

func readList(text []byte) (*list, error) {
	var l list
	if err := yaml.UnmarshalStrict(text, &l); err != nil {
		return nil, fmt.Errorf("read test/conformance/differences.yaml: %w", err)
	}
	check := func(field string, i int, e entry) error {
		switch {
		case e.Package == "" || path.Clean(e.Package) != e.Package:
			return fmt.Errorf("read test/conformance/differences.yaml: %s[%d].package: want a package relative to the suite, got %q", field, i, e.Package)
		case strings.TrimSpace(e.Reason) == "":
			return fmt.Errorf("read test/conformance/differences.yaml: %s[%d].reason: say why", field, i)
		}
		return nil
	}
	for i, e := range l.Differences {
		if err := check("differences", i, e); err != nil {
			return nil, err
		}
		if e.Test == "" {
			return nil, fmt.Errorf("read test/conformance/differences.yaml: differences[%d].test: name the test", i)
		}
	}
	for i, e := range l.Excluded {
		if err := check("excluded", i, e); err != nil {
			return nil, err
		}
		if strings.Contains(e.Test, "/") {
			return nil, fmt.Errorf("read test/conformance/differences.yaml: excluded[%d].test: only whole tests can be excluded, not the subtest %q", i, e.Test)
		}
	}
	return &l, nil
}

// excluded returns a regular expression of the package's tests that are not run, or "", and whether the whole
// package is excluded.
func (l *list) excluded(name string) (tests string, whole bool) {
	var names []string
	for _, e := range l.Excluded {
		if e.Package != name {
			continue
		}
		if e.Test == "" {
			return "", true
		}
		names = append(names, regexp.QuoteMeta(e.Test))
	}
	if names == nil {
		return "", false
	}
	return "^(" + strings.Join(names, "|") + ")$", false
}

// covers reports whether the entry matches this test.
func (e entry) covers(name, test string) bool {
	parts := strings.Split(e.Test, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return e.Package == name && regexp.MustCompile("^"+strings.Join(parts, ".*")+"$").MatchString(test)
}
