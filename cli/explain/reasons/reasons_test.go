package reasons_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"supercargo.dev/supercargo/cli/explain/reasons"
)

// unanswered are texts that no pod shows as its reason: those of extension points that do not exclude nodes, and those
// that only stand in logs.
var unanswered = map[string]string{
	"not signable": "SignPod: whether two pods are alike", "signature disabled": "SignPod",
	"deallocation": "PostFilter of DynamicResources: it is next to the reasons of the filters", "deletion of ResourceClaim completed": "PostFilter of DynamicResources",
	"no new claims to deallocate": "PostFilter of DynamicResources", "still not schedulable": "PostFilter of DynamicResources", "plugin disabled": "PostFilter of DynamicResources",
	"unreserved for PodGroup": "PostFilter of DynamicResources", "No preemption victims found": "PostFilter of DefaultPreemption", "preemption: ": "what the texts of DefaultPreemption begin with",
	"resources not found": "a fault of the scheduler", "empty shared lister": "a fault of the scheduler",
	"parsing pod": "the API server refuses such pods", "failed to build hierarchy snapshot": "a fault of the scheduler",
}

// TestEachReasonOfTheSchedulerHasAnAnswer reads the sources of kube-scheduler's plugins, of the version that this module
// is built with, and of ours.
func TestEachReasonOfTheSchedulerHasAnAnswer(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatalf("find the sources of kube-scheduler: %v", err)
	}
	found := 0
	for _, root := range []string{filepath.Join(strings.TrimSpace(string(out)), "pkg/scheduler/framework/plugins"), "../../../plugins/nodeclass", "../../../plugins/narrowing"} {
		for text, at := range textsIn(t, root) {
			if isUnanswered(text) {
				continue
			}
			found++
			if _, is := reasons.Of(text); !is {
				t.Errorf("%s: %q has no answer", at, text)
			}
		}
	}
	if found < 40 {
		t.Errorf("found %d reasons in the sources of plugins, want at least 40: are the sources read?", found)
	}
}

func isUnanswered(text string) bool {
	for part := range unanswered {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

var (
	statuses = regexp.MustCompile(`^(NewStatus|statusUnschedulable|AppendReason)$`)
	reason   = regexp.MustCompile(`(?i)^(ErrReason|errReason)`)
	verb     = regexp.MustCompile(`%[a-z+]+`)
)

// textsIn returns the texts that plugins give as reasons, with the position of each: constants named as reasons are, and
// arguments of the functions that make a status.
func textsIn(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	files := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/testing/") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		add := func(node ast.Node) {
			for _, text := range literals(node) {
				all[text] = files.Position(node.Pos()).String()
			}
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if reason.MatchString(name.Name) && i < len(n.Values) {
						add(n.Values[i])
					}
				}
			case *ast.CallExpr:
				if statuses.MatchString(nameOf(n.Fun)) {
					for _, argument := range n.Args[min(1, len(n.Args)-1):] {
						add(argument)
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func nameOf(function ast.Expr) string {
	switch f := function.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.Ident:
		return f.Name
	}
	return ""
}

// literals returns the strings of an expression that are sentences, with values in place of verbs.
func literals(node ast.Node) (all []string) {
	ast.Inspect(node, func(n ast.Node) bool {
		if literal, is := n.(*ast.BasicLit); is && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil && strings.Contains(text, " ") && !strings.HasPrefix(text, ", ") {
				all = append(all, verb.ReplaceAllString(text, "x"))
			}
		}
		return true
	})
	return all
}

// TestTheReasonsOfVolumesAndDevicesHaveAnswersOfTheirOwn checks messages whose text comes from other packages than the
// plugins.
func TestTheReasonsOfVolumesAndDevicesHaveAnswersOfTheirOwn(t *testing.T) {
	for message, plugin := range map[string]string{
		`persistentvolumeclaim "data" not found`:                                                       "VolumeBinding",
		`waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"`:      "VolumeBinding",
		`persistentvolumeclaim "data" bound to non-existent persistentvolume "disk"`:                   "VolumeBinding",
		`persistentvolumeclaim "data" is being deleted`:                                                "VolumeBinding",
		`PVC ns/p-scratch was not created for pod ns/p (pod is not owner)`:                             "VolumeBinding",
		`storageclass.storage.k8s.io "fast" not found`:                                                 "VolumeZone",
		`resourceclaim.resource.k8s.io "gpu" not found`:                                                "DynamicResources",
		`resourceclaim "gpu" is being deleted`:                                                         "DynamicResources",
		`pod "ns/p": ResourceClaim not created yet`:                                                    "DynamicResources",
		`request main: device class gpu.example.com does not exist`:                                    "DynamicResources",
		`running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded`:           "VolumeBinding",
		`Insufficient nvidia.com/gpu`:                                                                  "NodeResourcesFit",
		`node(s) had untolerated taint {dedicated: db}`:                                                "TaintToleration",
		`node(s) didn't match pod topology spread constraints (missing required label)`:                "PodTopologySpread",
		`no nodes available to schedule pods`:                                                          "no plugin",
		`Scheduling is blocked due to non-empty scheduling gates`:                                      "SchedulingGates",
		`node(s) took only batch pods and the pod is service (label supercargo.dev/class)`:             "NodeClass",
		`node(s) may be interrupted and the pod must not be (annotation supercargo.dev/interruptible)`: "NodeClass",
	} {
		if got, is := reasons.Of(message); !is || got.Plugin != plugin || got.Helps == "" {
			t.Errorf("%q: %+v, want an answer of %s", message, got, plugin)
		}
	}
	if got, is := reasons.Of("something of another scheduler"); is {
		t.Errorf("an unknown message has the answer %+v, want none", got)
	}
}
