package imports

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// load reads every package of the module that contains dir.
func load(dir string) ([]pkg, error) {
	if err := touchFolders(dir); err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,Imports,Deps", module+"/...")
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.String())
	}
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var listed struct {
			ImportPath, Dir        string
			GoFiles, Imports, Deps []string
		}
		if err := dec.Decode(&listed); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, fmt.Errorf("decode go list: %w", err)
		}
		p := pkg{Path: relative(listed.ImportPath), Imports: relativeAll(listed.Imports), Deps: relativeAll(listed.Deps)}
		for _, name := range listed.GoFiles {
			if !strings.HasPrefix(name, "zz_generated") {
				p.Files = append(p.Files, name)
			}
			uses, err := parseUses(filepath.Join(listed.Dir, name), p.Path+"/"+name, nil)
			if err != nil {
				return nil, err
			}
			p.Uses = append(p.Uses, uses...)
		}
		pkgs = append(pkgs, p)
	}
}

// touchFolders opens every source folder. The go command repeats a cached test
// result until something that the test itself has opened changes, and it does
// not see what `go list` opens: without this a new package would go unnoticed.
func touchFolders(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		switch name := entry.Name(); {
		case path == root:
			return nil
		case strings.HasPrefix(name, "."), name == "bin", name == "dist", name == "vendor":
			return filepath.SkipDir
		}
		return nil
	})
}

func relative(path string) string { return strings.TrimPrefix(path, module+"/") }

func relativeAll(paths []string) []string {
	out := make([]string, len(paths))
	for i, path := range paths {
		out[i] = relative(path)
	}
	return out
}

// clockFuncs are the functions of package time that read the clock or wait.
var clockFuncs = []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}

// seededFuncs are the names of math/rand and math/rand/v2 that do not use the global source. All others draw
// from it.
var seededFuncs = []string{"ChaCha8", "New", "NewChaCha8", "NewPCG", "NewSource", "NewZipf", "PCG", "Rand", "Source", "Source64", "Zipf"}

// forbiddenUse reports whether pure code may not mention name of the package
// with the given import path. A dot import counts as the name ".".
func forbiddenUse(path, name string) bool {
	switch path {
	case "time":
		return name == "." || slices.Contains(clockFuncs, name)
	case "math/rand", "math/rand/v2":
		return !slices.Contains(seededFuncs, name)
	}
	return false
}

// parseUses lists the forbidden uses in one file. label names the file in the result; src is its content, or
// nil to read it.
func parseUses(file, label string, src any) ([]use, error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", label, err)
	}
	var found []use
	report := func(path, name string, at ast.Node) {
		if forbiddenUse(path, name) {
			found = append(found, use{Func: path + "." + name, At: fmt.Sprintf("%s:%d", label, files.Position(at.Pos()).Line)})
		}
	}
	pathOf := map[string]string{} // keyed by the package's name in this file
	for _, spec := range tree.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("parse %s: import %s: %w", label, spec.Path.Value, err)
		}
		name := packageName(path)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "." {
			report(path, ".", spec)
		}
		pathOf[name] = path
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if left, ok := sel.X.(*ast.Ident); ok {
				report(pathOf[left.Name], sel.Sel.Name, sel)
			}
		}
		return true
	})
	return found, nil
}

// packageName guesses the name of an imported package from its path. It is
// right for every package that forbiddenUse knows.
func packageName(path string) string {
	path = strings.TrimSuffix(path, "/v2")
	return path[strings.LastIndex(path, "/")+1:]
}
