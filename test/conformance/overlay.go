package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The folders of Kubernetes that are compiled as packages of this module, so that their calls can be
// redirected. All other packages are compiled in place.
const (
	suiteDir = "test/integration/scheduler" // the suite
	utilDir  = "test/integration/util"      // the utilities that start schedulers
)

// virtualDir is the folder of these packages as the go command sees it. It does not exist.
const virtualDir = "test/conformance/suite"

const (
	module     = "supercargo.dev/supercargo"
	kubernetes = "k8s.io/kubernetes"
	hooks      = "conformancehooks" // import name of package shipped in changed files
)

// edits contains all changes to Kubernetes' files: imports of the packages that move, and the calls that
// choose the scheduler's plugins.
var edits = strings.NewReplacer(
	`"`+kubernetes+"/"+suiteDir, `"`+module+"/"+virtualDir+"/"+suiteDir,
	`"`+kubernetes+"/"+utilDir, `"`+module+"/"+virtualDir+"/"+utilDir,
	"scheduler.New(", hooks+".NewScheduler(",
	"scheduler.WithFrameworkOutOfTreeRegistry(", hooks+".WithRegistry(",
)

// writeOverlay writes the changed files below dir and returns the path of the file for go's -overlay. It
// never writes Kubernetes' own files. The go command reads unchanged files in place. root is the root of this
// module.
func writeOverlay(sources, root, dir string) (string, error) {
	replace, started := map[string]string{}, 0
	for _, folder := range []string{suiteDir, utilDir} {
		err := filepath.WalkDir(filepath.Join(sources, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			file, err := filepath.Rel(sources, path)
			if err != nil {
				return err
			}
			changed, starts, err := change(string(text))
			if err != nil {
				return fmt.Errorf("change Kubernetes' %s: %w", file, err)
			}
			started += starts
			at := path
			if changed != string(text) {
				at = filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					return err
				}
				if err := os.WriteFile(at, []byte(changed), 0o644); err != nil {
					return err
				}
			}
			replace[filepath.Join(root, virtualDir, file)] = at
			return nil
		})
		if err != nil {
			return "", fmt.Errorf("read Kubernetes' %s: %w", folder, err)
		}
	}
	if started == 0 {
		return "", fmt.Errorf("change Kubernetes' %s: nothing in it calls scheduler.New; adapt test/conformance/overlay.go to this version", utilDir)
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	at := filepath.Join(dir, "overlay.json")
	return at, os.WriteFile(at, text, 0o644)
}

// change returns a file with redirected imports and calls, and the number of schedulers that it starts.
func change(text string) (changed string, starts int, err error) {
	starts = strings.Count(text, "scheduler.New(")
	changed = edits.Replace(text)
	if !strings.Contains(changed, hooks+".") {
		return changed, starts, nil
	}
	before, after, ok := strings.Cut(changed, "\nimport ")
	if !ok {
		return "", 0, fmt.Errorf("it has no import to add another to")
	}
	return before + "\nimport " + hooks + ` "` + module + `/test/conformance/shipped"` + "\n\nimport " + after, starts, nil
}
