package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The timing and size of messages.
const (
	// pace is the minimum time between two updates of a browser.
	pace = 250 * time.Millisecond
	// beat is the time without an update after which a browser is told that the server is there. A page that hears
	// nothing for some beats says that its figures are old (page/state.js).
	beat = 2 * time.Second
	// usualPatience is the write timeout of a message.
	usualPatience = 20 * time.Second
	// mostMessage is the maximum size of a message with more than one item, in bytes.
	mostMessage = 64 << 10
)

// stream writes server-sent events. An update consists of "items" messages and a final "commit", whose
// ID the browser sends when it reconnects; a "reset" at the beginning tells it to discard its state.
type stream struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
	epoch    string
	text     bytes.Buffer
}

// stream sends changes to a browser until it disconnects.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer s.leave()
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Time{}); err != nil { // a server's read timeout is for short requests
		http.Error(w, fmt.Sprintf("set the read deadline: %v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := &stream{w: w, control: control, patience: s.patience, epoch: s.hub.epoch}
	version := out.versionOf(r.Header.Get("Last-Event-ID"))
	for {
		u := s.hub.since(version)
		var err error
		if u.version != version || u.reset {
			err = out.send(u)
		} else {
			err = out.write(fmt.Sprintf("event: beat\ndata: {\"at\":%d}\n\n", time.Now().UnixMilli()))
		}
		if err != nil {
			return // the browser has disconnected, or reads too slowly
		}
		version = u.version
		if !wait(r, s.options.Done, u.more) {
			return
		}
	}
}

// wait returns true when there is something to send, or false when the stream is to end.
func wait(r *http.Request, done <-chan struct{}, more <-chan struct{}) bool {
	after := func(what <-chan struct{}, d time.Duration) bool {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-what:
		case <-timer.C:
		case <-r.Context().Done():
			return false
		case <-done:
			return false
		}
		return true
	}
	return after(nil, pace) && after(more, beat)
}

// versionOf returns the version in the ID of a commit; 0 if it has another epoch or is invalid.
func (s *stream) versionOf(id string) uint64 {
	number, ours := strings.CutPrefix(id, s.epoch+"-")
	version, err := strconv.ParseUint(number, 10, 64)
	if !ours || err != nil {
		return 0
	}
	return version
}

// send writes an update in messages of limited size.
func (s *stream) send(u update) error {
	if u.reset {
		if err := s.write("event: reset\ndata: {}\n\n"); err != nil {
			return err
		}
	}
	for i := range u.changes {
		if s.text.Len() > 0 && s.text.Len()+len(u.changes[i].json) > mostMessage {
			if err := s.flush(); err != nil {
				return err
			}
		}
		if err := s.add(&u.changes[i]); err != nil {
			return err
		}
	}
	if err := s.flush(); err != nil {
		return err
	}
	return s.write(fmt.Sprintf("event: commit\nid: %s-%d\ndata: {\"at\":%d}\n\n", s.epoch, u.version, time.Now().UnixMilli()))
}

// add appends a change to the message: [section, key, item], where null means deleted.
func (s *stream) add(c *change) error {
	head, err := json.Marshal([]string{c.section, c.key})
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", c.section, c.key, err)
	}
	before := ","
	if s.text.Len() == 0 {
		before = "event: items\ndata: ["
	}
	s.text.WriteString(before)
	s.text.Write(head[:len(head)-1])
	s.text.WriteByte(',')
	if c.json == nil {
		s.text.WriteString("null")
	}
	s.text.Write(c.json)
	s.text.WriteByte(']')
	return nil
}

// flush writes the message, if it is not empty.
func (s *stream) flush() error {
	if s.text.Len() == 0 {
		return nil
	}
	s.text.WriteString("]\n\n")
	err := s.write(s.text.String())
	s.text.Reset()
	return err
}

// write writes text with a timeout.
func (s *stream) write(text string) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(s.patience)); err != nil {
		return fmt.Errorf("set the write deadline: %w", err)
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.control.Flush()
}
