package explain

import (
	"io"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/score"
	"supercargo.dev/supercargo/energy/tariff"
	"supercargo.dev/supercargo/internal/movable"
	"supercargo.dev/supercargo/test/kit/sentences"
)

// printed returns what a function writes.
func printed(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b strings.Builder
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// changed returns what is printed about an object after some changes.
func changed[T any](t *testing.T, write func(io.Writer, *T) error, object *T, change ...func(*T)) string {
	t.Helper()
	for _, f := range change {
		f(object)
	}
	return printed(t, func(w io.Writer) error { return write(w, object) })
}

var at = metav1.NewTime(noon)

// aboutObjects has fleets, policies, pools, profiles and the consolidation.
func aboutObjects(t *testing.T) []sentences.Case {
	return append(aboutFleetObjects(t), append(aboutScaledObjects(t), aboutOthersObjects(t)...)...)
}

func aboutFleetObjects(t *testing.T) []sentences.Case {
	fleet := func(change ...func(*v1alpha1.NodeFleet)) string {
		t.Helper()
		return changed(t, Fleet, fleetOfTwo(change...))
	}
	costs := func(f *v1alpha1.NodeFleet) {
		f.Status.Cost.DollarsPerHour, f.Status.Cost.LowerBoundDollarsPerHour = "1", "0.5"
	}
	decides := func(change func(d *v1alpha1.FleetDecision)) string {
		t.Helper()
		return fleet(func(f *v1alpha1.NodeFleet) {
			f.Status.LastDecision = &v1alpha1.FleetDecision{Time: at, Mode: v1alpha1.FleetAct, Summary: "buy", Expected: v1alpha1.Outcome{DollarsPerHour: "1"}, Buys: []v1alpha1.DecidedPurchase{{
				Flavor: "large", Count: 2, Pods: 3, Reason: "cheapest", PricePerHour: "0.4", DollarsUntilEmpty: "2", BilledSeconds: 3600,
				Machines: []v1alpha1.DecidedMachines{{Count: 2, Pods: 3, BusySeconds: 60, BilledSeconds: 3600, DollarsUntilEmpty: "2"}},
			}}}
			change(f.Status.LastDecision)
		})
	}
	buys := decides(func(*v1alpha1.FleetDecision) {})
	forever := decides(func(d *v1alpha1.FleetDecision) { d.Buys[0].Machines[0].BusySeconds = 0 })
	releases := func(r v1alpha1.DecidedRelease) string {
		t.Helper()
		return decides(func(d *v1alpha1.FleetDecision) { d.Buys, d.Releases = nil, []v1alpha1.DecidedRelease{r} })
	}
	released := releases(v1alpha1.DecidedRelease{Node: "a", Reason: "it is empty"})
	waits := fleet(func(f *v1alpha1.NodeFleet) {
		f.Status.Deferral = &v1alpha1.FleetDeferral{Reason: "1 pod waits", Pods: 1, SavesDollars: "0.5"}
	})
	observed := decides(func(d *v1alpha1.FleetDecision) { d.Mode = v1alpha1.FleetObserve })
	nothing, unreported := fleet(), fleet(func(f *v1alpha1.NodeFleet) { f.Status = v1alpha1.NodeFleetStatus{} })
	return []sentences.Case{
		{"NodeFleet %s, class %s, mode %s\n", nothing, ""},
		{"%s, %d in flight, %s pending", nothing, unreported},
		{" Check that it is running.\n", unreported, nothing},
		{" (machines for all its pods cost at least $%s/h)", fleet(costs), nothing},
		{"In progress: %s, since %s\n", fleet(func(f *v1alpha1.NodeFleet) { f.Status.Intent = &v1alpha1.FleetIntent{ID: "1", Time: at} }), nothing},
		{"\nNo decision to buy or release machines yet.\n", nothing, buys},
		{"\nNo decision to buy or release machines yet.\n", nothing, unreported},
		{"\nLast decision, %s, mode %s:\n  %s\n", buys, nothing},
		{"  buy %d %s for %s: %s\n", buys, released},
		{"\nUnder-used or empty machines that are kept:\n", fleet(func(f *v1alpha1.NodeFleet) {
			f.Status.Kept = []v1alpha1.KeptMachine{{Node: "a", Reason: "it is cheap"}}
		}), nothing},
		{"price unknown", decides(func(d *v1alpha1.FleetDecision) { d.Expected.DollarsPerHour = "" }), buys},
		{", ready after %d s", buys, released},
		{"nothing, because nothing is done in mode Observe", observed, buys},
		{"not yet", buys, observed},
		{"in back-off until %s (consecutive back-offs: %d)", fleet(flavor(func(s *v1alpha1.FlavorStatus) { s.BackOffUntil, s.Failures = &at, 2 })), nothing},
		{"    at $%s/h, %v to start, paid for %v in all: $%s until they are empty\n", buys, decides(func(d *v1alpha1.FleetDecision) { d.Buys[0].DollarsUntilEmpty = "" })},
		{"    %d busy for %v, paid for %v each: $%s", buys, forever},
		{"    %d not expected to become empty, compared by what %v cost: $%s", forever, buys},
		{"    %d more, each paid for at most as long as these\n", decides(func(d *v1alpha1.FleetDecision) { d.Buys[0].Count = 3 }), buys},
		{"    keeping it to the end of the next billing period would cost $%s, starting another machine $%s\n", releases(v1alpha1.DecidedRelease{Node: "a", KeepDollars: "1"}), released},
		{"    saves $%s and costs $%s\n", releases(v1alpha1.DecidedRelease{Node: "a", SavesDollars: "1"}), released},
		{"Waiting saves $%s: %s; room for the last pod is expected at %s, and a machine for the first pod is due at %s at the latest; %s\n", waits, nothing},
		{"  expected until all machines bought are empty: $%s\n", decides(func(d *v1alpha1.FleetDecision) { d.DollarsUntilEmpty = "2" }), buys},
		{"  emptying or exchanging machines saves $%s and costs $%s\n", decides(func(d *v1alpha1.FleetDecision) { d.SavesDollars = "1" }), buys},
	}
}

// aboutScaledObjects has ReplicaPolicies and WorkerPools.
func aboutScaledObjects(t *testing.T) []sentences.Case {
	policy := func(change ...func(*v1alpha1.ReplicaPolicy)) string {
		t.Helper()
		p := &v1alpha1.ReplicaPolicy{}
		p.Status.ObservedGeneration = 1
		return changed(t, Policy, p, change...)
	}
	scaled := func(mode v1alpha1.ReplicaMode) func(*v1alpha1.ReplicaPolicy) {
		return func(p *v1alpha1.ReplicaPolicy) {
			p.Status.LastDecision = &v1alpha1.ReplicaDecision{Mode: mode, From: 1, To: 2}
		}
	}
	pool := func(change ...func(*v1alpha1.WorkerPool)) string {
		t.Helper()
		p := &v1alpha1.WorkerPool{}
		p.Status.ObservedGeneration = 1
		return changed(t, Pool, p, change...)
	}
	resized := func(d v1alpha1.WorkerDecision) string {
		t.Helper()
		return pool(func(p *v1alpha1.WorkerPool) { p.Status.LastDecision = &d })
	}
	adds, drains := resized(v1alpha1.WorkerDecision{Mode: v1alpha1.WorkerPoolAct, Add: 1}), resized(v1alpha1.WorkerDecision{Mode: v1alpha1.WorkerPoolAct, Drain: []string{"w"}})
	plain, empty := policy(), pool()
	newPolicy := policy(func(p *v1alpha1.ReplicaPolicy) { p.Status.ObservedGeneration = 0 })
	newPool := pool(func(p *v1alpha1.WorkerPool) { p.Status.ObservedGeneration = 0 })
	desires := policy(func(p *v1alpha1.ReplicaPolicy) { p.Status.DesiredReplicas = 2 })
	decided := policy(scaled(v1alpha1.ReplicasAct))
	return []sentences.Case{
		{"ReplicaPolicy %s of %s %s, law %s, mode %s\n", plain, empty},
		{"Target: a mean response time of %v\n", policy(func(p *v1alpha1.ReplicaPolicy) { p.Spec.SLO = &v1alpha1.ServiceLevel{} }), plain},
		{"%s (%d to %d allowed); %d in the spec of the target, %s, %d of them Ready\n", plain, newPolicy},
		{"Desired replicas: not decided yet", plain, desires},
		{" Check that it is running.\n", newPolicy, plain},
		{" Check that it is running.\n", newPool, empty},
		{"Pods take %v ± %v to become Ready, learned from %s\n", policy(func(p *v1alpha1.ReplicaPolicy) { p.Status.StartUp = &v1alpha1.LearnedTime{} }), plain},
		{"Memory: %s, written %s, for %s\n", policy(func(p *v1alpha1.ReplicaPolicy) { p.Status.Memory = &v1alpha1.LawMemory{} }), plain},
		{"%s requests/s, response time %s, queue length %s, utilisation %s %%, with %d of %s Ready", decided, plain},
		{"\nNo decision yet.\n", plain, decided},
		{"\nLast decision, %s, mode %s: %s\n", decided, plain},
		{"  based on: %s\n", decided, plain},
		{"  %s: %s requests/s, response time %s, utilisation %s %%, all Ready after %d s\n", decided, plain},
		{"not yet", decided, policy(scaled(v1alpha1.ReplicasObserve))},
		{"WorkerPool %s/%s, mode %s, phase %s\n", empty, plain},
		{"%s connected, %d starting, %d draining; %d to %d allowed\n", empty, newPool},
		{"Manager %s: %s for %s cores, %s, %s done; it has lost %s\n", pool(func(p *v1alpha1.WorkerPool) { p.Status.Queue = &v1alpha1.WorkQueueStatus{} }), empty},
		{"\nNo decision to resize the pool yet.\n", empty, adds},
		{"\nLast decision, %s, mode %s:\n", adds, empty},
		{"  expected: connected after %s\n", adds, drains},
		{"not yet", drains, resized(v1alpha1.WorkerDecision{Mode: v1alpha1.WorkerPoolObserve, Drain: []string{"w"}})},
	}
}

func aboutOthersObjects(t *testing.T) []sentences.Case {
	learned := func(change ...func(*v1alpha1.MachineProfile)) string {
		t.Helper()
		o := sampleProfile(t, change...)
		return printed(t, func(w io.Writer) error { return Profile(w, o, noon) })
	}
	plain := learned()
	none := learned(func(o *v1alpha1.MachineProfile) { o.Spec.Models = nil })
	wrong := learned(func(o *v1alpha1.MachineProfile) { o.Spec.Models.Energy.Terms[0].Coefficient = "NaN" })
	governed := learned(func(o *v1alpha1.MachineProfile) { o.Spec.Models.Governor = "schedutil" })
	two := learned(func(o *v1alpha1.MachineProfile) {
		m := o.Spec.Models
		m.Governor, m.Governors = "schedutil", []v1alpha1.GovernorModels{{Governor: "powersave", Energy: *m.Energy.DeepCopy(), Runtime: m.Runtime}}
	})
	decision := func(change ...func(*v1alpha1.ConsolidationStatus)) string {
		t.Helper()
		return changed(t, Consolidation, &v1alpha1.ConsolidationStatus{Nodes: 1, Time: &at}, change...)
	}
	drains := func(target string) string {
		t.Helper()
		return decision(func(d *v1alpha1.ConsolidationStatus) {
			d.Drains = []v1alpha1.ConsolidationDrain{{Node: "b", Reason: "it is dear", Pods: []v1alpha1.ConsolidationMove{{Pod: "p", Method: "evict", Target: target}}}}
		})
	}
	idle := decision()
	return []sentences.Case{
		{"MachineProfile %s, machine type %s\n", plain, idle},
		{"Power: %.4g W without load, %.4g W at full load\n", plain, learned(func(o *v1alpha1.MachineProfile) { o.Spec.Power = nil })},
		{"Not used: nothing has been learned yet. Nodes of the type get a neutral score.\n", none, wrong},
		{"Not used: %v. Nodes of the type get a neutral score.\n", wrong, plain},
		{"Learned: %s, %v ago\n", learned(func(o *v1alpha1.MachineProfile) { o.Spec.Models.LearnedAt = &at }), learned(func(o *v1alpha1.MachineProfile) { o.Spec.Models.LearnedAt = nil })},
		{"These models are for the CPU governor %s\n", governed, plain},
		{"For the CPU governor %s:\n", two, governed},
		{"  %s of %s, R² %.3f, usual error on unseen sizes %.1f %%\n", plain, none},
		{"  learned from %s to %s: %.4g to %.4g %s\n", plain, none},
		{"  in the middle of that range: %.4g %s, trusted to %.0f %%%s\n", plain, none},
		{"%g CPU, %.3g GiB", plain, none},

		{"Consolidation, mode %s, policy %s, as of %s\n", idle, plain},
		{"%s; those that are not emptied cost $%s/h, and $%s/h after all decisions are carried out\n", idle, plain},
		{"Being emptied: %s\n", decision(func(d *v1alpha1.ConsolidationStatus) { d.Emptying = []string{"b"} }), idle},
		{"\n%s, chosen at %s: %s\n", drains(""), idle},
		{" (room on %s)", drains("a"), drains("")},
		{"\nPods that are better suited to other machines, as of %s:\n", decision(func(d *v1alpha1.ConsolidationStatus) { d.Energy = []v1alpha1.EnergyMove{{}} }), idle},
		{"  %-10s %s from %s to %s: %s\n", decision(func(d *v1alpha1.ConsolidationStatus) {
			d.Energy = []v1alpha1.EnergyMove{{Method: "Checkpoint", Pod: "p", From: "a", Target: "b"}}
		}), idle},
		{"\nNodes that are kept:\n", decision(func(d *v1alpha1.ConsolidationStatus) { d.Kept = []v1alpha1.Rejection{{Name: "a"}} }), idle},
		{"%d more are not listed\n", decision(func(d *v1alpha1.ConsolidationStatus) { d.Omitted = 1 }), idle},
	}
}

func aboutMigrations(t *testing.T) []sentences.Case {
	migration := func(change ...func(*v1alpha1.MigrationStatus)) string {
		t.Helper()
		m := &v1alpha1.Migration{}
		m.Name, m.Spec.PodName, m.Status.Phase = "m", "p", "Frozen"
		for _, f := range change {
			f(&m.Status)
		}
		return MigrationLine(m) + "\n" + printed(t, NewMigrationSummary(m).Write) + printed(t, func(w io.Writer) error { return Migration(w, m) })
	}
	planned := func(s *v1alpha1.MigrationStatus) {
		s.Plan = &v1alpha1.MigrationPlan{SourceNode: "a", RestoredPod: "p-2", Backend: v1alpha1.BackendSimulated}
	}
	source := func(bytes int64) func(*v1alpha1.MigrationStatus) {
		return func(s *v1alpha1.MigrationStatus) {
			s.Source = &v1alpha1.SourceReport{Step: "Dumped", MemoryBytes: bytes}
		}
	}
	target := func(s *v1alpha1.MigrationStatus) { s.Target = &v1alpha1.TargetReport{Node: "b", Step: "Ready"} }
	measured := func(m v1alpha1.MigrationMeasured) string {
		t.Helper()
		return migration(planned, func(s *v1alpha1.MigrationStatus) { s.Measured = &m })
	}
	verdict := func(refusals ...movable.Refusal) string {
		t.Helper()
		return printed(t, NewVerdict(running(), movable.Verdict{Backend: v1alpha1.BackendSimulated, Refusals: refusals}).Write)
	}
	fresh := migration(func(s *v1alpha1.MigrationStatus) { s.Phase = "" })
	begun, moves, frozen := migration(), migration(planned), measured(v1alpha1.MigrationMeasured{})
	can, cannot := verdict(), verdict(movable.Refusal{Reason: "NodeNotReady", Message: "m"}, movable.Refusal{Reason: "ServiceUnsupported", Message: "m"})
	notYet := verdict(movable.Refusal{Reason: "NodeNotReady", Message: "m"})
	return []sentences.Case{
		{": waits for the descheduler", fresh, begun},
		{"Migration %s created; `supercargo explain migration/%s -n %s` shows its progress\n", fresh, begun},
		{"Pod %s can be moved from node %s, with back-end %s. The agent of the node makes the final decision.\n", can, cannot},
		{"Pod %s cannot be moved:\n", cannot, notYet},
		{"Pod %s cannot be moved yet:\n", notYet, cannot},
		{"Migration %s of pod %s, %s\n", begun, can},
		{"Nothing was changed.\n", begun, moves},
		{"From node %s to %s, by back-end %s; name of the new pod: %s\n", moves, begun},
		{"Started %s, deadline %s; order to the agents: %s\n", moves, begun},
		{"No copy ran for %s s. ", measured(v1alpha1.MigrationMeasured{FrozenSeconds: "1.5"}), frozen},
		{"Measured: dump %s s, ship %s s, restore %s s; %s s in all.", frozen, moves},
		{" The checkpoint had %d bytes.", measured(v1alpha1.MigrationMeasured{CheckpointBytes: 1}), frozen},
		{" Sent over the network after the freeze, compressed: %d bytes.", measured(v1alpha1.MigrationMeasured{ShippedBytes: 1}), frozen},
		{"\nThe agent of node %s: %s since %s%s. %s\n", migration(planned, source(1)), moves},
		{"; the container used %d bytes of memory", migration(planned, source(1)), migration(planned, source(0))},
		{"The agent of node %s: %s since %s. %s\n", migration(planned, target), moves},
	}
}

// energyOf returns what is printed about a pod whose energy was evaluated.
func energyOf(t *testing.T, lines ...score.Line) string {
	t.Helper()
	why := NewWhy(input(running()))
	e := NewPod("default/p", score.Weight{H: 0.5, Origin: score.FromPod}, tariff.Dollars, lines)
	why.Pod = &e
	return printed(t, why.Write)
}

func aboutEnergy(t *testing.T) []sentences.Case {
	line := func(known, idle, priced bool) string {
		t.Helper()
		return energyOf(t, score.Line{
			Node:   score.Node{Name: "a", MachineType: "xeon", Idle: idle, Price: tariff.Price{Known: priced, PerKWh: 0.3}},
			Option: score.Option{Known: known, Energy: profile.Prediction{Value: 1, Trust: 1}, Runtime: profile.Prediction{Value: 1, Trust: 1}},
		})
	}
	plain := line(true, false, true)
	return []sentences.Case{
		{"Pod %s: weight of energy against runtime %g (%s)\n", plain, say(t, running())},
		{"no prediction for this pod on this machine type", line(false, false, true), plain},
		{"idle: its idle power is included", line(true, true, true), plain},
		{"the price of the zone is unknown: the price of all other zones, or none, applies", line(true, false, false), plain},
	}
}
