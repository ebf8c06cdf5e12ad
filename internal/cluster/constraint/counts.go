package constraint

// owner tells whose a part of a tracker's state is. Trackers that were cloned from
// each other share parts until one of them changes such a part, which it first makes
// its own by copying it.
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
	pods  []int32 // by domain; shorter if nobody was ever beyond
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

// spread counts the pods of one spread constraint by domain, over the eligible hosts
// alone: those that have all topology keys and that the inclusion policies take in.
type spread struct {
	owner    *owner
	eligible []bool  // by host id
	hosts    []int32 // eligible hosts by domain: a domain exists while it has one
	pods     []int32 // by domain
	domains  int     // that exist
	with     []int32 // existing domains by how many pods they have
	least    int     // the fewest pods in an existing domain; 0 if there is none
}

// in returns the pods in a domain.
func (s *spread) in(domain int32) int {
	if int(domain) >= len(s.pods) {
		return 0
	}
	return int(s.pods[domain])
}

// join takes in an eligible host. No pod is on it yet.
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

// leave takes out an eligible host. No pod is on it any more.
func (s *spread) leave(domain int32) {
	s.hosts[domain]--
	if s.hosts[domain] > 0 {
		return
	}
	s.domains--
	s.with[0]-- // pods are on hosts: the last one left empty
	if s.domains == 0 {
		s.least = 0
		return
	}
	for s.with[s.least] == 0 {
		s.least++
	}
}

// add counts one pod more (n = 1) or less (n = -1) on an eligible host.
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
	case s.with[s.least] == 0: // then it was the one left behind
		s.least = int(after)
	}
}

// grow makes the slice at least n long.
func grow(s []int32, n int) []int32 {
	for len(s) < n {
		s = append(s, 0)
	}
	return s
}
