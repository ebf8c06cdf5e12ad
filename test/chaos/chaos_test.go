//go:build chaos

package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/test/chaos/fault"
	"supercargo.dev/supercargo/test/chaos/ledger"
)

// report is the result of a run.
type report struct {
	Seed       uint64               `json:"seed"`
	Seconds    float64              `json:"seconds"`
	Faults     map[fault.Kind]int   `json:"faults"`
	Settle     map[string]float64   `json:"longestSecondsUntilSettled"`
	Jobs       int                  `json:"jobs"`
	Services   int                  `json:"services"`
	Migrations map[string]int       `json:"migrations"`
	Bound      int                  `json:"podsBound"`
	Bought     ledger.Bought        `json:"machinesBought"`
	Writes     int                  `json:"writesReplayed"`
	Writers    map[ledger.Actor]int `json:"writesByReplica"`
	Runs       map[string]int       `json:"runsByReplica"`
	Broken     []string             `json:"broken"`
}

// TestNothingIsLostWhateverFails injects one fault after another. It then checks the audit log and
// the final state of the cluster.
func TestNothingIsLostWhateverFails(t *testing.T) {
	began := time.Now()
	w := start(t)
	t.Logf("seed %d; events, logs and audit log in %s", *seedFlag, w.out)
	r := &report{Seed: *seedFlag, Faults: map[fault.Kind]int{}, Settle: map[string]float64{}, Runs: map[string]int{}}
	fails := func(what string, args ...any) {
		line := fmt.Sprintf(what, args...)
		w.events.note("broken", map[string]any{"what": line})
		r.Broken = append(r.Broken, line)
		t.Errorf("%s (repeat with CHAOS_SEED=%d)", line, *seedFlag)
	}
	if wrong := w.settled(time.Now()); wrong != "" {
		t.Fatalf("the cluster does not work before anything has gone wrong: %s", wrong)
	}
	k := w.begin(nil)
	s := &striker{world: w}
	s.faults(t.Context(), r, fails)
	k.end()
	w.events.note("nothing more comes", nil)
	if wrong := w.rest(); wrong != "" {
		fails("no rest within %v: %s", restPatience, wrong)
	}
	if err := k.removeServices(t.Context()); err != nil {
		fails("remove the services: %v", err)
	}
	if wrong := w.released(); wrong != "" {
		fails("not all is released within %v: %s", releasePatience, wrong)
	}
	k.insist(t.Context(), k.everywhere())
	if wrong := w.rest(); wrong != "" {
		fails("not every node takes pods again within %v: %s", restPatience, wrong)
	}
	r.Jobs, r.Services = k.sums.Jobs, k.sums.Services
	w.count(r, fails)
	for _, wrong := range w.stopPrograms() {
		fails("%s", wrong)
	}
	for _, wrong := range w.crashes() {
		fails("%s", wrong)
	}
	w.replay(r, s.interfered, fails)
	r.Seconds = time.Since(began).Seconds()
	w.log(r)
}

// faults injects one fault after another for the duration of the flag, and waits after each until
// the cluster has settled.
func (s *striker) faults(ctx context.Context, r *report, fails func(string, ...any)) {
	cluster := fault.Cluster{Kinds: fault.Playground}
	if s.disk == "" {
		cluster.Kinds = slices.DeleteFunc(slices.Clone(fault.Playground), func(k fault.Kind) bool { return k == fault.FullDisk })
	}
	for _, p := range s.programs {
		if p.lease != "" {
			cluster.Leaders = append(cluster.Leaders, p.name)
		} else {
			cluster.Agents = append(cluster.Agents, p.name)
		}
	}
	source := fault.New(*seedFlag, cluster)
	for end := time.Now().Add(*lastsFlag); time.Now().Before(end); {
		f := source.Next()
		if *onlyFlag != "" && string(f.Kind) != *onlyFlag {
			continue
		}
		s.events.note("fault", map[string]any{"fault": f.String()})
		r.Faults[f.Kind]++
		if err := s.strike(ctx, f); err != nil {
			fails("%v could not be carried out: %v", f, err)
		}
		over := time.Now()
		s.events.note("over", map[string]any{"fault": f.String()})
		wrong := s.settled(over)
		took := time.Since(over).Seconds()
		s.events.note("settled", map[string]any{"fault": f.String(), "seconds": took, "wrong": wrong})
		s.Logf("%v: settled after %.0f s %s", f, took, wrong)
		r.Settle[string(f.Kind)] = max(r.Settle[string(f.Kind)], took)
		if wrong != "" {
			fails("the cluster has not settled %v after %v: %s", settlePatience, f, wrong)
		}
	}
}

// count adds the final phases of the Migrations and the runs of the replicas to the report.
func (w *world) count(r *report, fails func(string, ...any)) {
	there, err := w.now(w.Context())
	if err != nil {
		fails("read what is left: %v", err)
		return
	}
	r.Migrations = map[string]int{}
	for i := range there.Migrations {
		r.Migrations[string(there.Migrations[i].Status.Phase)]++
	}
	for _, one := range w.replicas() {
		r.Runs[one.name] = one.runs
	}
}

// crashes returns the panics in the logs of the replicas.
func (w *world) crashes() (all []string) {
	for _, r := range w.replicas() {
		text, err := os.ReadFile(r.log.Name())
		if err != nil {
			all = append(all, err.Error())
			continue
		}
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			if line := lines.Text(); strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
				all = append(all, fmt.Sprintf("%s crashed: %s", r.name, line))
			}
		}
	}
	return all
}

// replay checks the audit log and saves a copy of it.
func (w *world) replay(r *report, interfered []ledger.Meddling, fails func(string, ...any)) {
	text, err := os.ReadFile(w.p.AuditLogPath())
	if err != nil {
		fails("read the audit log: %v", err)
		return
	}
	if err := os.WriteFile(filepath.Join(w.out, "audit.json"), text, 0o600); err != nil {
		fails("keep the audit log: %v", err)
	}
	writes, err := ledger.Read(bytes.NewReader(text))
	if err != nil {
		fails("%v", err)
		return
	}
	leases := map[string]string{}
	for _, p := range w.programs {
		if p.lease != "" {
			leases[p.name] = p.lease
		}
	}
	var bought, bound []string
	r.Writes, r.Writers = len(writes), ledger.Writers(writes)
	r.Bought, bought = ledger.Purchases(writes, ledger.Buying{Autoscaler: "autoscaler", StartUp: startUp, Unseen: 30 * time.Second})
	r.Bound, bound = ledger.Bindings(writes)
	for _, all := range [][]string{ledger.Leaders(writes, leases, interfered), bought, bound} {
		for _, line := range all {
			fails("%s", line)
		}
	}
	for _, p := range w.programs { // without writes the checks above are vacuous
		n := 0
		for actor, writes := range r.Writers {
			if actor.Program() == p.name {
				n += writes
			}
		}
		if n == 0 {
			fails("the audit log has no write of %s", p.name)
		}
	}
}

// tell logs the report and writes it to the file of the flag.
func (w *world) log(what any) {
	text, err := json.MarshalIndent(what, "", "  ")
	if err != nil {
		w.Fatal(err)
	}
	w.Logf("%s", text)
	if *reportFlag != "" {
		if err := os.WriteFile(*reportFlag, append(text, '\n'), 0o600); err != nil {
			w.Error(err)
		}
	}
}
