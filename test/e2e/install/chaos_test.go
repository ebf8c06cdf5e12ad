//go:build install

package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"

	"supercargo.dev/supercargo/test/chaos/fault"
	"supercargo.dev/supercargo/test/chaos/ledger"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/oci"
	"supercargo.dev/supercargo/test/kit/testfile"
)

var (
	chaosSeed   = flag.Uint64("chaos-seed", 1, "draws the faults")
	chaosLasts  = flag.Duration("chaos-lasts", 10*time.Minute, "how long faults are injected; at least one of each kind")
	chaosOnly   = flag.String("chaos-only", "", "one kind of fault")
	chaosReport = flag.String("chaos-report", "", "file for the result, as JSON")
)

// chaosSteps is the number of steps of a Job, 0.1 s each. A Job outlasts its move and most faults.
const chaosSteps = 900

// lasting holds the durations that are accepted in a working cluster. A Migration has a deadline of five
// minutes, after which its agents still clean up.
var lasting = ledger.Patience{Pending: 2 * time.Minute, Migration: 8 * time.Minute, Drain: 5 * time.Minute}

// leases maps the ServiceAccounts of programs with leader election to their Leases, as namespace and name.
var leases = map[string][2]string{
	"supercargo-autoscaler":  {namespace, "autoscaler.supercargo.dev"},
	"supercargo-descheduler": {namespace, "descheduler.supercargo.dev"},
	"supercargo-scheduler":   {"kube-system", "supercargo-scheduler"},
}

// chaosResult is the result of a run.
type chaosResult struct {
	Seed       uint64               `json:"seed"`
	Seconds    float64              `json:"seconds"`
	Faults     map[fault.Kind]int   `json:"faults"`
	Settle     map[string]float64   `json:"longestSecondsUntilSettled"`
	Jobs       int                  `json:"jobs"`
	Migrations map[string]int       `json:"migrations"`
	Bound      int                  `json:"podsBound"`
	Writers    map[ledger.Actor]int `json:"writesByPod"`
}

// TestNothingIsLostOnRealNodesWhateverFails installs everything on a cluster with real nodes, and injects one
// fault after another. During each fault a Migration moves the pod of a Job. In the end, every Job has
// completed with the right result and no failed pod, every Migration has ended, and no container is frozen and
// no node cordoned. The API server's audit log shows no write of a former leader and no pod that was bound
// twice.
func TestNothingIsLostOnRealNodesWhateverFails(t *testing.T) {
	policy := testfile.Read(t, filepath.Join(project, "test/chaos/audit-policy.yaml"))
	s := newSiteWithAudit(t, policy)
	s.part("the control plane's own pods are ready", (*site).controlPlaneIsReady)
	s.importImages()
	s.importToAll("workload.tar", oci.Image{Name: cluster.Images["chain"], Program: cluster.ProgramPath("workload/chain")})
	for _, node := range s.Nodes[1:] { // a small disk, which a fault fills
		s.on(node, "mkdir -p "+stateFolder+" && mount -t tmpfs -o size=16m tmpfs "+stateFolder)
	}
	before := s.nodeStates()
	s.part("helm installs everything and every pod is ready", (*site).installed)
	s.apply(held)
	s.kubectl("rollout", "status", "deployment/held", "--timeout=5m")
	began := time.Now()
	c := &chaos{site: s, result: chaosResult{Seed: *chaosSeed, Faults: map[fault.Kind]int{}, Settle: map[string]float64{}, Migrations: map[string]int{}}}
	c.faults()
	for _, name := range c.jobs {
		s.whole(name, chaosSteps)
	}
	if got := c.get("{.spec.replicas} {.metadata.generation}", "deployment", "held"); got != "2 1" {
		c.Errorf("replicas and generation of a service without measurements are %s, want 2 1", got)
	}
	c.nothingIsLeft(before)
	c.replay()
	c.result.Jobs, c.result.Seconds = len(c.jobs), time.Since(began).Seconds()
	c.report()
}

// held is a service without metrics: its ReplicaPolicy must not change its replicas.
const held = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: held}
spec:
  replicas: 2
  selector: {matchLabels: {app: held}}
  template:
    metadata: {labels: {app: held}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: pause, image: "` + cluster.PauseImage + `", imagePullPolicy: Never, resources: {requests: {cpu: 1m}}}]
---
apiVersion: supercargo.dev/v1alpha1
kind: ReplicaPolicy
metadata: {name: held}
spec:
  target: {name: held}
  mode: Act
  maxReplicas: 4
  service: {ratePerReplica: "10"}
  law: {name: DoubleThreshold}
  metrics: {preset: {name: nginx, parameters: {window: 30s}}}
`

// chaos is a run.
type chaos struct {
	*site
	jobs       []string
	interfered []ledger.Meddling
	result     chaosResult
}

// faults injects one fault after another, each kind at least once, and waits after each until the cluster has
// settled.
func (c *chaos) faults() {
	var programs []string
	for program := range leases {
		programs = append(programs, program)
	}
	slices.Sort(programs)
	kinds := fault.Nodes
	if *chaosOnly != "" {
		kinds = []fault.Kind{fault.Kind(*chaosOnly)}
	}
	source := fault.New(*chaosSeed, fault.Cluster{Leaders: programs, Kinds: kinds})
	for end := time.Now().Add(*chaosLasts); time.Now().Before(end) || len(c.result.Faults) < len(kinds); {
		f := source.Next()
		c.result.Faults[f.Kind]++
		node := c.moves()
		c.say("%v", f)
		if err := c.strike(f, node); err != nil {
			c.Errorf("%v could not be carried out: %v", f, err)
		}
		over := time.Now()
		c.eventually(fmt.Sprintf("the cluster has settled after %v", f), func() error { return c.settled(over) })
		took := time.Since(over).Seconds()
		c.say("settled after %.0f s", took)
		c.result.Settle[string(f.Kind)] = max(c.result.Settle[string(f.Kind)], took)
	}
}

// moves creates a Job and a Migration that moves its pod, and returns the pod's node when the Migration is in
// progress.
func (c *chaos) moves() *cluster.Node {
	c.Helper()
	name := fmt.Sprintf("chaos-%d", len(c.jobs))
	node := c.starts(name, secondScheduler, chaosSteps)
	c.jobs = append(c.jobs, name)
	c.apply(fmt.Sprintf(`
