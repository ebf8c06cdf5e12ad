package agentdecide

import (
	"testing"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint/terms"
)

// everySource calls f with every combination of what the agent of a source may observe.
func everySource(f func(Source)) {
	flags := []func(*Source, bool){
		func(s *Source, v bool) { s.Exists = v }, func(s *Source, v bool) { s.Ended = v }, func(s *Source, v bool) { s.HandedOver = v },
		func(s *Source, v bool) { s.TargetReady = v }, func(s *Source, v bool) { s.TargetStaged = v },
		func(s *Source, v bool) { s.Known = v }, func(s *Source, v bool) { s.Overdue = v }, func(s *Source, v bool) { s.Reached = v },
		func(s *Source, v bool) { s.Presends = v },
	}
	orders := []v1alpha1.MigrationOrder{"", v1alpha1.OrderPrepare, v1alpha1.OrderFreeze, v1alpha1.OrderKill, v1alpha1.OrderThaw, v1alpha1.OrderClean}
	steps := []v1alpha1.SourceStep{"", v1alpha1.SourcePrepared, v1alpha1.SourceFrozen, v1alpha1.SourceDumped, v1alpha1.SourceShipped,
		v1alpha1.SourceKilled, v1alpha1.SourceThawed, v1alpha1.SourceCleaned, v1alpha1.SourceFailed}
	for bits := range 1 << len(flags) {
		var s Source
		for i, set := range flags {
			set(&s, bits>>i&1 == 1)
		}
		orders, steps, pods, copies := orders, steps, []Pod{PodUnknown}, []bool{false}
		if !s.Exists { // the order and the step are unknown, and only then is the pod observed
			orders, steps, pods = orders[:1], steps[:1], []Pod{PodUnknown, PodWanted, PodLeaving, PodGone}
			copies = []bool{false, true}
		}
		for _, s.Order = range orders {
			for _, s.Step = range steps {
				for _, s.Pod = range pods {
					for _, s.NewPod = range copies {
						everyEntry(s, f)
					}
				}
			}
		}
	}
}

// everyEntry calls f with every stage, fate and state of the container.
func everyEntry(s Source, f func(Source)) {
	for _, s.Stage = range []terms.Stage{terms.Idle, terms.Freezing, terms.Dumped, terms.Sent, terms.Shipped, terms.Removed} {
		for _, s.Fate = range []terms.Fate{terms.Keep, terms.Thaw, terms.Kill} {
			for _, s.Container = range []terms.State{terms.Unknown, terms.Running, terms.Frozen, terms.Gone} {
				f(s)
			}
		}
	}
}

// noted reports whether the agent may have frozen the container, and dumped whether its state was taken.
func noted(s Source) bool {
	return s.Stage == terms.Freezing || dumped(s)
}

func dumped(s Source) bool {
	return s.Stage == terms.Dumped || s.Stage == terms.Sent || s.Stage == terms.Shipped
}

// TestSourceKeepsItsPromises checks the invariants in the package comment for every combination.
// It calls nothing of the package but the decision.
func TestSourceKeepsItsPromises(t *testing.T) {
	everySource(func(s Source) {
		d := ForSource(s)
		if broken := broken(s, d); broken != "" {
			t.Fatalf("%s\nseen: %+v\ndecided: %+v", broken, s, d)
		}
	})
}

// broken returns the invariant that a decision violates; empty for none.
func broken(s Source, d SourceDecision) string {
	switch d.Do {
	case Presend, NoteFreeze:
		if broken := brokenPresend(s, d); broken != "" {
			return broken
		}
		return brokenForwards(s, d)
	case Freeze, Dump, Ship:
		return brokenForwards(s, d)
	case Thaw:
		return brokenThaw(s)
	case NoteKill, Kill, Forget:
		return brokenEnd(s, d)
	case Report:
		return brokenReport(s, d)
	}
	return ""
}

func brokenPresend(s Source, d SourceDecision) string {
	switch {
	case d.Do == Presend && (!s.TargetReady || !s.Reached || !s.Presends):
		return "memory is sent early, and it is not wanted, or the target was not reached"
	case d.Do == Presend && (s.Container != terms.Running || noted(s) || !s.Known):
		return "memory is sent early of a container that does not run, or that may be frozen"
	case d.Do == NoteFreeze && s.Presends && s.Container == terms.Running:
		return "a container is about to be frozen before its memory was sent"
	}
	return ""
}

