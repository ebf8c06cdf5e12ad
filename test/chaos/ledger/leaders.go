package ledger

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// Grace is how long a leader may continue after its Lease was deleted or given to another holder. It
// reads the Lease every 2 s, and stops after 10 s without a renewal. These are the defaults of
// Kubernetes' leader election. The remaining time tolerates a busy machine.
const Grace = 15 * time.Second

// Meddling is the time at which the test deleted the Lease of a program or changed its holder.
type Meddling struct {
	Program string
	At      time.Time
}

// takeover is a change of the holder of a Lease. by is empty if the holder released it.
type takeover struct {
	by       Actor
	revision int64
	at       time.Time
}

// Leaders returns the writes of a replica after another replica of its program had become leader, or
// after it had itself released the Lease. Leases, Events and access reviews are not checked. leases
// maps programs to the names of their Leases.
//
// A leader that has not renewed its Lease may write until another replica acquires it. After
// meddling, the old leader may write for [Grace].
func Leaders(writes []Write, leases map[string]string, interfered []Meddling) (broken []string) {
	for program, lease := range leases {
		reigns := reignsOf(writes, program, lease)
		for i := range writes {
			w := &writes[i]
			if w.Actor.Program() != program || w.Resource == "leases" || w.Resource == "events" || w.Resource == "tokenreviews" || w.Resource == "subjectaccessreviews" {
				continue
			}
			if excused(w, interfered) {
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

// reignsOf returns the changes of the holder of a program's Lease in the order of time.
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

// leaderAt returns the last takeover before a write: by revision if both have one, else by the time
// at which the takeover was answered and the write was requested.
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

// excused reports whether the test struck the writer's Lease at most [Grace] before the write.
func excused(w *Write, interfered []Meddling) bool {
	return slices.ContainsFunc(interfered, func(m Meddling) bool {
		return m.Program == w.Actor.Program() && !w.Asked.Before(m.At) && w.Asked.Sub(m.At) <= Grace
	})
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }
