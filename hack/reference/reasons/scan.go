package reasons

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// reason matches words that may be reasons.
var reason = regexp.MustCompile(`^[A-Z][a-z]+(?:[A-Z][A-Za-z]*)*$`)

// emitters are functions that take a reason: it is their first argument that matches reason.
var emitters = map[string]bool{
	"tell": true, "Event": true, "EventAbout": true, "Condition": true, "tellPod": true, "Eventf": true, "condition": true, "set": true, "Set": true, "refuse": true, "add": true,
}

// bearers are types that contain a reason: it is the first element of a literal that matches reason.
var bearers = map[string]bool{"fault": true, "refusal": true, "Event": true, "Refusal": true, "Told": true}

// scan adds the string literals in the code of a folder to words. If emits is set, it also adds the reasons that the
// code emits, with their files, to emitted. It reads the syntax alone.
func scan(folder string, emits bool, emitted map[string]string, words map[string]bool) error {
	constants := map[string]map[string]string{} // by folder
	err := parse(folder, func(path string, file *ast.File) {
		dir := filepath.Dir(path)
		if constants[dir] == nil {
			constants[dir] = map[string]string{}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok {
				for i, name := range v.Names {
					if i < len(v.Values) && text(v.Values[i], nil) != "" {
						constants[dir][name.Name] = text(v.Values[i], nil)
					}
				}
			}
			if literal, ok := n.(*ast.BasicLit); ok {
				words[text(literal, nil)] = true
			}
			return true
		})
	})
	if err != nil || !emits {
		return err
	}
	return parse(folder, func(path string, file *ast.File) {
		s := scanner{path: path, constants: constants[filepath.Dir(path)], emitted: emitted}
		ast.Inspect(file, s.visit)
	})
}

// scanner finds the reasons that a file emits.
type scanner struct {
	path      string
	constants map[string]string
	emitted   map[string]string
}

func (s *scanner) note(e ast.Expr) bool {
	word := text(e, s.constants)
	if !reason.MatchString(word) {
		return false
	}
	s.emitted[word] = s.path
	return true
}

func (s *scanner) first(all []ast.Expr) {
	for _, e := range all {
		if s.note(e) {
			return
		}
	}
}

func (s *scanner) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		if emitters[name(n.Fun)] {
			s.first(n.Args)
		}
	case *ast.CompositeLit:
		if bearers[name(n.Type)] {
			s.first(n.Elts)
		}
	case *ast.KeyValueExpr:
		if key := name(n.Key); key == "Reason" || key == "reason" {
			s.note(n.Value)
		}
	case *ast.AssignStmt:
		for i, to := range n.Lhs {
			if word := name(to); (word == "Reason" || word == "reason") && len(n.Lhs) == len(n.Rhs) {
				s.note(n.Rhs[i])
			}
		}
	case *ast.ValueSpec:
		for i, constant := range n.Names {
			if strings.HasPrefix(strings.ToLower(constant.Name), "reason") && i < len(n.Values) {
				s.note(n.Values[i])
			}
		}
	}
	return true
}

// name returns the last part of the name of a function, type or variable, or "".
func name(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// text returns the value of a string literal, or of a constant of the folder, or "".
func text(e ast.Expr, constants map[string]string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			value, _ := strconv.Unquote(e.Value) // the parser has accepted it
			return value
		}
	case *ast.Ident:
		return constants[e.Name]
	}
	return ""
}
