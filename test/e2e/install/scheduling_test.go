//go:build install

package install

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/oci"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// suiteImages are the images of the pods in Kubernetes' tests, with the names in its
// test/utils/image.
var suiteImages = []oci.Image{
	{Name: "registry.k8s.io/pause:3.10.1", Program: cluster.ProgramPath("workload/pause")},
	{Name: "registry.k8s.io/e2e-test-images/agnhost:2.59", Program: cluster.ProgramPath("agnhost")},
}

// suiteTimeout limits one run of the tests.
const suiteTimeout = 80 * time.Minute

// knownDifferences lists the tests that fail with our scheduler and pass with the stock one.
//
//go:embed testdata/scheduling-differences.yaml
var knownDifferences []byte

// TestKubernetesOwnTestsOfItsSchedulerPass runs the end-to-end tests named [sig-scheduling]
// with Supercargo as the cluster's default scheduler. Tests that fail run again with the stock
// scheduler on the same cluster. Tests that fail there, too, are ignored; tests that pass there
// must be in the list of known differences. A known difference that passes with our scheduler
// fails the test, so that the list stays correct.
func TestKubernetesOwnTestsOfItsSchedulerPass(t *testing.T) {
	s := newSite(t)
	s.part("the control plane's own pods are ready", (*site).controlPlaneIsReady)
	s.importImages()
	s.importToAll("suite.tar", suiteImages...)
	s.helm("install", "supercargo-crds", "manifests/helm/supercargo-crds")
	s.helm("install", "supercargo", "manifests/helm/supercargo", "--namespace", namespace, "--create-namespace",
		"--set", "image.repository=registry.invalid/supercargo", "--set", "scheduler.replacement.enabled=true")
	s.part("the default scheduler is replaced", (*site).schedulerIsReplaced)
	for i, node := range s.Nodes[1:] { // for the tests that need several zones
		s.kubectl("label", "node", node.Name, fmt.Sprintf("topology.kubernetes.io/zone=zone-%d", i))
	}
	ours := s.suite("supercargo", scheduling)
	var failed []string
	for name, passed := range ours {
		if !passed {
			failed = append(failed, name)
		}
	}
	slices.Sort(failed)
	s.say("%d tests ran, %d failed", len(ours), len(failed))
	if len(ours) < 20 {
		t.Errorf("%d tests of [sig-scheduling] ran, want 20 at the least", len(ours))
	}
	var differences []string
	if len(failed) > 0 {
		s.part("the stock scheduler comes back", (*site).schedulerGoesBack)
		for name, passed := range s.suite("stock", focus(failed)) {
			switch {
			case passed:
				differences = append(differences, name)
			default:
				t.Logf("fails with the stock scheduler too: %s", name)
			}
		}
		slices.Sort(differences)
	}
	var known []struct{ Test, Reason string }
	testfile.StrictYAML(t, knownDifferences, &known)
	want := make([]string, 0, len(known))
	for _, k := range known {
		want = append(want, k.Test)
	}
	slices.Sort(want)
	if err := differ(want, differences); err != nil {
		t.Errorf("tests that pass only with the stock scheduler differ from testdata/scheduling-differences.yaml:\n%v", err)
	}
}

// focus returns a regular expression that matches only these tests.
func focus(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return strings.Join(quoted, "|")
}

// scheduling matches the names of the tests. The program has others too, because the package of these
// imports them.
const scheduling = `\[sig-scheduling\]`

// suite runs the tests that match a regular expression, and returns by name whether they passed. It omits
// tests that skip themselves, and does not run tests of features that are disabled by default.
func (s *site) suite(name, focus string) map[string]bool {
	s.Helper()
	s.say("running Kubernetes' tests with the scheduler %s", name)
	ctx, cancel := context.WithTimeout(s.Context(), suiteTimeout)
	defer cancel()
	dir, err := filepath.Abs(filepath.Join(project, "dist/scheduling"))
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		s.Fatal(err)
	}
	report := filepath.Join(dir, name+".json")
	args := []string{"--kubeconfig", s.Kubeconfig, "--provider", "skeleton", "--ginkgo.label-filter", "Feature: isEmpty && !Flaky",
		"--ginkgo.focus", focus,
		"--ginkgo.json-report", report, "--ginkgo.no-color", "--ginkgo.v", "--ginkgo.timeout", suiteTimeout.String(), "--test.timeout", "0"}
	cmd := exec.CommandContext(ctx, cluster.ProgramPath("e2e.test"), args...)
	cmd.Dir = s.TempDir()
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		s.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	runErr := cmd.Run() // it fails if a test fails; the report has the outcomes
	outcomes, err := readReport(report)
	if err != nil || len(outcomes) == 0 {
		s.Fatalf("run Kubernetes' tests, see %s: %v, %v", log.Name(), runErr, err)
	}
	return outcomes
}

// readReport returns whether each test in a report of Ginkgo passed, by name.
func readReport(path string) (map[string]bool, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var reports []struct {
		SpecReports []struct {
			ContainerHierarchyTexts []string
			LeafNodeType            string
			LeafNodeText            string
			State                   string
		}
	}
	if err := json.Unmarshal(content, &reports); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	outcomes := map[string]bool{}
	for _, r := range reports {
		for _, spec := range r.SpecReports {
			name := strings.Join(append(spec.ContainerHierarchyTexts, spec.LeafNodeText), " ")
			switch {
			case spec.State == "skipped" || spec.State == "pending":
			case spec.LeafNodeType == "It":
				outcomes[name] = spec.State == "passed"
			case spec.State != "passed":
				return nil, fmt.Errorf("%s has failed: %s", spec.LeafNodeType, name)
			}
		}
	}
	return outcomes, nil
}
