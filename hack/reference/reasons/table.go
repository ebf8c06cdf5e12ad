// Package reasons writes the reference pages of the reasons of Events and conditions. A table has their meanings; the
// code and the table must have the same reasons.
package reasons

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Group contains the reasons of some kinds of objects.
type Group struct {
	// Name is the heading of the group, and Objects the kinds of its objects.
	Name, Objects string
	// Types is the prefix of the constants in api/v1alpha1 that name the types of the group's conditions.
	Types string
	// Folders are the folders with the code that emits the reasons.
	Folders []string
	// Events maps reasons of Events to their meanings. Also describes other Events of the group.
	Events map[string]string
	Also   string
	// Conditions maps types of conditions to their reasons, and these to their meanings.
	Conditions map[string]map[string]string
	// Elsewhere lists words that the scan mistakes for reasons.
	Elsewhere []string
}

// shared are folders whose string literals may be reasons of any group.
var shared = []string{"internal/platform/pause", "api/v1alpha1"}

// apiFolder is the folder, below the root, with the constants that name the types of conditions.
const apiFolder = "api/v1alpha1"

// Pages returns the pages of Events and of conditions, from a table and the code below root. It returns an error that
// lists the reasons that only the table or only the code has.
func Pages(root, table string) (events, conditions string, err error) {
	text, err := os.ReadFile(table)
	if err != nil {
		return "", "", err
	}
	var all struct{ Groups []Group }
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		return "", "", fmt.Errorf("read %s: %w", table, err)
	}
	types, err := conditionTypes(filepath.Join(root, apiFolder))
	if err != nil {
		return "", "", err
	}
	var errs []error
	for i := range all.Groups {
		errs = append(errs, all.Groups[i].check(root, types)...)
	}
	if err := errors.Join(errs...); err != nil {
		return "", "", err
	}
	return eventsPage(all.Groups), conditionsPage(all.Groups, types), nil
}

// reasons returns all reasons of a group: of its Events and of its conditions.
func (g *Group) reasons() map[string]bool {
	known := map[string]bool{}
	for reason := range g.Events {
		known[reason] = true
	}
	for _, reasons := range g.Conditions {
		for reason := range reasons {
			known[reason] = true
		}
	}
	return known
}

// check compares a group with the code, and returns the differences.
func (g *Group) check(root string, types []conditionType) (errs []error) {
	known := g.reasons()
	for kind := range g.Conditions {
		if !slices.ContainsFunc(types, func(t conditionType) bool { return t.name == kind && (t.prefix == g.Types || kind == "Paused") }) {
			errs = append(errs, fmt.Errorf("%s: there is no condition %s", g.Name, kind))
		}
	}
	for _, t := range types {
		if _, ok := g.Conditions[t.name]; t.prefix == g.Types && !ok {
			errs = append(errs, fmt.Errorf("%s: condition %s has no reasons in the table", g.Name, t.name))
		}
	}
	emitted, words := map[string]string{}, map[string]bool{}
	for _, folder := range append(slices.Clone(g.Folders), shared...) {
		if err := scan(filepath.Join(root, folder), !slices.Contains(shared, folder), emitted, words); err != nil {
			return append(errs, err)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(emitted)) {
		if !known[reason] && !slices.Contains(g.Elsewhere, reason) {
			errs = append(errs, fmt.Errorf("%s: %s emits reason %s, which is not in the table", g.Name, emitted[reason], reason))
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(known)) {
		composed := words["Evicted"] && strings.HasPrefix(reason, "Evicted") && words[strings.TrimPrefix(reason, "Evicted")]
		if !words[reason] && !composed && reason != "FailedScheduling" {
			errs = append(errs, fmt.Errorf("%s: the table has reason %s, which nothing emits", g.Name, reason))
		}
	}
	return errs
}

// conditionType is a type of conditions, from a constant of the API such as FleetReady: prefix Fleet, name Ready.
type conditionType struct{ prefix, name, about string }

// conditionTypes returns the types of conditions in the order of the API: ConditionPaused, and the constants in blocks
// whose comment begins with "The conditions of".
func conditionTypes(folder string) (all []conditionType, err error) {
	err = parse(folder, func(_ string, file *ast.File) {
		for _, d := range file.Decls {
			block, ok := d.(*ast.GenDecl)
			if !ok || block.Tok != token.CONST {
				continue
			}
			for _, spec := range block.Specs {
				v := spec.(*ast.ValueSpec)
				about := v.Doc
				if about == nil {
					about = block.Doc
				}
				if !strings.HasPrefix(block.Doc.Text(), "The conditions of") && v.Names[0].Name != "ConditionPaused" || len(v.Values) != 1 {
					continue
				}
				name := text(v.Values[0], nil)
				_, meaning, _ := strings.Cut(strings.Join(strings.Fields(about.Text()), " "), " ")
				all = append(all, conditionType{strings.TrimSuffix(v.Names[0].Name, name), name, meaning})
			}
		}
	})
	return all, err
}

// parse calls a function with each Go file below a folder, except tests.
func parse(folder string, use func(path string, file *ast.File)) error {
	return filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(entry.Name(), "zz_") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err == nil {
			use(path, file)
		}
		return err
	})
}
