package dashboard

import (
	"crypto/rand"
	"sync"
	"time"
)

// The limits of sessions. A user who exceeds mostOfUser loses the oldest session. At mostSessions, further users cannot
// log in.
const (
	sessionLasts = time.Hour
	mostSessions = 256
	mostOfUser   = 8
)

// session is a browser that has logged in.
type session struct {
	user  string
	token string // reviewed again while the session lasts; never sent or logged
	since time.Time
}

// sessions are the current sessions, by their secret ID. They are in memory only.
type sessions struct {
	mu  sync.Mutex
	all map[string]session
}

func newSessions() *sessions { return &sessions{all: map[string]session{}} }

// start returns the ID of a new session; false if there are too many.
func (s *sessions) start(user, token string, now time.Time) (id string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest, count := "", 0
	for id, other := range s.all {
		switch {
		case other.over(now):
			delete(s.all, id)
		case other.user == user:
			if count++; oldest == "" || other.since.Before(s.all[oldest].since) {
				oldest = id
			}
		}
	}
	if count >= mostOfUser {
		delete(s.all, oldest)
	}
	if len(s.all) >= mostSessions {
		return "", false
	}
	id = rand.Text()
	s.all[id] = session{user: user, token: token, since: now}
	return id, true
}

// find returns the session with an ID, unless it is over.
func (s *sessions) find(id string, now time.Time) (found session, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok = s.all[id]
	if ok && found.over(now) {
		delete(s.all, id)
		return session{}, false
	}
	return found, ok
}

// end ends the session with an ID, if there is one.
func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, id)
}

func (s session) over(now time.Time) bool { return now.Sub(s.since) >= sessionLasts }
