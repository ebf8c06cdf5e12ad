package connection

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return noon.Add(d) }

// healthy is the observation at a time, at which all is well.
func healthy(now time.Time, change ...func(*Observation)) *Observation {
	o := &Observation{Now: now, Server: "https://api.example:6443", Answered: now.Add(-time.Second), Kinds: []Kind{
		{Resource: "nodes", Name: "nodes", Gives: "nodes", Required: true, Read: true, Fresh: now.Add(-time.Second)},
		{Resource: "pods", Name: "pods", Gives: "pods", Required: true, Read: true, Fresh: now.Add(-time.Minute)},
		{Resource: "nodefleets.supercargo.dev", Name: "NodeFleets", Gives: "NodeFleets and their decisions", Read: true, Fresh: now.Add(-time.Minute)},
	}}
	for _, c := range change {
		c(o)
	}
	return o
}

const (
	nodes = iota
	pods
	fleets
)

func kind(i int, change func(*Kind)) func(*Observation) {
	return func(o *Observation) { change(&o.Kinds[i]) }
}

func unreadKinds(o *Observation) {
	for i := range o.Kinds {
		o.Kinds[i].Read, o.Kinds[i].Fresh, o.Kinds[i].Broken = false, time.Time{}, noon
	}
}

func fails(with FailureKind, lastAnswer time.Duration) func(*Observation) {
	return func(o *Observation) {
		o.Failure = Failure{with, "refuses connections"}
		o.Answered = o.Now.Add(-lastAnswer)
	}
}

func never(o *Observation) { o.Answered = time.Time{} }