func brokenForwards(s Source, d SourceDecision) string {
	switch {
	case !s.Exists || s.Ended || s.Order != v1alpha1.OrderFreeze:
		return "something goes forwards without the order"
	case d.Do == Freeze && s.Step != v1alpha1.SourceFrozen:
		return "a container is frozen before the report says so"
	case d.Do == NoteFreeze && (!s.TargetReady || !s.Reached):
		return "a container is about to be frozen, and the target is not ready, or nobody knows whether it can be reached"
	case forbidden(s):
		return "something goes forwards with a container that continues by itself"
	case d.Do == Dump && s.Container != terms.Frozen:
		return "the state of a container is taken that is not frozen"
	case d.Do == Ship && (s.Container != terms.Frozen || !dumped(s)):
		return "what is shipped is not the container's state"
	case d.Do == Freeze && (dumped(s) || s.Step == v1alpha1.SourceDumped || s.Step == v1alpha1.SourceShipped):
		return "a container that ran after its state was taken is frozen again"
	}
	return ""
}

func brokenThaw(s Source) string {
	switch {
	case s.Container != terms.Frozen:
		return "what is not frozen is thawed"
	case s.Fate == terms.Kill || s.HandedOver && s.Exists:
		return "a container that is to die continues"
	case s.Exists && s.Order != v1alpha1.OrderThaw && s.Order != v1alpha1.OrderClean && !s.Ended:
		return brokenLapse(s)
	case !s.Exists && s.NewPod:
		return "a container continues whose copy may run"
	case !s.Exists && s.Pod != PodWanted:
		return "a container continues whose Migration is gone and whose pod is not wanted"
	}
	return ""
}

// sentOrToDie reports whether a copy of the container may run, or the container must not.
func sentOrToDie(s Source) bool {
	return s.Stage == terms.Sent || s.Stage == terms.Shipped || s.TargetStaged || s.Fate == terms.Kill || s.HandedOver
}

// forbidden reports whether a container continues without an order, and must not be touched.
func forbidden(s Source) bool { return s.Fate == terms.Thaw && s.Known && !sentOrToDie(s) }

// lapses reports whether an agent may act without an order.
func lapses(s Source, d SourceDecision) bool {
	return (s.Overdue || s.Fate == terms.Thaw) && !sentOrToDie(s) && s.Known && noted(s) && (d.Do != Thaw || s.Fate == terms.Thaw && s.Container == terms.Frozen)
}

// brokenLapse returns the invariant that is violated if a container continues without an order.
func brokenLapse(s Source) string {
	switch {
	case s.Fate != terms.Thaw:
		return "a container continues without the order before it is noted that its dump is of no use"
	case sentOrToDie(s):
		return "a container continues by itself, and its copy may run"
	case !s.Known:
		return "a container continues by itself of which the agent does not know what it has sent"
	}
	return ""
}

// TestSourceExpiresOnlyWhereNoCopyCanRun checks when an agent acts without an order: with the API
// server, without it, and when the agent ends.
func TestSourceExpiresOnlyWhereNoCopyCanRun(t *testing.T) {
	everySource(func(s Source) {
		d := ForSource(s)
		if d.Do == NoteExpiry && (!s.Overdue || sentOrToDie(s) || !s.Known) {
			t.Fatalf("a container is let continue by itself\nseen: %+v", s)
		}
		if s.Exists { // this is unknown without the API server
			return
		}
		for _, s.Busy = range []Action{Nothing, Dump, Thaw} {
			switch d := ForSourceAlone(s); d.Do {
			case Nothing:
			case Cancel, NoteExpiry, Thaw:
				if !lapses(s, d) {
					t.Fatalf("an agent alone does %s\nseen: %+v", d.Do, s)
				}
			default:
				t.Fatalf("an agent alone does %s\nseen: %+v", d.Do, s)
			}
		}
		s.Busy = Nothing
		want := Nothing
		if s.Known && noted(s) && !sentOrToDie(s) && s.Container == terms.Frozen {
			want = Thaw
		}
		if d := ForSourceAtEnd(s); d.Do != want {
			t.Fatalf("an agent that ends does %q, want %q\nseen: %+v", d.Do, want, s)
		}
	})
}

