// Package connection decides what the dashboard says about its connection to the API server: whether its figures are
// current, since when they are not, why, and what to do. It is a pure function of what was observed and the time.
package connection

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The bounds of the states. Each state is found within [Found] of what causes it, except a watch that is open and
// delivers nothing, which is found within Silent.
const (
	// Every is the time between two probes of the API server.
	Every = 2 * time.Second
	// Patience is how long the API server may take to answer a probe.
	Patience = 4 * time.Second
	// Unanswered is the time without an answer after which the API server is unreachable.
	Unanswered = 6 * time.Second
	// Broken is the time after which a kind that is neither listed nor watched is stale. A watch that ends as usual is
	// open again within milliseconds.
	Broken = 6 * time.Second
	// Silent is the time without an event or a bookmark after which a watch is stale, if the API server has sent it a
	// bookmark before. It sends one a minute.
	Silent = 150 * time.Second
	// Found is the time within which the page says that its figures are not current.
	Found = 10 * time.Second
)

// Observation is what is known about the connection at a time.
type Observation struct {
	Now time.Time
	// Server is the address of the API server.
	Server string
	// Answered is when the API server last answered a probe; the zero time for never.
	Answered time.Time
	// Failure is why the last probe failed; FailureNone if it did not, or if there was none.
	Failure Failure
	Kinds   []Kind
}

// Kind is what is known about the objects of a kind.
type Kind struct {
	// Resource is its name for `kubectl auth can-i`, such as nodefleets.supercargo.dev. Name is the name for people, in
	// the plural.
	Resource, Name string
	// Gives is what the page lacks without it, as the object of a sentence; empty for a Required kind, without which there is no
	// page.
	Gives    string
	Required bool
	// Read reports whether its objects have been read once.
	Read bool
	// Fresh is when the API server last delivered something about it: a list, an event, a bookmark or a new watch.
	Fresh time.Time
	// Broken is since when it has not been watched; the zero time if it is.
	Broken time.Time
	// Bookmarked reports whether its watch has delivered a bookmark.
	Bookmarked bool
	// List and Watch are why the last request of that verb failed.
	List, Watch Failure
}

// State is what the page says about its figures.
type State string

// The states.
const (
	// Connecting: there are no figures yet, and nothing has failed.
	Connecting State = "connecting"
	// Live: the figures are current, except those that Notes name.
	Live State = "live"
	// Unreachable: the API server does not answer.
	Unreachable State = "unreachable"
	// Stale: the API server answers, but does not deliver what has changed.
	Stale State = "stale"
	// Denied: the API server refuses what the page cannot do without.
	Denied State = "denied"
)

// Since stands in texts for the time in [Status.Since], which who shows them writes in their own time zone.
const Since = "{since}"

// Status is what the page says. Texts are sentences in plain words.
type Status struct {
	State State `json:"state"`
	// Since is the time of the figures in a state other than Live, in milliseconds since 1970; 0 if there are none.
	Since int64 `json:"since,omitempty"`
	// Label is the state in a few words. Line says what is the matter and what to do; empty if there is nothing.
	Label string `json:"label"`
	Line  string `json:"line,omitempty"`
	// Notes are what the page lacks although its figures are current, such as for a missing permission.
	Notes []string `json:"notes,omitempty"`
	// Unread are the kinds about whose objects nothing is known, by name: not even that there are none.
	Unread []string `json:"-"`
	// NoDecisions is for a list of decisions and Events that is empty, and NoDecisionsThen is the same of the past.
	NoDecisions     string `json:"noDecisions"`
	NoDecisionsThen string `json:"noDecisionsThen"`
}

// At returns a text of the status with the time as a clock shows it.
func (s *Status) At(text string, clock func(time.Time) string) string {
	return strings.ReplaceAll(text, Since, clock(time.UnixMilli(s.Since)))
}

// Of decides what to say. Of several faults it says the one that explains the others: an API server that does not
// answer, then a refusal, then what is not delivered.
func Of(o *Observation) Status {
	s := Status{Notes: notes(o), Unread: unread(o)}
	s.NoDecisions, s.NoDecisionsThen = noDecisions(o)
	figures, read := figuresOf(o)
	switch {
	case unanswered(o):
		s.unreachable(o, figures, read)
	case refusedAll(o) != nil:
		s.denied(o, refusedAll(o), figures, read)
	case !read:
		s.reading(o)
	case o.Failure.Kind == NotReady, len(staleKinds(o)) > 0:
		s.stale(o, figures)
	default:
		s.State, s.Label = Live, "live"
		if len(s.Notes) > 0 {
			s.Label = "live, incomplete"
		}
	}
	return s
}

