//go:build replicas

package replicas

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Where control groups are, and what those of this test are called: the process that
// made them comes after.
const (
	groupMount  = "/sys/fs/cgroup"
	groupPrefix = "supercargo-replicas-"
)

// period is how often a replica gets its share. With the default of 100 ms a request
// would often wait that long for its next millisecond; with much less, a replica that
// did not get its turn because others had the CPU would lose its share for good.
const period = 40 * time.Millisecond

// hierarchies are the folders in which a group is made: with version 1 one limits CPU
// time and another counts it.
type hierarchies struct {
	unified    bool
	cpu, usage string
}

func findHierarchies() (hierarchies, error) {
	if _, err := os.Stat(filepath.Join(groupMount, "cgroup.controllers")); err == nil {
		return hierarchies{unified: true, cpu: groupMount, usage: groupMount}, nil
	}
	h := hierarchies{cpu: filepath.Join(groupMount, "cpu"), usage: filepath.Join(groupMount, "cpuacct")}
	if _, err := os.Stat(filepath.Join(h.cpu, "cpu.cfs_quota_us")); err != nil {
		return h, fmt.Errorf("control groups neither of version 2 nor with CPU quotas of version 1 are mounted at %s: %w", groupMount, err)
	}
	return h, nil
}

// groups are the control groups of one run.
type groups struct {
	hierarchies
	name string
}

// newGroups makes the group that holds those of replicas. What runs in it comes before
// what others run: the test is about its quotas, not about theirs. It is removed with
// the test, and so are those of test processes that are no more.
func newGroups(t *testing.T) *groups {
	t.Helper()
	h, err := findHierarchies()
	if err != nil {
		t.Fatal(err)
	}
	sweepGroups(t, h)
	g := &groups{hierarchies: h, name: fmt.Sprintf("%s%d", groupPrefix, os.Getpid())}
	if h.unified {
		if err := os.WriteFile(filepath.Join(groupMount, "cgroup.subtree_control"), []byte("+cpu"), 0); err != nil {
			t.Fatalf("give control groups CPU limits: %v", err)
		}
	}
	weight := map[bool]string{true: "cpu.weight", false: "cpu.shares"}[h.unified]
	g.make(t, g.name, map[string]string{weight: "10000"})
	if h.unified {
		if err := os.WriteFile(filepath.Join(h.cpu, g.name, "cgroup.subtree_control"), []byte("+cpu"), 0); err != nil {
			t.Fatalf("give control groups CPU limits: %v", err)
		}
	}
	t.Cleanup(func() {
		if err := removeGroup(h, g.name); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return g
}

// make makes a group with settings of its CPU controller.
func (g *groups) make(t *testing.T, name string, settings map[string]string) {
	t.Helper()
	for _, root := range []string{g.cpu, g.usage} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			t.Fatalf("make a control group (are you root?): %v", err)
		}
	}
	for file, value := range settings {
		if err := os.WriteFile(filepath.Join(g.cpu, name, file), []byte(value), 0); err != nil {
			t.Fatalf("set up control group %s: %v", name, err)
		}
	}
}

// group is the control group of one replica.
type group struct {
	of   hierarchies
	name string
}

// limited makes a group that gets so many thousandths of a core.
func (g *groups) limited(t *testing.T, name string, millicores int) group {
	t.Helper()
	quota := period.Microseconds() * int64(millicores) / 1000
	settings := map[string]string{"cpu.max": fmt.Sprintf("%d %d", quota, period.Microseconds())}
	if !g.unified {
		settings = map[string]string{"cpu.cfs_period_us": strconv.FormatInt(period.Microseconds(), 10), "cpu.cfs_quota_us": strconv.FormatInt(quota, 10)}
	}
	made := group{of: g.hierarchies, name: filepath.Join(g.name, name)}
	g.make(t, made.name, settings)
	return made
}

// join is what a process must join to be in the group.
func (g group) join() string {
	if g.of.unified {
		return filepath.Join(g.of.cpu, g.name)
	}
	return filepath.Join(g.of.cpu, g.name) + "," + filepath.Join(g.of.usage, g.name)
}

// used is the CPU time that the group has used.
func (g group) used() (time.Duration, error) {
	if !g.of.unified {
		text, err := os.ReadFile(filepath.Join(g.of.usage, g.name, "cpuacct.usage"))
		if err != nil {
			return 0, err
		}
		nanos, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		return time.Duration(nanos), err
	}
	text, err := os.ReadFile(filepath.Join(g.of.usage, g.name, "cpu.stat"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "usage_usec "); found {
			micros, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return time.Duration(micros) * time.Microsecond, err
		}
	}
	return 0, errors.New("cpu.stat does not say usage_usec")
}

// remove removes the group, whose processes must have ended.
func (g group) remove() error { return removeGroup(g.of, g.name) }

func removeGroup(h hierarchies, name string) error {
	var errs []error
	for _, root := range []string{h.cpu, h.usage} {
		err := os.Remove(filepath.Join(root, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// sweepGroups removes what test processes have left that were killed. Their replicas
// died with them.
func sweepGroups(t *testing.T, h hierarchies) {
	left, err := filepath.Glob(filepath.Join(h.cpu, groupPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range left {
		pid := strings.TrimPrefix(filepath.Base(dir), groupPrefix)
		if _, err := os.Stat(filepath.Join("/proc", pid)); err == nil {
			continue // it runs
		}
		inner, err := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
		if err != nil {
			t.Fatal(err)
		}
		for _, procs := range inner {
			if err := removeGroup(h, filepath.Join(filepath.Base(dir), filepath.Base(filepath.Dir(procs)))); err != nil {
				t.Logf("sweep: %v", err)
			}
		}
		if err := removeGroup(h, filepath.Base(dir)); err != nil {
			t.Logf("sweep: %v", err)
		}
	}
}
