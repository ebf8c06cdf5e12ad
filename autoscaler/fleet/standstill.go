package fleet

import "time"

// standstill is a time in which a flavor has had fewer machines than it is to have, and
// none was made. Machines that come one after the other are waited for, however slowly:
// to want fewer of them while they are being made may take away one with pods on it.
type standstill struct {
	since time.Time
	// made is how many machines there were at the last look, and lacks how many were
	// lacking at least.
	made, lacks int
}

// goesOn returns the standstill as it is now: the same, or one that begins now if there is
// none yet or a machine has been made.
func (s *standstill) goesOn(now time.Time, made, lacks int) *standstill {
	if s == nil || made > s.made {
		return &standstill{since: now, made: made, lacks: lacks}
	}
	s.made = made                 // fewer, if one has gone: its successor is one that was made
	s.lacks = min(s.lacks, lacks) // what is ordered meanwhile has its own time
	return s
}
