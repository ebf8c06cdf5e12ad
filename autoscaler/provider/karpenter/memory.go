package karpenter

import (
	"cmp"
	"fmt"
	"maps"
	"sync"
	"time"
)

// memory is what is remembered of the NodeClaims of a fleet. Karpenter deletes a NodeClaim when the cloud has no such
// machine, when the NodeClass is not ready, or when the machine does not launch or register in time. Only the absence of
// the NodeClaim shows that. Such a NodeClaim is lost: it is reported as a failed machine until the fleet releases it, so
// that the fleet learns as from any other machine that does not come. If the memory is lost, so is that lesson, and
// nothing else.
type memory struct {
	mu sync.Mutex
	// clock counts the changes of awaited by orders, so that an older list of NodeClaims does not prove absence.
	clock int
	// awaited are NodeClaims whose nodes have not registered, by name.
	awaited map[string]expectation
	// lost are awaited ones that somebody else has deleted.
	lost map[string]loss
	// released are those that the fleet has deleted and that may still exist.
	released map[string]bool
	// neglected are those that Karpenter left untouched for long, with the time when it began to process them; zero until
	// then.
	neglected map[string]time.Time
}

// expectation is a NodeClaim whose node has not registered.
type expectation struct {
	flavor  string
	ordered time.Time
	// waits is what it waited for.
	waits string
	added int // the clock of the order
}

// loss is a NodeClaim that somebody else has deleted before its node registered.
type loss struct {
	flavor  string
	ordered time.Time
	why     string
	at      time.Time
	// explained reports that why is final.
	explained bool
}

// lossTime is how long a lost NodeClaim is remembered if the fleet does not release it, because it may not act.
const lossTime = 10 * time.Minute

func newMemory() *memory {
	return &memory{awaited: map[string]expectation{}, lost: map[string]loss{}, released: map[string]bool{}, neglected: map[string]time.Time{}}
}

// begin returns the clock, before NodeClaims are listed.
func (m *memory) begin() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clock
}

// expect records a NodeClaim that was just created.
func (m *memory) expect(name, flavor string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock++
	m.awaited[name] = expectation{flavor: flavor, ordered: now, added: m.clock}
}

// observe records all NodeClaims of the fleet, as they were at some time since begin. now is
// the current time.
func (m *memory) observe(all []claim, began int, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	there := make(map[string]bool, len(all))
	for i := range all {
		c := &all[i]
		there[c.Name] = true
		m.notice(c, now)
		switch e, expected := m.awaited[c.Name]; {
		case c.is(conditionRegistered):
			delete(m.awaited, c.Name)
			delete(m.lost, c.Name)
		case m.released[c.Name]: // listed before it was deleted, or leaving
		case c.DeletionTimestamp == nil:
			m.awaited[c.Name] = expectation{flavor: c.flavor(), ordered: c.CreationTimestamp.Time, waits: c.waits(), added: e.added}
		case expected:
			m.lose(c.Name, e, now)
		}
	}
	for name, e := range m.awaited {
		if !there[name] && e.added <= began {
			m.lose(name, e, now)
		}
	}
	maps.DeleteFunc(m.lost, func(_ string, l loss) bool { return now.Sub(l.at) >= lossTime })
	maps.DeleteFunc(m.released, func(name string, _ bool) bool { return !there[name] })
	maps.DeleteFunc(m.neglected, func(name string, _ time.Time) bool { return !there[name] })
}

// notice records whether Karpenter processes a NodeClaim. The caller must hold mu.
func (m *memory) notice(c *claim, now time.Time) {
	switch at, is := m.neglected[c.Name]; {
	case c.untouched() && now.Sub(c.CreationTimestamp.Time) >= uptakePatience:
		m.neglected[c.Name] = time.Time{}
	case is && at.IsZero():
		m.neglected[c.Name] = now
	}
}

// takenUp returns when Karpenter began to process a NodeClaim, if that was late.
func (m *memory) takenUp(name string) (at time.Time, late bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at = m.neglected[name]
	return at, !at.IsZero()
}

// lose records that an awaited NodeClaim was deleted. The caller must hold mu.
func (m *memory) lose(name string, e expectation, now time.Time) {
	delete(m.awaited, name)
	m.lost[name] = loss{flavor: e.flavor, ordered: e.ordered, at: now, why: deleted(name, cmp.Or(e.waits, "Karpenter does this if the cloud has no such machine"))}
}

// deleted describes a lost NodeClaim.
func deleted(name, why string) string {
	return fmt.Sprintf("NodeClaim %s was deleted before its node registered: %s", name, why)
}

// forget stops awaiting a NodeClaim, whose absence then says nothing.
func (m *memory) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.awaited, name)
}

// losses returns a copy of the lost NodeClaims.
func (m *memory) losses() map[string]loss {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.lost)
}

// explain sets why a NodeClaim is lost; an empty text keeps what is known.
func (m *memory) explain(name, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l, is := m.lost[name]; is {
		l.why, l.explained = cmp.Or(why, l.why), true
		m.lost[name] = l
	}
}

// release records that the fleet is about to delete a NodeClaim. It reports whether that is lost and need not be deleted.
func (m *memory) release(name string) (lost bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, lost = m.lost[name]
	delete(m.lost, name)
	delete(m.awaited, name)
	m.released[name] = true
	return lost
}

// keep takes a release back, because the NodeClaim could not be deleted.
func (m *memory) keep(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.released, name)
}

// counted returns the names of the machines of a flavor that the fleet counts: the NodeClaims that are not being deleted,
// and those that are lost or are becoming so. all are the existing NodeClaims.
func (m *memory) counted(all []claim, flavor string) map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, there := map[string]bool{}, make(map[string]bool, len(all))
	for i := range all {
		c := &all[i]
		there[c.Name] = true
		_, expected := m.awaited[c.Name]
		if c.flavor() == flavor && (c.DeletionTimestamp == nil || expected) {
			found[c.Name] = true
		}
	}
	for name, e := range m.awaited {
		if e.flavor == flavor && !there[name] {
			found[name] = true
		}
	}
	for name, l := range m.lost {
		if l.flavor == flavor {
			found[name] = true
		}
	}
	return found
}
