package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const eventsHead = `<!-- Written by make generate from the constants in api/v1alpha1. -->
# Events

Every reason of the Events that Supercargo creates. ` + "`kubectl get events -A --field-selector reason=REASON`" + ` finds them. The message of an Event has the details: which objects, why, and what to do.
`

const conditionsHead = `<!-- Written by make generate from the constants in api/v1alpha1. -->
# Conditions

Every condition of Supercargo's kinds, and its reasons. ` + "`kubectl describe`" + ` and ` + "`supercargo explain`" + ` print them with their messages.
`

// group is a section of the pages: the reasons whose constants have a prefix.
type group struct {
	prefix, name, objects string
	// also is a further sentence about the Events.
	also string
	// paused means that its objects also have the reasons of a pause.
	paused bool
}

var groups = []group{
	{"Fleet", "NodeFleets", "NodeFleet", "Also the reasons of `Ready=False` and `Degraded=True` on the [page of conditions](conditions.md#nodefleets), as Warnings.", true},
	{"Pod", "Pending pods", "Pod", "At most 100 in a round of a NodeFleet, which the field `related` names.", false},
	{"Policy", "ReplicaPolicies", "ReplicaPolicy", "Also the reasons of failing conditions on the [page of conditions](conditions.md#replicapolicies), as Warnings.", true},
	{"Pool", "WorkerPools", "WorkerPool", "Also the reasons of `Ready=False` on the [page of conditions](conditions.md#workerpools), as Warnings.", true},
	{"Migration", "Migrations", "Migration", "Agents also report failures with the reasons of `Finished` on the [page of conditions](conditions.md#migrations), as Warnings.", false},
	{"Profile", "Machine types and probes", "MachineProfile, Node", "", false},
	{"Consolidation", "Nodes that are drained and pods that are moved", "Node, Pod", "", false},
	{"Eviction", "Evictions", "Pod", "", false},
	{"Scheduling", "Scheduling", "Pod, Node", "Also `FailedScheduling` of kube-scheduler: [operations.md](../operations.md#events) has the messages of our plugins.", false},
}

// constant is a string constant of the API.
type constant struct {
	// block is the comment of its block, and about its own comment after the name, without markers.
	block, name, about, value string
	// event is the type of Events with this reason, and conditions are conditions with it: "Ready=False".
	event      string
	conditions []string
}

// means returns what a reason means.
func (c constant) means() string {
	return strings.TrimSuffix(strings.TrimPrefix(c.about, "means that "), ".")
}

// in reports whether the reason belongs to a group.
func (c constant) in(g group) bool {
	return strings.HasPrefix(c.name, g.prefix) || g.paused && strings.HasPrefix(c.name, "Reason")
}

// reasons returns the pages of Events and of conditions, from the comments of the constants in a folder.
func reasons(folder string) (events, conditions string, err error) {
	all, err := constants(folder)
	if err != nil {
		return "", "", err
	}
	types := slices.DeleteFunc(slices.Clone(all), func(c constant) bool {
		return !strings.HasPrefix(c.block, "The conditions of") && c.name != "ConditionPaused"
	})
	slices.SortStableFunc(all, func(a, b constant) int { return strings.Compare(a.value, b.value) })
	return eventsPage(all), conditionsPage(all, types), nil
}

func eventsPage(all []constant) string {
	var b strings.Builder
	b.WriteString(eventsHead)
	for _, g := range groups {
		fmt.Fprintf(&b, "\n## %s\n\nOn objects of kind %s. %s", g.name, g.objects, g.also)
		text := strings.TrimRight(b.String(), " ")
		b.Reset()
		b.WriteString(text + "\n\n| reason | type | meaning |\n| --- | --- | --- |\n")
		for _, c := range all {
			if c.event != "" && c.in(g) {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c.value, c.event, c.means())
			}
		}
	}
	return b.String()
}

func conditionsPage(all, types []constant) string {
	var b strings.Builder
	b.WriteString(conditionsHead)
	for _, g := range groups {
		heading := fmt.Sprintf("\n## %s\n", g.name)
		for _, t := range types {
			if t.name != g.prefix+t.value && (!g.paused || t.name != "ConditionPaused") {
				continue
			}
			fmt.Fprintf(&b, "%s\n### %s of %s\n\n`%s` %s\n\n| reason | status | meaning |\n| --- | --- | --- |\n", heading, t.value, g.name, t.value, t.about)
			heading = ""
			for _, c := range all {
				for _, condition := range c.conditions {
					if kind, status, _ := strings.Cut(condition, "="); kind == t.value && c.in(g) {
						fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c.value, status, c.means())
					}
				}
			}
		}
	}
	return b.String()
}

// constants returns the string constants of the files in a folder, in order.
func constants(folder string) (all []constant, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			block, ok := d.(*ast.GenDecl)
			if !ok || block.Tok != token.CONST {
				continue
			}
			for _, spec := range block.Specs {
				if v := spec.(*ast.ValueSpec); len(v.Values) == 1 {
					all = append(all, read(block.Doc, v, values))
				}
			}
		}
	}
	return all, nil
}

// read returns the constant of a declaration. Its value is a string, or the name of an earlier constant in values.
func read(block *ast.CommentGroup, v *ast.ValueSpec, values map[string]string) constant {
	c := constant{block: block.Text(), name: v.Names[0].Name}
	switch value := v.Values[0].(type) {
	case *ast.BasicLit:
		c.value, _ = strconv.Unquote(value.Value) // the parser has accepted it
	case *ast.Ident:
		c.value = values[value.Name]
	}
	values[c.name] = c.value
	doc := v.Doc
	if doc == nil {
		doc = block
	}
	var words []string
	for line := range strings.Lines(doc.Text()) {
		line = strings.TrimSpace(line)
		if kind, is := strings.CutPrefix(line, "+event="); is {
			c.event = kind
		} else if list, is := strings.CutPrefix(line, "+condition="); is {
			c.conditions = strings.Split(list, ",")
		} else {
			words = append(words, line)
		}
	}
	_, c.about, _ = strings.Cut(strings.TrimSpace(strings.Join(words, " ")), " ")
	return c
}