func TestThePageSaysWhatTheConnectionIs(t *testing.T) {
	now := after(time.Hour)
	forbidden := func(k *Kind) { k.List, k.Broken = Failure{Forbidden, "refuses it"}, noon }
	for _, tc := range []struct {
		name   string
		seen   *Observation
		state  State
		label  string
		since  time.Time
		line   string // a part of it
		notes  int
		unread string
	}{
		{name: "all is delivered", seen: healthy(now), state: Live, label: "live"},
		{name: "nothing has been asked", seen: healthy(now, unreadKinds, never), state: Connecting, label: "connecting", line: "Connecting to the API server at https://api.example:6443.", unread: "nodes pods NodeFleets"},
		{name: "it answers, and is being read", seen: healthy(now, unreadKinds), state: Connecting, label: "connecting", line: "Reading nodes and pods.", unread: "nodes pods NodeFleets"},
		{name: "only pods are still being read", seen: healthy(now, kind(pods, func(k *Kind) { k.Read = false })), state: Connecting, label: "connecting", line: "Reading pods.", unread: "pods"},
		{name: "it answers, and reading fails", seen: healthy(now, unreadKinds, kind(pods, func(k *Kind) { k.List = Failure{OtherFailure, "answers: no room"} })), state: Connecting, label: "connecting", line: "pods could not be read: answers: no room", unread: "nodes pods NodeFleets"},
		{name: "a wrong address", seen: healthy(now, unreadKinds, fails(Unanswering, 0), never), state: Unreachable, label: "unreachable", line: "refuses connections. Nothing is known about the cluster. Check that the cluster runs", unread: "nodes pods NodeFleets"},
		{name: "another authority", seen: healthy(now, unreadKinds, fails(Untrusted, 0), never), state: Unreachable, label: "unreachable", line: "certificate-authority-data", unread: "nodes pods NodeFleets"},
		{name: "no credentials", seen: healthy(now, unreadKinds, fails(NoCredentials, 0), never), state: Unreachable, label: "unreachable", line: "log in again", unread: "nodes pods NodeFleets"},
		{name: "one answer is missing", seen: healthy(now, fails(Unanswering, Unanswered)), state: Live, label: "live"},
		{name: "it has not answered for longer", seen: healthy(now, fails(Unanswering, Unanswered+1)), state: Unreachable, label: "unreachable since {since}", since: now.Add(-Unanswered - 1), line: "The figures are from {since}."},
		{name: "it was lost while it was read", seen: healthy(now, unreadKinds, fails(Unanswering, Unanswered+1)), state: Unreachable, label: "unreachable", line: "Nothing is known about the cluster.", unread: "nodes pods NodeFleets"},
		{name: "its database is gone", seen: healthy(now, fails(NotReady, time.Minute)), state: Stale, label: "stale since {since}", since: now.Add(-time.Minute), line: "The figures may be from {since}."},
		{name: "it is not ready and was never read", seen: healthy(now, unreadKinds, fails(NotReady, 0), never), state: Connecting, label: "connecting", line: "Nothing is known about the cluster.", unread: "nodes pods NodeFleets"},
		{name: "a watch that is opened again", seen: healthy(now, kind(pods, func(k *Kind) { k.Broken = now.Add(-Broken) })), state: Live, label: "live"},
		{name: "a watch that cannot be opened again", seen: healthy(now, kind(pods, func(k *Kind) {
			k.Broken, k.Watch = now.Add(-Broken-1), Failure{OtherFailure, "answers: too many requests"}
		})), state: Stale, label: "stale since {since}", since: now.Add(-time.Minute), line: "has not said what has become of pods (answers: too many requests). They are shown as of {since}."},
		{name: "a watch of an optional kind that cannot be opened again", seen: healthy(now, kind(fleets, func(k *Kind) { k.Broken = now.Add(-Broken - 1) })), state: Stale, label: "stale since {since}", since: now.Add(-time.Minute), line: "NodeFleets"},
		{name: "a watch without its bookmarks", seen: healthy(now, kind(pods, func(k *Kind) { k.Bookmarked, k.Fresh = true, now.Add(-Silent-1) })), state: Stale, label: "stale since {since}", since: now.Add(-Silent - 1), line: "pods"},
		{name: "a watch with its bookmarks", seen: healthy(now, kind(pods, func(k *Kind) { k.Bookmarked, k.Fresh = true, now.Add(-Silent) })), state: Live, label: "live"},
		{name: "a watch of an API server that sends none", seen: healthy(now, kind(pods, func(k *Kind) { k.Fresh = now.Add(-time.Hour) })), state: Live, label: "live"},
		{name: "pods may not be read", seen: healthy(now, unreadKinds, kind(pods, forbidden)), state: Denied, label: "permission missing", line: "Permission missing: you may not list pods. Nothing is known about the cluster. Ask", unread: "nodes pods NodeFleets"},
		{name: "pods may no longer be read", seen: healthy(now, kind(pods, forbidden)), state: Denied, label: "permission missing since {since}", since: now.Add(-time.Minute), line: "you may not list pods. The figures are from {since}."},
		{name: "pods may be listed, not watched", seen: healthy(now, kind(pods, func(k *Kind) { k.Watch, k.Broken = Failure{Forbidden, ""}, noon })), state: Denied, label: "permission missing since {since}", since: now.Add(-time.Minute), line: "you may not watch pods."},
		{name: "the credentials have expired", seen: healthy(now, kind(pods, func(k *Kind) { k.List, k.Broken = Failure{Unauthorized, ""}, noon })), state: Denied, label: "permission missing since {since}", since: now.Add(-time.Minute), line: "The API server no longer accepts the credentials to list pods."},
		{name: "NodeFleets may not be read", seen: healthy(now, kind(fleets, func(k *Kind) { forbidden(k); k.Read = false })), state: Live, label: "live, incomplete", notes: 1, unread: "NodeFleets"},
		{name: "NodeFleets are not installed", seen: healthy(now, kind(fleets, func(k *Kind) { k.List, k.Broken, k.Read = Failure{NotInstalled, ""}, noon, false })), state: Live, label: "live"},
		{name: "NodeFleets cannot be read", seen: healthy(now, kind(fleets, func(k *Kind) { k.List, k.Broken, k.Read = Failure{OtherFailure, "answers: x"}, noon, false })), state: Live, label: "live, incomplete", notes: 1, unread: "NodeFleets"},
		{name: "a server that is lost says nothing about what may be read", seen: healthy(now, fails(Unanswering, time.Minute), kind(pods, forbidden)), state: Unreachable, label: "unreachable since {since}", since: now.Add(-time.Minute)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := Of(tc.seen)
			if s.State != tc.state || s.Label != tc.label || s.Since != milliseconds(tc.since) || !strings.Contains(s.Line, tc.line) || len(s.Notes) != tc.notes || strings.Join(s.Unread, " ") != tc.unread {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestANoteNamesTheVerbTheResourceAndWhatThePageLacks(t *testing.T) {
	o := healthy(noon, kind(fleets, func(k *Kind) { k.Read, k.List = false, Failure{Forbidden, ""} }))
	if got, want := Of(o).Notes[0], "permission missing: you may not list nodefleets.supercargo.dev: the page lacks NodeFleets and their decisions"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	o = healthy(noon, kind(fleets, func(k *Kind) { k.Watch = Failure{Forbidden, ""} }))
	if got, want := Of(o).Notes[0], "permission missing: you may not watch nodefleets.supercargo.dev: the page has an earlier state of NodeFleets and their decisions"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// anObservation draws any observation, also ones that cannot happen.
func anObservation(t *rapid.T) *Observation {
	ago := func(name string) time.Time {
		s := rapid.IntRange(-1, 400).Draw(t, name)
		if s < 0 {
			return time.Time{}
		}
		return noon.Add(-time.Duration(s) * time.Second)
	}
	failure := func(name string) Failure {
		if f := FailureKind(rapid.IntRange(0, int(OtherFailure)).Draw(t, name)); f != FailureNone {
			return Failure{f, "fails"}
		}
		return Failure{}
	}
	o := &Observation{Now: noon, Server: "https://s", Answered: ago("answered"), Failure: failure("failure")}
	for _, name := range []string{"nodes", "pods", "fleets", "events"} {
		o.Kinds = append(o.Kinds, Kind{
			Resource: name, Name: name, Gives: name, Required: len(o.Kinds) < 2, Read: rapid.Bool().Draw(t, "read"), Fresh: ago("fresh"), Broken: ago("broken"),
			Bookmarked: rapid.Bool().Draw(t, "bookmarked"), List: failure("list"), Watch: failure("watch"),
		})
		if k := &o.Kinds[len(o.Kinds)-1]; k.Read && k.Fresh.IsZero() {
			k.Fresh = noon // what was read was delivered
		}
	}
	return o
}

// TestALivePageIsCurrent checks every observation: what may not be true of a page that says that it is live, and what
// must be true of one that says the time of its figures.
func TestALivePageIsCurrent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anObservation(t)
		s := Of(o)
		if hasTime := strings.Contains(s.Label+s.Line, Since); hasTime != (s.Since != 0) || s.State == Live && (hasTime || s.Line != "") {
			t.Fatalf("%+v", s)
		}
		if s.State != Live && (s.Line == "" || strings.ContainsAny(s.Line, "\n%")) {
			t.Fatalf("%+v: want a line that says why", s)
		}
		if s.State != Live {
			return
		}
		if o.Failure.Kind != FailureNone && (o.Answered.IsZero() || o.Now.Sub(o.Answered) > Unanswered) {
			t.Fatalf("live, though it has not answered since %v", o.Answered)
		}
		checkKinds(t, o, &s)
	})
}

// checkKinds checks what a live page says of each kind.
func checkKinds(t *rapid.T, o *Observation, s *Status) {
	for _, k := range o.Kinds {
		switch {
		case k.Required && !k.Read:
			t.Fatalf("live without %s", k.Name)
		case k.Required && k.refused() != nil:
			t.Fatalf("live, though %s are refused", k.Name)
		case k.Required && !k.absent() && !k.Broken.IsZero() && o.Now.Sub(k.Broken) > Broken:
			t.Fatalf("live, though %s have not been watched since %v", k.Name, k.Broken)
		case !k.Read && !k.absent() && !slices.Contains(s.Unread, k.Name):
			t.Fatalf("nothing says that %s are unknown: %+v", k.Name, s)
		}
	}
}

// TestALostServerIsFoundWithinTheBound probes a server as the dashboard does, until it is lost at any moment, and then
// either refuses connections or swallows what is sent.
func TestALostServerIsFoundWithinTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lost := time.Duration(rapid.IntRange(0, 20_000).Draw(t, "lost after")) * time.Millisecond
		swallows := rapid.Bool().Draw(t, "swallows")
		o := healthy(noon)
		for at := time.Duration(0); ; {
			answers := at < lost
			done := at
			if !answers && swallows {
				done += Patience
			}
			// Between two probes the page asks what to say at any time.
			for now := at; now <= done+Every; now += 100 * time.Millisecond {
				if now >= done {
					if o.Failure = (Failure{}); answers {
						o.Answered = after(done)
					} else {
						o.Failure = Failure{Unanswering, "does not answer"}
					}
				}
				o.Now = after(now)
				for i := range o.Kinds {
					o.Kinds[i].Fresh = o.Now // the watches know nothing: the probe alone must find it
				}
				s := Of(o)
				if s.State == Unreachable && now < lost {
					t.Fatalf("at %v: %+v, though it answers until %v", now, s, lost)
				}
				if s.State != Unreachable && now > lost+Found {
					t.Fatalf("at %v: %+v, though it was lost at %v", now, s, lost)
				}
			}
			if at = done + Every; at > lost+2*Found {
				return
			}
		}
	})
}