apiVersion: supercargo.dev/v1alpha1
kind: Migration
metadata: {name: %s}
spec: {podName: %s}
`, name, c.get("{.items[0].metadata.name}", "pods", "-l", "job-name="+name)))
	c.eventually("the Migration is in progress", func() error {
		if phase := c.get("{.status.phase}", "migration", name); phase == "" || phase == "Pending" {
			return errors.New("it has not begun")
		}
		return nil
	})
	return c.Node(node)
}

// state reads the objects of the cluster. Unlike list, it reports errors, because the API server may be down.
func (c *chaos) state() (*ledger.Final, error) {
	var f ledger.Final
	errs := []error{
		c.tryList("nodes", &f.Nodes), c.tryList("pods", &f.Pods), c.tryList("jobs", &f.Jobs),
		c.tryList("deployments", &f.Deployments), c.tryList("migrations", &f.Migrations),
	}
	return &f, errors.Join(errs...)
}

func (c *chaos) tryList(kind string, into any) error {
	out, err := c.try("kubectl", "get", kind, "-A", "-o", "json")
	if err != nil {
		return err
	}
	var list struct{ Items json.RawMessage }
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return fmt.Errorf("read the %s: %w", kind, err)
	}
	return json.Unmarshal(list.Items, into)
}

// settled returns what is not as in a working cluster: a Lease that was not renewed since a time, a pod of the
// release that is not ready, or something that has lasted for too long.
func (c *chaos) settled(since time.Time) error {
	var errs []error
	for program, lease := range leases {
		var l coordinationv1.Lease
		out, err := c.try("kubectl", "get", "lease", "-n", lease[0], lease[1], "-o", "json")
		if err == nil {
			err = json.Unmarshal([]byte(out), &l)
		}
		if err == nil && (l.Spec.RenewTime == nil || l.Spec.RenewTime.Time.Before(since) || l.Spec.HolderIdentity == nil ||
			!strings.HasPrefix(*l.Spec.HolderIdentity, program)) {
			err = fmt.Errorf("%s has no leader", program)
		}
		errs = append(errs, err)
	}
	f, err := c.state()
	if err != nil {
		return err
	}
	for i := range f.Deployments {
		errs = append(errs, notReady(&f.Deployments[i]))
	}
	var sets []appsv1.DaemonSet
	errs = append(errs, c.tryList("daemonsets", &sets))
	for i := range sets {
		if d := &sets[i]; d.Status.NumberReady != d.Status.DesiredNumberScheduled {
			errs = append(errs, fmt.Errorf("%d of %d pods of %s are ready", d.Status.NumberReady, d.Status.DesiredNumberScheduled, d.Name))
		}
	}
	for _, wrong := range f.Unsettled(time.Now(), lasting) {
		errs = append(errs, errors.New(wrong))
	}
	return errors.Join(errs...)
}

func notReady(d *appsv1.Deployment) error {
	if d.Status.ReadyReplicas == *d.Spec.Replicas {
		return nil
	}
	return fmt.Errorf("%d of %d pods of %s are ready", d.Status.ReadyReplicas, *d.Spec.Replicas, d.Name)
}

// frozen prints the control groups that are frozen.
const frozen = `find /sys/fs/cgroup -name freezer.state 2>/dev/null | while read -r file; do
	[ "$(cat "$file" 2>/dev/null)" = THAWED ] || [ ! -e "$file" ] || echo "$file"
done`

// nothingIsLeft checks that the cluster has nothing of the moves and faults.
func (c *chaos) nothingIsLeft(before []string) {
	c.eventually("nothing is lost or half done", func() error {
		f, err := c.state()
		if err != nil {
			return err
		}
		clear(c.result.Migrations)
		for i := range f.Migrations {
			c.result.Migrations[string(f.Migrations[i].Status.Phase)]++
		}
		var errs []error
		for _, wrong := range f.Broken() {
			errs = append(errs, errors.New(wrong))
		}
		return errors.Join(append(errs, differ(before, c.nodeStates()))...)
	})
	for _, node := range c.Nodes {
		if out := c.on(node, frozen); out != "" {
			c.Errorf("on node %s, containers are frozen: %s", node.Name, out)
		}
	}
}

// replay checks the audit log.
func (c *chaos) replay() {
	text := testfile.Read(c, c.AuditLog)
	writes, err := ledger.Read(bytes.NewReader(text))
	if err != nil {
		c.Fatal(err)
	}
	names := map[string]string{}
	for program, lease := range leases {
		names[program] = lease[1]
	}
	var bound []string
	c.result.Writers = ledger.Writers(writes)
	c.result.Bound, bound = ledger.Bindings(writes)
	for _, wrong := range append(ledger.Leaders(writes, names, c.interfered), bound...) {
		c.Error(wrong)
	}
	for program := range leases { // without writes the checks above are vacuous
		n := 0
		for actor, writes := range c.result.Writers {
			if actor.Program() == program {
				n += writes
			}
		}
		if n == 0 {
			c.Errorf("the audit log has no write of %s", program)
		}
	}
	if c.result.Migrations["Succeeded"] == 0 {
		c.Error("no Migration has succeeded")
	}
}

// report writes the result to the file of the flag.
func (c *chaos) report() {
	text, err := json.MarshalIndent(&c.result, "", "  ")
	if err != nil {
		c.Fatal(err)
	}
	c.Logf("%s", text)
	if *chaosReport != "" {
		if err := os.WriteFile(*chaosReport, append(text, '\n'), 0o600); err != nil {
			c.Error(err)
		}
	}
}