// figuresOf returns the time until which all required kinds are known to be current, and whether all have been read.
func figuresOf(o *Observation) (at time.Time, read bool) {
	read = true
	for i := range o.Kinds {
		k := &o.Kinds[i]
		if !k.Required {
			continue
		}
		read = read && k.Read
		if at.IsZero() || k.Fresh.Before(at) {
			at = k.Fresh
		}
	}
	// An open watch with nothing to deliver is current as long as the API server answers.
	if o.Answered.After(at) && !slices.ContainsFunc(o.Kinds, func(k Kind) bool { return k.Required && !k.Broken.IsZero() && k.Broken.Before(o.Answered) }) {
		at = o.Answered
	}
	return at, read
}

// unanswered reports whether the API server does not answer. One that has never answered is given no time: most likely
// its address is wrong.
func unanswered(o *Observation) bool {
	if o.Failure.Kind == FailureNone || o.Failure.Kind == NotReady {
		return false
	}
	return o.Answered.IsZero() || o.Now.Sub(o.Answered) > Unanswered
}

// refusedAll returns a required kind that the API server refuses; nil if there is none.
func refusedAll(o *Observation) *Kind {
	for i := range o.Kinds {
		if k := &o.Kinds[i]; k.Required && k.refused() != nil {
			return k
		}
	}
	return nil
}

// refused returns the refusal of a kind; nil if there is none. While its list is allowed, it is that of its watch.
func (k *Kind) refused() *Failure {
	for _, f := range []*Failure{&k.List, &k.Watch} {
		if f.Kind == Forbidden || f.Kind == Unauthorized {
			return f
		}
	}
	return nil
}

// staleKinds returns the kinds that have been read, and about which the API server no longer delivers what changes.
func staleKinds(o *Observation) (stale []*Kind) {
	for i := range o.Kinds {
		k := &o.Kinds[i]
		switch {
		case !k.Read || k.refused() != nil || k.absent():
		case !k.Broken.IsZero() && o.Now.Sub(k.Broken) > Broken, k.Bookmarked && o.Now.Sub(k.Fresh) > Silent:
			stale = append(stale, k)
		}
	}
	return stale
}

// absent reports whether the kind is not installed in the cluster: there are no objects, and that is known.
func (k *Kind) absent() bool { return k.List.Kind == NotInstalled || k.Watch.Kind == NotInstalled }

func unread(o *Observation) (names []string) {
	for i := range o.Kinds {
		if k := &o.Kinds[i]; !k.Read && !k.absent() && !slices.Contains(names, k.Name) {
			names = append(names, k.Name)
		}
	}
	return names
}

// notes returns what the page lacks for optional kinds: those that may not be read, and those that could not be read.
func notes(o *Observation) (all []string) {
	for i := range o.Kinds {
		k := &o.Kinds[i]
		text := ""
		switch {
		case k.Required || k.absent():
		case k.refused() != nil:
			text = k.refusal() + ": " + k.lacks()
		case !k.Read && k.List.Kind != FailureNone && !k.Broken.IsZero() && o.Now.Sub(k.Broken) > Broken && o.Failure.Kind == FailureNone:
			text = fmt.Sprintf("%s could not be read (%s): %s", k.Name, k.List.Words, k.lacks())
		}
		if text != "" && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// lacks says what the page lacks without the kind, or shows without being told of changes.
func (k *Kind) lacks() string {
	if k.Read {
		return "the page has an earlier state of " + k.Gives
	}
	return "the page lacks " + k.Gives
}

// refusal names the verb and the resource that the user may not use.
func (k *Kind) refusal() string {
	verb := "list"
	if k.List.Kind == FailureNone {
		verb = "watch"
	}
	if k.refused().Kind == Unauthorized {
		return fmt.Sprintf("the API server no longer accepts the credentials to %s %s", verb, k.Resource)
	}
	return fmt.Sprintf("permission missing: you may not %s %s", verb, k.Resource)
}
