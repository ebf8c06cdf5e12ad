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

// The path and the names of control groups. The PID of the process that made a group follows its name.
const (
	groupMount  = "/sys/fs/cgroup"
	groupPrefix = "supercargo-replicas-"
)

// period is the CPU quota period of a replica. With the default of 100 ms a request would often wait that
// long for its next millisecond. With a much shorter period, a replica that got no CPU time because other
// processes ran would lose its share.
const period = 40 * time.Millisecond

// hierarchies contains the folders in which a group is made: with version 1, one limits CPU time and another
// counts it.
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

// groups contains the control groups of one run.
type groups struct {
	hierarchies
	name string
}

// newGroups makes the parent group of the replicas' groups. Its processes have precedence over other
// processes, because the test measures its own quotas. It is removed with the test, as are the groups of test
// processes that have ended.
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

// limited makes a group with a CPU quota in millicores.
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

// join returns the files that a process must write to in order to join the group.
func (g group) join() string {
	if g.of.unified {
		return filepath.Join(g.of.cpu, g.name)
	}
	return filepath.Join(g.of.cpu, g.name) + "," + filepath.Join(g.of.usage, g.name)
}

// used returns the CPU time that the group has used.
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

// sweepGroups removes the groups of killed test processes. Their replicas died with them.
func sweepGroups(t *testing.T, h hierarchies) {
	left, err := filepath.Glob(filepath.Join(h.cpu, groupPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range left {
		pid := strings.TrimPrefix(filepath.Base(dir), groupPrefix)
		if _, err := os.Stat(filepath.Join("/proc", pid)); err == nil {
			continue // it is running
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
