//go:build install

package install

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/oci"
)

// before is a folder with the sources of an earlier version, and its images in dist/images.
var before = flag.String("before", "", "`folder` with the sources of the version to upgrade from, and its images in dist/images, with the tag before")

// TestAPodMovesDuringAnUpgradeFromTheVersionBeforeAndARollback installs the charts and images of an earlier
// version, and upgrades to this one and rolls back while pods are being moved.
func TestAPodMovesDuringAnUpgradeFromTheVersionBeforeAndARollback(t *testing.T) {
	if *before == "" {
		t.Fatal("-before names no folder; run `make e2e-upgrade UPGRADE_FROM=REVISION`")
	}
	sources, err := filepath.Abs(*before)
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	s.say("loading images")
	s.importFrom(sources)
	s.importImages()
	s.importToAll("workload.tar", oci.Image{Name: cluster.Images["chain"], Program: cluster.ProgramPath("workload/chain")})
	untouched := s.nodeStates()
	charts := filepath.Join(sources, "manifests/helm")
	s.part("the version before is installed", func(s *site) {
		s.helm("install", "supercargo-crds", filepath.Join(charts, "supercargo-crds"))
		s.helm("install", "supercargo", filepath.Join(charts, "supercargo"), "--namespace", namespace, "--create-namespace",
			"--values", filepath.Join(sources, everything), "--set", "image.tag=before")
		s.runsOnly("before")
	})
	s.part("a pod moves while the release is upgraded", func(s *site) {
		s.movesDuring("upgraded", func() {
			s.helm("upgrade", "supercargo-crds", "manifests/helm/supercargo-crds")
			s.helm("upgrade", "supercargo", "manifests/helm/supercargo", "--namespace", namespace, "--values", everything)
			s.runsOnly("v0.1.0")
		})
	})
	s.part("a pod moves while the release is rolled back", func(s *site) {
		s.movesDuring("rolled-back", func() {
			s.helm("rollback", "supercargo", "1", "--namespace", namespace)
			s.runsOnly("before")
		})
	})
	s.part("it is upgraded again, and removed", func(s *site) {
		s.helm("upgrade", "supercargo", "manifests/helm/supercargo", "--namespace", namespace, "--values", everything)
		s.runsOnly("v0.1.0")
		s.uninstalled(untouched)
	})
}

// runsOnly waits until all workloads of the release are ready, and all their pods have images with a tag.
func (s *site) runsOnly(tag string) {
	s.Helper()
	s.ready()
	s.eventually("all pods have images with the tag "+tag, func() error {
		out := s.kubectl("get", "pods", "-A", "-l", "app.kubernetes.io/name", "-o",
			`jsonpath={range .items[*]}{.metadata.name} {.spec.containers[*].image}{"\n"}{end}`)
		all := lines(out)
		if len(all) == 0 {
			return fmt.Errorf("there are no pods")
		}
		for _, line := range all {
			if !strings.HasSuffix(line, ":"+tag) {
				return fmt.Errorf("pod and image: %s", line)
			}
		}
		return nil
	})
}
