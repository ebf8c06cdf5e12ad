package ledger

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// Grace is for how long a leader may go on after somebody has taken its Lease away: it looks
// at the Lease every 2 s, and gives up when it could not renew it for 10 s. These are the
// defaults of Kubernetes' leader election; the rest is for a machine that is busy.
const Grace = 15 * time.Second

// Meddling is when the test deleted the Lease of a program, or gave it to somebody else.
type Meddling struct {
	Program string
	At      time.Time
}

// takeover is that a replica has got the Lease of its program, or given it back: nobody has it
// then.
type takeover struct {
	by       Actor
	revision int64
	at       time.Time
}

// Leaders returns what a replica wrote after another one of its program had become leader, or
// after it had given the Lease back itself. leases are the names of the Leases, by program.
//
// A leader that has not renewed its Lease may write as long as nobody has taken it. After
// somebody meddled, the old leader has [Grace].
func Leaders(writes []Write, leases map[string]string, meddled []Meddling) (broken []string) {
	for program, lease := range leases {
		reigns := reignsOf(writes, program, lease)
		for i := range writes {
			w := &writes[i]
			if w.Actor.Program() != program || w.Resource == "leases" || w.Resource == "events" || w.Resource == "tokenreviews" || w.Resource == "subjectaccessreviews" {
				continue
			}
			if excused(w, meddled) {
				continue
			}
			if now, is := leaderAt(reigns, w); is && now.by != w.Actor {
				by := "nobody"
				if now.by != "" {
					by = string(now.by)
				}
				broken = append(broken, fmt.Sprintf("two leaders: %s wrote (%s %s/%s %s, asked %s), though the Lease %s was that of %s since %s",
					w.Actor, w.Verb, w.Resource, w.Subresource, w.Key(), clock(w.Asked), lease, by, clock(now.at)))
			}
		}
	}
	slices.Sort(broken)
	return broken
}

// reignsOf returns who had the Lease of a program, in the order of time.
func reignsOf(writes []Write, program, name string) (all []takeover) {
	for i := range writes {
		w := &writes[i]
		if w.Resource != "leases" || w.Name != name || w.Actor.Program() != program {
			continue
		}
		var lease coordinationv1.Lease
		if w.decode(&lease) != nil {
			continue
		}
		t := takeover{revision: w.Revision, at: w.Answered}
		if lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
			t.by = w.Actor
		}
		if len(all) == 0 || all[len(all)-1].by != t.by {
			all = append(all, t)
		}
	}
	return all
}

// leaderAt returns the last takeover that was over when a write was asked for or, where both
// have a revision, that came before it.
func leaderAt(reigns []takeover, w *Write) (last takeover, is bool) {
	for _, t := range reigns {
		after := t.at.Before(w.Asked)
		if w.Revision > 0 && t.revision > 0 {
			after = t.revision < w.Revision
		}
		if !after {
			break
		}
		last, is = t, true
	}
	return last, is
}

// excused reports whether the Lease of who wrote was meddled with just before.
func excused(w *Write, meddled []Meddling) bool {
	return slices.ContainsFunc(meddled, func(m Meddling) bool {
		return m.Program == w.Actor.Program() && !w.Asked.Before(m.At) && w.Asked.Sub(m.At) <= Grace
	})
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }
