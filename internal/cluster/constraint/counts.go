package constraint

// owner identifies the tracker that owns a part of the state. Cloned trackers share parts. A tracker copies a part that
// it does not own before it changes it.
type owner struct{ _ byte } // not empty: the addresses must differ

// nowhere is the domain of a host without the topology key.
const nowhere = -1

// column holds the domain of each host for one topology key, by host id.
type column struct {
	owner  *owner
	domain []int32
}

// tally counts pods by domain of one topology key.
type tally struct {
	owner *owner
	pods  []int32 // by domain; may be shorter than the number of domains
	total int     // pods on hosts that have the key
}

func (t *tally) in(domain int32) int32 {
	if domain < 0 || int(domain) >= len(t.pods) {
		return 0
	}
	return t.pods[domain]
}

func (t *tally) add(domain int32, n int32) {
	if domain < 0 {
		return
	}
	t.pods = grow(t.pods, int(domain)+1)
	t.pods[domain] += n
	t.total += int(n)
}

// spread counts the pods of one spread constraint by domain. It counts only on eligible hosts: those that have all
// topology keys and that the inclusion policies include.
type spread struct {
	owner    *owner
	eligible []bool  // by host id
	hosts    []int32 // eligible hosts by domain: a domain exists while it has one
	pods     []int32 // by domain
	domains  int     // number of existing domains
	with     []int32 // number of existing domains by their number of pods
	least    int     // the fewest pods in an existing domain; 0 if there is none
}

// in returns the pods in a domain.
func (s *spread) in(domain int32) int {
	if int(domain) >= len(s.pods) {
		return 0
	}
	return int(s.pods[domain])
}

// join adds an eligible host, which has no pods yet.
func (s *spread) join(domain int32) {
	s.hosts, s.pods = grow(s.hosts, int(domain)+1), grow(s.pods, int(domain)+1)
	s.hosts[domain]++
	if s.hosts[domain] > 1 {
		return
	}
	s.domains++
	s.with = grow(s.with, 1)
	s.with[0]++
	s.least = 0
}

// leave removes an eligible host, which has no pods left.
func (s *spread) leave(domain int32) {
	s.hosts[domain]--
	if s.hosts[domain] > 0 {
		return
	}
	s.domains--
	s.with[0]-- // pods are on hosts, so a domain without hosts has no pods
	if s.domains == 0 {
		s.least = 0
		return
	}
	for s.with[s.least] == 0 {
		s.least++
	}
}

// add adds (n = 1) or removes (n = -1) one pod on an eligible host.
func (s *spread) add(domain int32, n int32) {
	before := s.pods[domain]
	after := before + n
	s.pods[domain] = after
	s.with = grow(s.with, int(after)+1)
	s.with[before]--
	s.with[after]++
	switch {
	case int(after) < s.least:
		s.least = int(after)
	case s.with[s.least] == 0: // then the pod was in the only domain with the fewest pods
		s.least = int(after)
	}
}

// grow extends the slice to a length of at least n.
func grow(s []int32, n int) []int32 {
	for len(s) < n {
		s = append(s, 0)
	}
	return s
}