func TestFailuresAreSaidInPlainWords(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	get := func(err error) error {
		return &url.Error{Op: "Get", URL: "https://10.0.0.1:6443/api/v1/pods?limit=500", Err: err}
	}
	for name, tc := range map[string]struct {
		err  error
		kind FailureKind
		says string
	}{
		"none":              {nil, FailureNone, ""},
		"a closed port":     {get(&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}), Unanswering, "refuses connections"},
		"no such host":      {get(&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "x"}}), Unanswering, "host name"},
		"a timeout":         {get(context.DeadlineExceeded), Unanswering, "does not answer"},
		"a slow dial":       {get(&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}), Unanswering, "does not answer"},
		"no route":          {get(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), Unanswering, "network"},
		"a reset":           {get(os.NewSyscallError("read", syscall.ECONNRESET)), Unanswering, "closes connections"},
		"HTTP":              {get(errors.New("http: server gave HTTP response to HTTPS client")), Unanswering, "HTTPS"},
		"another authority": {get(x509.UnknownAuthorityError{}), Untrusted, "certificate"},
		"a failed helper":   {get(errors.New("getting credentials: exec: executable aws not found\nmore")), NoCredentials, "executable aws not found"},
		"no permission":     {apierrors.NewForbidden(pods, "", errors.New("no")), Forbidden, "refuses"},
		"no user":           {apierrors.NewUnauthorized("no"), Unauthorized, "credentials"},
		"no such kind":      {&meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "X"}}, NotInstalled, ""},
		"a removed kind":    {apierrors.NewNotFound(pods, ""), NotInstalled, ""},
		"too much":          {apierrors.NewTooManyRequests("slow down", 1), OtherFailure, "answers: slow down"},
		"anything":          {fmt.Errorf("odd"), OtherFailure, "odd"},
	} {
		t.Run(name, func(t *testing.T) {
			f := Failed(tc.err)
			if f.Kind != tc.kind || !strings.Contains(f.Words, tc.says) || strings.Contains(f.Words, "://") || strings.Contains(f.Words, "\n") {
				t.Errorf("%+v", f)
			}
		})
	}
}

func TestEveryAnswerToAProbeIsOneExceptThatItIsNotReady(t *testing.T) {
	failed := errors.New("failed")
	for code, want := range map[int]FailureKind{200: FailureNone, 401: FailureNone, 403: FailureNone, 404: FailureNone, 429: FailureNone, 500: NotReady, 503: NotReady, 0: OtherFailure} {
		var err error
		if code != 200 {
			err = failed
		}
		if got := Probed(code, err).Kind; got != want {
			t.Errorf("%d is %v, want %v", code, got, want)
		}
	}
}

func TestATimeIsThatOfWhoReads(t *testing.T) {
	s := Of(healthy(noon, fails(Unanswering, time.Minute)))
	if got := s.At(s.Label, func(at time.Time) string { return at.UTC().Format("15:04") }); got != "unreachable since 11:59" {
		t.Errorf("it says %q", got)
	}
}
