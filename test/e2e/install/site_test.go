//go:build install

package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/test/e2e/install/kubeadm"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/oci"
	"supercargo.dev/supercargo/test/kit/testfile"
	"supercargo.dev/supercargo/test/kit/testwait"
)

// patience is the timeout of a wait, and interval its polling interval. Nothing takes a minute; the rest is
// for machines that are busy with something else.
const (
	patience = 5 * time.Minute
	interval = 500 * time.Millisecond
)

// project is the root of the repository.
const project = "../../.."

// auditPolicy records the requests of our accounts, without bodies.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    userGroups: ["system:serviceaccounts:supercargo-system", "system:serviceaccounts:supercargo-agent", "system:serviceaccounts:supercargo-meter"]
  - level: Metadata
    users: ["system:serviceaccount:kube-system:supercargo-scheduler"]
  - level: None
`

// site is a cluster that a test uses.
type site struct {
	*testing.T
	*kubeadm.Cluster

	began time.Time
}

// newSite makes a cluster with [auditPolicy].
func newSite(t *testing.T) *site {
	t.Helper()
	return newSiteWithAudit(t, []byte(auditPolicy))
}

// newSiteWithAudit makes a cluster, and removes it when the test ends. The logs of a failed cluster are kept.
func newSiteWithAudit(t *testing.T, policy []byte) *site {
	t.Helper()
	s := &site{T: t, began: time.Now()}
	var err error
	s.Cluster, err = kubeadm.Up(t.Context(), kubeadm.Config{Workers: 2, AuditPolicy: policy, Say: s.say})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			s.KeepLogs(t, t.Name())
		}
		if err := s.Down(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s
}

// in returns the site for a part of the test.
func (s *site) in(t *testing.T) *site {
	c := *s
	c.T = t
	return &c
}

// say reports progress immediately, because the test takes minutes.
func (s *site) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%4.0f s  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// part runs a part of the test. Later parts need its result.
func (s *site) part(name string, do func(*site)) {
	s.Helper()
	s.say("%s", name)
	if !s.Run(name, func(t *testing.T) { do(s.in(t)) }) {
		s.FailNow()
	}
}

// importImages loads the images that `make images` has written into all nodes.
func (s *site) importImages() { s.Helper(); s.importFrom(project) }

// importFrom loads the images that `make images` has written in a folder with the sources.
func (s *site) importFrom(sources string) {
	s.Helper()
	archives, err := filepath.Glob(filepath.Join(sources, "dist/images/*.tar"))
	if err != nil || len(archives) == 0 {
		s.Fatalf("no images in %s/dist/images (%v); run `make images` there", sources, err)
	}
	for _, node := range s.Nodes {
		for _, archive := range archives {
			path, err := filepath.Abs(archive)
			if err == nil {
				err = node.Import(s.Context(), path)
			}
			if err != nil {
				s.Fatal(err)
			}
		}
	}
}

// importToAll packs images into an archive of the given name and loads it into all nodes.
func (s *site) importToAll(name string, images ...oci.Image) {
	s.Helper()
	path := filepath.Join(s.Dir, name)
	if err := oci.WriteFile(path, images...); err != nil {
		s.Fatal(err)
	}
	for _, node := range s.Nodes {
		if err := node.Import(s.Context(), path); err != nil {
			s.Fatal(err)
		}
	}
}

// try runs a program on the machine as an administrator of the cluster.
func (s *site) try(program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(s.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = project
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig, "HOME="+s.Dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

func (s *site) must(program string, args ...string) string {
	s.Helper()
	out, err := s.try(program, args...)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

// kubectl and helm run the commands that users run.
func (s *site) kubectl(args ...string) string { s.Helper(); return s.must("kubectl", args...) }
func (s *site) helm(args ...string) string    { s.Helper(); return s.must("helm", args...) }

// apply applies objects with kubectl.
func (s *site) apply(objects string) {
	s.Helper()
	path := testfile.New(s, "objects.yaml", objects)
	s.kubectl("apply", "-f", path)
}

// get returns one field of kubectl's output.
func (s *site) get(jsonpath string, args ...string) string {
	s.Helper()
	return s.kubectl(append(append([]string{"get"}, args...), "-o", "jsonpath="+jsonpath)...)
}

// eventually waits until check returns nil.
func (s *site) eventually(what string, check func() error) {
	s.Helper()
	testwait.Until(s, patience, what, func() string {
		if err := check(); err != nil {
			return err.Error()
		}
		return ""
	})
}

// says waits until kubectl finds a value in a field.
func (s *site) says(want, jsonpath string, args ...string) {
	s.Helper()
	s.eventually(fmt.Sprintf("%s of %s is %q", jsonpath, strings.Join(args, " "), want), func() error {
		got, err := s.try("kubectl", append(append([]string{"get"}, args...), "-o", "jsonpath="+jsonpath)...)
		if err == nil && got != want {
			err = fmt.Errorf("it is %q", got)
		}
		return err
	})
}

// onControlPlane runs a shell script on the control plane node, as an administrator who is logged in there.
func (s *site) onControlPlane(script string) string { s.Helper(); return s.on(s.Nodes[0], script) }

// on runs a shell script on a node.
func (s *site) on(node *cluster.Node, script string) string {
	s.Helper()
	out, err := node.Run(s.Context(), "sh", "-ec", script)
	if err != nil {
		s.Fatal(err)
	}
	return string(out)
}

// lines returns the non-empty lines, sorted.
func lines(text string) []string {
	all := slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return strings.TrimSpace(l) == "" })
	slices.Sort(all)
	return all
}

// differ returns an error that describes the differences between two sorted texts, or nil.
func differ(want, got []string) error {
	var errs []error
	for _, line := range want {
		if !slices.Contains(got, line) {
			errs = append(errs, fmt.Errorf("gone: %s", line))
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			errs = append(errs, fmt.Errorf("new: %s", line))
		}
	}
	return errors.Join(errs...)
}
