package connection

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/internal/text/plural"
)

// byItself ends what the page says while it waits.
const byItself = "The page continues by itself once it answers."

func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func (s *Status) unreachable(o *Observation, figures time.Time, read bool) {
	s.State, s.Label = Unreachable, "unreachable"
	why := fmt.Sprintf("The API server at %s %s.", o.Server, o.Failure.Words)
	if !read {
		s.Line = fmt.Sprintf("%s Nothing is known about the cluster. %s %s", why, o.Failure.advice(), byItself)
		return
	}
	s.Since, s.Label = milliseconds(figures), "unreachable since "+Since
	s.Line = fmt.Sprintf("%s The figures are from %s. %s %s", why, Since, o.Failure.advice(), byItself)
}

// advice is what to do about an API server that does not answer.
func (f *Failure) advice() string {
	switch f.Kind {
	case Untrusted:
		return "Check certificate-authority-data of the cluster in the kubeconfig."
	case NoCredentials:
		return "Check the user of the kubeconfig, and log in again."
	}
	return "Check that the cluster runs, that your network reaches it, and that --kubeconfig and --context select it."
}

func (s *Status) denied(o *Observation, k *Kind, figures time.Time, read bool) {
	s.State, s.Label = Denied, "permission missing"
	what := "Nothing is known about the cluster."
	if read {
		s.Since, s.Label = milliseconds(figures), "permission missing since "+Since
		what = fmt.Sprintf("The figures are from %s.", Since)
	}
	advice := fmt.Sprintf("Ask an administrator of the cluster for permission to list and watch %s.", k.Resource)
	if k.refused().Kind == Unauthorized {
		advice = "Log in again, and restart the dashboard if it does not continue."
	}
	s.Line = fmt.Sprintf("%s. %s %s", sentence(k.refusal()), what, advice)
}

// deciding are the names of the kinds that decisions and Events come from.
var deciding = []string{"NodeFleets", "ReplicaPolicies", "WorkerPools", "Events"}

// noDecisions says that there are no decisions and no Events, now and in the past, if that is known: it is not while one
// of their kinds is not read, or no longer.
func noDecisions(o *Observation) (now, then string) {
	var never, before []string
	for i := range o.Kinds {
		k := &o.Kinds[i]
		switch {
		case k.absent() || !slices.Contains(deciding, k.Name):
		case !k.Read && !slices.Contains(never, k.Name):
			never = append(never, k.Name)
		case k.Read && k.refused() != nil && !slices.Contains(before, k.Name):
			before = append(before, k.Name)
		}
	}
	switch {
	case len(never) > 0:
		now = fmt.Sprintf("Not known: %s were not read.", plural.List(never))
	case len(before) > 0:
		now = fmt.Sprintf("Not known: %s may no longer be read.", plural.List(before))
	default:
		return "There are none in the cluster.", "There were none in the cluster at " + Since + "."
	}
	return now, now
}

// reading is the state of an API server that answers, before all required kinds have been read.
func (s *Status) reading(o *Observation) {
	s.State, s.Label = Connecting, "connecting"
	var waits []string
	failed := FailureNone
	words := ""
	for i := range o.Kinds {
		k := &o.Kinds[i]
		if !k.Required || k.Read {
			continue
		}
		waits = append(waits, k.Name)
		if f := k.List; f.Kind != FailureNone {
			failed, words = f.Kind, f.Words
		}
	}
	switch {
	case o.Failure.Kind == NotReady:
		s.Line = fmt.Sprintf("The API server at %s %s. Nothing is known about the cluster. %s", o.Server, o.Failure.Words, byItself)
	case failed != FailureNone:
		s.Line = fmt.Sprintf("The API server at %s answers, but %s could not be read: %s. Nothing is known about the cluster. The page tries again.", o.Server, plural.List(waits), words)
	case o.Answered.IsZero():
		s.Line = fmt.Sprintf("Connecting to the API server at %s.", o.Server)
	default:
		s.Line = fmt.Sprintf("Reading %s.", plural.List(waits))
	}
}

// stale is the state of an API server that answers and does not deliver what has changed.
func (s *Status) stale(o *Observation, figures time.Time) {
	s.State = Stale
	stale := staleKinds(o)
	if len(stale) == 0 { // the API server is not ready
		s.Since, s.Label = milliseconds(figures), "stale since "+Since
		s.Line = fmt.Sprintf("The API server at %s %s. The figures may be from %s. %s", o.Server, o.Failure.Words, Since, byItself)
		return
	}
	since := stale[0].Fresh
	var names []string
	words := ""
	for _, k := range stale {
		if k.Fresh.Before(since) {
			since = k.Fresh
		}
		if len(names) == 0 || names[len(names)-1] != k.Name {
			names = append(names, k.Name)
		}
		for _, f := range []*Failure{&k.Watch, &k.List} {
			if f.Kind != FailureNone {
				words = " (" + f.Words + ")"
			}
		}
	}
	s.Since, s.Label = milliseconds(since), "stale since "+Since
	s.Line = fmt.Sprintf("The API server at %s answers, but has not said what has become of %s%s. They are shown as of %s. The page tries again by itself.", o.Server, plural.List(names), words, Since)
}

// Ended returns what to say when the dashboard no longer reads a cluster, whose last answer was at a time; the zero time
// for never.
func Ended(last time.Time) Status {
	s := Status{State: Stale, Since: milliseconds(last), Label: "not updated", Line: "The dashboard no longer reads this cluster."}
	if s.Since != 0 {
		s.Label = "stale since " + Since
		s.Line += " The figures are from " + Since + "."
	}
	return s
}

// sentence begins a text with a capital letter.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
