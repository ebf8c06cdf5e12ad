// Package platform has no code: its test checks that the command line compiles for the platforms of a release.
package platform

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// module is the path of the main module.
const module = "supercargo.dev/supercargo"

// TestTheCommandLineCompilesForMacOS checks the types of the command line for macOS, which no other test
// compiles. It takes a minute instead of the half hour of a compilation, because it ignores the bodies of
// functions in other modules.
func TestTheCommandLineCompilesForMacOS(t *testing.T) {
	config := &packages.Config{
		Context: t.Context(), Dir: "../..", Fset: token.NewFileSet(),
		Env: append(os.Environ(), "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0", "GOWORK=off"),
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax | packages.NeedTypesInfo,
		ParseFile: func(fset *token.FileSet, name string, text []byte) (*ast.File, error) {
			file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
			if file != nil && strings.Contains(name, "@") { // in the cache of modules
				for _, d := range file.Decls {
					if f, is := d.(*ast.FuncDecl); is {
						f.Body = nil
					}
				}
			}
			return file, err
		},
	}
	loaded, err := packages.Load(config, "./cmd/supercargo", "./cmd/supercargo-lab")
	if err != nil {
		t.Fatal(err)
	}
	own := 0
	packages.Visit(loaded, nil, func(p *packages.Package) {
		if p.PkgPath != module && !strings.HasPrefix(p.PkgPath, module+"/") {
			return
		}
		own++
		for _, e := range p.Errors {
			t.Error(e)
		}
	})
	if own < 50 {
		t.Errorf("%d packages of the project were checked, want all that the command line needs", own)
	}
}