// TestSourceTakesTheStateAgainAfterAnAgentEnded: at any step before the last bytes were sent, the
// next agent completes the migration.
func TestSourceTakesTheStateAgainAfterAnAgentEnded(t *testing.T) {
	const prepared = 2 // the agent has done its first steps
	for steps := prepared; steps < 9; steps++ {
		s := Source{Exists: true, Order: v1alpha1.OrderPrepare, Container: terms.Running}
		for range steps {
			if s.Step == v1alpha1.SourcePrepared {
				s.Order, s.TargetReady = v1alpha1.OrderFreeze, true
			}
			carryOut(&s, ForSource(s))
		}
		ended := ForSourceAtEnd(s)
		if ended.Do == Thaw {
			s.Container, s.Stage = terms.Running, terms.Freezing
		} else if s.Container == terms.Frozen && !sentOrToDie(s) {
			t.Errorf("after %d steps an agent that ends leaves the container frozen: %+v", steps, s)
		}
		s.Order, s.TargetReady = v1alpha1.OrderFreeze, true
		for range 12 {
			carryOut(&s, ForSource(s))
		}
		if s.Step != v1alpha1.SourceShipped || s.Container != terms.Frozen {
			t.Errorf("after %d steps and another agent: %+v, want it shipped", steps, s)
		}
	}
}

// TestSourceExpiresAtEveryStep: the container runs in the end and this is reported, unless its
// state was sent.
func TestSourceExpiresAtEveryStep(t *testing.T) {
	for steps := range 10 {
		s := Source{Exists: true, Order: v1alpha1.OrderPrepare, Container: terms.Running}
		for range steps {
			if s.Step == v1alpha1.SourcePrepared {
				s.Order, s.TargetReady = v1alpha1.OrderFreeze, true
			}
			carryOut(&s, ForSource(s))
		}
		if !s.Known {
			continue
		}
		s.Overdue, s.Order = true, v1alpha1.OrderFreeze
		sent := sentOrToDie(s)
		for range 10 {
			carryOut(&s, ForSource(s))
		}
		if sent && (s.Container != terms.Frozen || s.Step != v1alpha1.SourceShipped) || !sent && (s.Container != terms.Running || s.Step != v1alpha1.SourceFailed) {
			t.Errorf("overdue after %d steps: %+v", steps, s)
		}
		s.Order = v1alpha1.OrderThaw
		for range 10 {
			carryOut(&s, ForSource(s))
		}
		if s.Container != terms.Running || s.Step != v1alpha1.SourceThawed {
			t.Errorf("overdue after %d steps, and then ordered to thaw: %+v", steps, s)
		}
	}
}

func brokenEnd(s Source, d SourceDecision) string {
	switch {
	case d.Do == Kill && s.Exists && s.Fate != terms.Kill:
		return "a container is killed before the ledger says that it must die"
	case d.Do == NoteKill && s.Order != v1alpha1.OrderKill && !s.HandedOver:
		return "a container is to die without the order"
	case d.Do == Kill && !s.Exists && s.Container == terms.Running && s.Fate != terms.Kill:
		return "a container that runs is killed since its Migration is gone"
	case d.Do == Forget && s.Container == terms.Frozen && noted(s) && !s.Exists:
		return "a frozen container is forgotten"
	}
	return ""
}

func brokenReport(s Source, d SourceDecision) string {
	switch {
	case !s.Exists:
		return "a Migration that is gone is reported to"
	case d.Step == s.Step:
		return "a step is reported twice"
	case d.Step == v1alpha1.SourceShipped && s.Container != terms.Frozen:
		return "a container that runs is said to be shipped"
	case d.Step == v1alpha1.SourceKilled && s.Container != terms.Gone:
		return "a container is said to be dead that is not"
	case d.Step == v1alpha1.SourceThawed && s.Container == terms.Frozen && noted(s):
		return "a frozen container is said to continue"
	case d.Step == v1alpha1.SourceFailed && (d.Reason == "" || d.Message == ""):
		return "a failure has no reason"
	}
	return ""
}

func TestSourceDoesOneThingAtATime(t *testing.T) {
	everySource(func(s Source) {
		if s.Stage == terms.Removed || s.Stage == terms.Shipped { // they change what is done, not whether
			return
		}
		for _, s.Busy = range []Action{Prepare, Reach, Presend, Freeze, Dump, Ship, Kill, Thaw, Remove} {
			if d := ForSource(s); d.Do != Nothing && d.Do != Cancel {
				t.Fatalf("%s begins while %s is under way\nseen: %+v", d.Do, s.Busy, s)
			}
		}
	})
}

func TestSourceGoesAllTheWay(t *testing.T) {
	s := Source{Exists: true, Order: v1alpha1.OrderPrepare, Container: terms.Running}
	walk(t, &s, []Action{Prepare, Report, Nothing})
	s.Order, s.TargetReady = v1alpha1.OrderFreeze, true
	walk(t, &s, []Action{Reach, NoteFreeze, Report, Freeze, Dump, Report, Ship, Report, Nothing})
	s.Order = v1alpha1.OrderKill
	walk(t, &s, []Action{NoteKill, Kill, Report, Nothing})
	s.Order = v1alpha1.OrderClean
	walk(t, &s, []Action{Remove, Report, Forget, Nothing})
}

func TestSourceSendsMemoryBeforeTheFreezeOnce(t *testing.T) {
	s := Source{Exists: true, Order: v1alpha1.OrderPrepare, Container: terms.Running, Presends: true}
	walk(t, &s, []Action{Prepare, Report, Nothing})
	s.Order, s.TargetReady = v1alpha1.OrderFreeze, true
	walk(t, &s, []Action{Reach, Presend, NoteFreeze, Report, Freeze, Dump})
	for _, order := range []v1alpha1.MigrationOrder{v1alpha1.OrderThaw, v1alpha1.OrderClean, v1alpha1.OrderKill} {
		s := Source{Exists: true, Known: true, Order: order, Step: v1alpha1.SourcePrepared, Container: terms.Running, Busy: Presend}
		if d := ForSource(s); d.Do != Cancel {
			t.Errorf("on order %s it does %q while memory is sent, want that it is cancelled", order, d.Do)
		}
	}
	late := Source{Exists: true, Known: true, Order: v1alpha1.OrderFreeze, Step: v1alpha1.SourcePrepared, Container: terms.Running, Busy: Presend, Overdue: true}
	if d := ForSource(late); d.Do != Cancel {
		t.Errorf("after the deadline it does %q while memory is sent, want that it is cancelled", d.Do)
	}
	if d := ForSource(Source{Known: true, Container: terms.Running, Busy: Presend}); d.Do != Cancel {
		t.Errorf("without its Migration it does %q while memory is sent, want that it is cancelled", d.Do)
	}
}

func TestSourceComesBackFromEveryStep(t *testing.T) {
	for steps := range 10 {
		s := Source{Exists: true, Order: v1alpha1.OrderPrepare, Container: terms.Running}
		for range steps {
			if s.Step == v1alpha1.SourcePrepared {
				s.Order, s.TargetReady = v1alpha1.OrderFreeze, true
			}
			carryOut(&s, ForSource(s))
		}
		s.Order = v1alpha1.OrderThaw
		for range 10 {
			carryOut(&s, ForSource(s))
		}
		if s.Container != terms.Running || s.Step != v1alpha1.SourceThawed || s.Known && s.Stage != terms.Removed {
			t.Errorf("after %d steps and order Thaw: %+v, want it running with nothing left", steps, s)
		}
	}
}

// walk carries out decisions, which must be the wanted actions.
func walk(t *testing.T, s *Source, want []Action) {
	t.Helper()
	for i, action := range want {
		d := ForSource(*s)
		if d.Do != action {
			t.Fatalf("decision %d with order %s is %+v, want %s\nseen: %+v", i, s.Order, d, action, *s)
		}
		carryOut(s, d)
	}
}

// carryOut is a simple model of an agent.
func carryOut(s *Source, d SourceDecision) {
	switch d.Do {
	case Prepare:
		s.Known = true
	case Reach:
		s.Reached = true
	case Presend:
		s.Presends = false
	case NoteExpiry:
		s.Fate = terms.Thaw
	case NoteFreeze:
		s.Stage = terms.Freezing
	case Freeze:
		s.Container = terms.Frozen
	case Dump:
		s.Stage = terms.Dumped
	case Ship:
		s.Stage = terms.Shipped
	case NoteKill:
		s.Fate, s.Known = terms.Kill, true
	case Kill:
		s.Container = terms.Gone
	case Thaw:
		s.Container, s.Stage = terms.Running, terms.Idle
	case Remove:
		s.Stage = terms.Removed
	case Forget:
		*s = Source{Exists: s.Exists, Order: s.Order, Step: s.Step, Container: s.Container}
	case Report:
		s.Step = d.Step
	}
}

func TestSourceDecidesAsItIsTold(t *testing.T) {
	tests := []struct {
		name string
		seen Source
		want SourceDecision
	}{
		{"a container frozen by others is left as it is",
			Source{Exists: true, Order: v1alpha1.OrderThaw, Known: true, Stage: terms.Removed, Step: v1alpha1.SourcePrepared, Container: terms.Frozen},
			SourceDecision{Do: Report, Step: v1alpha1.SourceThawed}},
		{"the report tells that it was frozen here when the ledger was lost",
			Source{Exists: true, Order: v1alpha1.OrderThaw, Step: v1alpha1.SourceDumped, Container: terms.Frozen},
			SourceDecision{Do: Thaw}},
		{"a runtime that does not answer is waited for before the container is called thawed",
			Source{Exists: true, Order: v1alpha1.OrderThaw, Step: v1alpha1.SourceShipped, Known: true, Stage: terms.Shipped}, SourceDecision{}},
		{"nothing is shipped again that the target says it has",
			Source{Exists: true, Order: v1alpha1.OrderFreeze, Step: v1alpha1.SourceDumped, Known: true, Stage: terms.Dumped, TargetStaged: true, Container: terms.Frozen},
			SourceDecision{Do: Report, Step: v1alpha1.SourceShipped}},
		{"a container that ended by itself cannot be shipped",
			Source{Exists: true, Order: v1alpha1.OrderFreeze, Step: v1alpha1.SourceDumped, Known: true, Stage: terms.Dumped, Container: terms.Gone},
			fail(v1alpha1.MigrationReasonContainerGone, "the container ended before its move was complete")},
		{"a container that others resumed after its checkpoint was shipped cannot be moved",
			Source{Exists: true, Order: v1alpha1.OrderFreeze, Step: v1alpha1.SourceShipped, Known: true, Stage: terms.Shipped, Container: terms.Running},
			fail(v1alpha1.MigrationReasonThawed, "something else resumed the container after its state was dumped: the dump is outdated; do not resume containers that are being moved")},
		{"while the new pod takes its place it stays frozen",
			Source{Exists: true, Order: v1alpha1.OrderFreeze, HandedOver: true, Step: v1alpha1.SourceShipped, Known: true, Stage: terms.Shipped, Container: terms.Frozen},
			SourceDecision{}},
		{"an agent that slept through Kill kills on Clean once it was handed over",
			Source{Exists: true, Order: v1alpha1.OrderClean, HandedOver: true, Step: v1alpha1.SourceShipped, Known: true, Stage: terms.Shipped, Container: terms.Frozen},
			SourceDecision{Do: NoteKill}},
		{"a Migration that is gone and whose pod is wanted lets it continue",
			Source{Known: true, Stage: terms.Freezing, Container: terms.Frozen, Pod: PodWanted}, SourceDecision{Do: Thaw}},
		{"one that is gone and whose new pod exists holds",
			Source{Known: true, Stage: terms.Sent, Container: terms.Frozen, Pod: PodWanted, NewPod: true}, SourceDecision{}},
		{"one that is gone and whose new pod has the place kills",
			Source{Known: true, Stage: terms.Sent, Container: terms.Frozen, Pod: PodLeaving, NewPod: true}, SourceDecision{Do: Kill}},
		{"one that is gone while the API server says nothing of the pod holds",
			Source{Known: true, Stage: terms.Freezing, Container: terms.Frozen}, SourceDecision{}},
		{"one that is gone after Kill was noted kills what something else resumed",
			Source{Known: true, Stage: terms.Sent, Fate: terms.Kill, Container: terms.Running, Pod: PodGone}, SourceDecision{Do: Kill}},
		{"one that is gone after Kill was noted kills, wanted or not",
			Source{Known: true, Stage: terms.Freezing, Fate: terms.Kill, Container: terms.Frozen, Pod: PodWanted}, SourceDecision{Do: Kill}},
		{"a transfer ends when Thaw is ordered",
			Source{Exists: true, Order: v1alpha1.OrderThaw, Known: true, Stage: terms.Dumped, Busy: Ship}, SourceDecision{Do: Cancel}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := ForSource(tc.seen); got != tc.want {
				t.Errorf("decided %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestTargetDecidesAsItIsTold(t *testing.T) {
	at := func(order v1alpha1.MigrationOrder, change func(*Target)) Target {
		s := Target{Exists: true, Reserved: true, SourceReady: true, Order: order}
		change(&s)
		return s
	}
	tests := []struct {
		name string
		seen Target
		want TargetDecision
	}{
		{"it prepares once the source is ready", at(v1alpha1.OrderPrepare, func(*Target) {}), TargetDecision{Do: Prepare}},
		{"it waits for the source", at(v1alpha1.OrderPrepare, func(s *Target) { s.SourceReady = false }), TargetDecision{}},
		{"it says that it is prepared", at(v1alpha1.OrderPrepare, func(s *Target) { s.Known, s.Stage = true, terms.Expecting }), TargetDecision{Do: Report, Step: v1alpha1.TargetPrepared}},
		{"it says so again when it listens elsewhere", at(v1alpha1.OrderFreeze, func(s *Target) {
			s.Known, s.Stage, s.Step, s.Moved = true, terms.Expecting, v1alpha1.TargetPrepared, true
		}),
			TargetDecision{Do: Report, Step: v1alpha1.TargetPrepared}},
		{"it says that it has all", at(v1alpha1.OrderFreeze, func(s *Target) { s.Known, s.Stage, s.Step = true, terms.Staged, v1alpha1.TargetPrepared }),
			TargetDecision{Do: Report, Step: v1alpha1.TargetStaged}},
		{"it waits after that", at(v1alpha1.OrderFreeze, func(s *Target) { s.Known, s.Stage, s.Step = true, terms.Staged, v1alpha1.TargetStaged }), TargetDecision{}},
		{"it keeps the image while the source is killed", at(v1alpha1.OrderKill, func(s *Target) { s.Known, s.Stage, s.Step = true, terms.Staged, v1alpha1.TargetStaged }), TargetDecision{}},
		{"it removes the image on Clean", at(v1alpha1.OrderClean, func(s *Target) { s.Known, s.Stage, s.Step = true, terms.Staged, v1alpha1.TargetStaged }), TargetDecision{Do: Remove}},
		{"it stops taking on Thaw", at(v1alpha1.OrderThaw, func(s *Target) { s.Known, s.Stage, s.Busy = true, terms.Expecting, Receive }), TargetDecision{Do: Cancel}},
		{"it removes what it has when the room is given away", Target{Exists: true, Order: v1alpha1.OrderFreeze, Known: true, Stage: terms.Expecting}, TargetDecision{Do: Remove}},
		{"it removes what it has when the Migration is gone", Target{Known: true, Stage: terms.Staged}, TargetDecision{Do: Remove}},
		{"it forgets at the end", Target{Known: true}, TargetDecision{Do: Forget}},
		{"it does not prepare again after a failure", at(v1alpha1.OrderPrepare, func(s *Target) { s.Step = v1alpha1.TargetFailed }), TargetDecision{}},
		{"it says that it has nothing when it never had", at(v1alpha1.OrderThaw, func(*Target) {}), TargetDecision{Do: Report, Step: v1alpha1.TargetCleaned}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := ForTarget(tc.seen); got != tc.want {
				t.Errorf("decided %+v, want %+v", got, tc.want)
			}
		})
	}
	lost := ForTarget(at(v1alpha1.OrderFreeze, func(s *Target) { s.Known, s.Stage, s.Lost = true, terms.Staged, true }))
	if lost.Step != v1alpha1.TargetFailed || lost.Reason != v1alpha1.MigrationReasonImageLost {
		t.Errorf("an image that has gone gives %+v, want a failure", lost)
	}
}

// TestTargetEnds holds for every combination: once the migration is over, a few decisions later
// nothing is left and nothing more is done.
func TestTargetEnds(t *testing.T) {
	stages := []terms.Stage{terms.Idle, terms.Expecting, terms.Staged, terms.Removed}
	for bits := range 1 << 8 {
		bit := func(i int) bool { return bits>>i&1 == 1 }
		for _, step := range []v1alpha1.TargetStep{"", v1alpha1.TargetPrepared, v1alpha1.TargetStaged, v1alpha1.TargetCleaned, v1alpha1.TargetFailed} {
			s := Target{Exists: bit(0), Ended: bit(1), Reserved: bit(2), SourceReady: bit(3), Known: bit(4), Lost: bit(5),
				Order: v1alpha1.OrderClean, Step: step}
			if s.Known {
				s.Stage = stages[bits>>6]
			}
			seen := s
			for range 4 {
				switch d := ForTarget(s); d.Do {
				case Remove:
					s.Stage = terms.Removed
				case Report:
					s.Step = d.Step
				case Forget:
					s.Known = false
				}
			}
			if d := ForTarget(s); d.Do != Nothing || s.Known {
				t.Fatalf("seen %+v: four decisions later %+v is left to do", seen, d)
			}
		}
	}
}
