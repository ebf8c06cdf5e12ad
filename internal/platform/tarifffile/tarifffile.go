// Package tarifffile follows a tariff of electricity, prices or carbon intensities, in a
// file that others write: a forecast that is fetched anew now and then, or a ConfigMap that
// is mounted.
//
// What cannot be read, is too long or is no tariff is not used in part, and nothing that was
// read before is used in its place: no price is known until the file is sound again. Nor is
// one whose values have expired. Whoever asks then does without prices.
package tarifffile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/internal/energy/tariff"
)

// MaxBytes is the longest file that is read: hourly values of 20 zones for a year.
const MaxBytes = 8 << 20

// File is a tariff in a file. It is safe for concurrent use.
type File struct {
	path   string
	unit   tariff.Unit
	maxAge time.Duration

	now atomic.Pointer[content]

	mu   sync.Mutex
	last []byte // what was read last, nil if it could not be
}

// content is what is in a file: a tariff, or why there is none.
type content struct {
	tariff tariff.Tariff
	err    error
}

// New returns the tariff in a file, of which nothing is known before [File.Read]. A value
// holds in its zone until the next one of the zone, but for maxAge at most.
func New(path string, unit tariff.Unit, maxAge time.Duration) *File {
	f := &File{path: path, unit: unit, maxAge: maxAge}
	f.now.Store(&content{err: fmt.Errorf("read tariff %s: it has not been read yet", path)})
	return f
}

// Unit is what its values count.
func (f *File) Unit() tariff.Unit { return f.unit }

// Read looks at the file and takes over what has changed. The error says why no price is
// known.
func (f *File) Read() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := f.text()
	if err == nil && f.last != nil && bytes.Equal(text, f.last) {
		return f.now.Load().err
	}
	c := &content{}
	if f.last = text; err == nil {
		if c.tariff, err = tariff.Read(bytes.NewReader(text), f.unit.Column()); err != nil {
			err = invalid{err}
		}
	}
	if about := (*os.PathError)(nil); errors.As(err, &about) {
		err = about.Err // the path is named below
	}
	if err != nil {
		c.err = fmt.Errorf("read tariff %s: %w", f.path, err)
	}
	f.now.Store(c)
	return c.err
}

// invalid is an error about what is in a file.
type invalid struct{ error }

// Is makes it an [errInvalid].
func (invalid) Is(target error) bool { return target == errInvalid }

// Unwrap returns what is wrong.
func (e invalid) Unwrap() error { return e.error }

// text returns the whole file; nil with the error.
func (f *File) text() ([]byte, error) {
	info, err := os.Stat(f.path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(): // reading a pipe could take forever
		return nil, fmt.Errorf("it is no file: %v", info.Mode())
	}
	file, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, MaxBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > MaxBytes:
		return nil, fmt.Errorf("it is over %d bytes: leave out what is past, and zones without machines", MaxBytes)
	}
	return text, nil
}

// At returns what a kWh costs in a zone at a time.
func (f *File) At(zone string, at time.Time) tariff.Price {
	return f.now.Load().tariff.At(zone, at, f.maxAge)
}

// Over returns what a kWh costs in a zone on average between two moments.
func (f *File) Over(zone string, from, to time.Time) tariff.Price {
	return f.now.Load().tariff.Over(zone, from, to, f.maxAge)
}

// Status says what a tariff is good for.
type Status struct {
	// Priced zones have a price now, those Without have values, but none that holds.
	Priced, Without int
	// Err is why nothing could be read.
	Err error
}

// Reasons of Events about a tariff. There are several for one that is of no use, since Events that
// differ in their text alone become one for some minutes, with the text of the first.
const (
	ReasonUnreadable = "TariffUnreadable" // there is no such file, or it is too long
	ReasonInvalid    = "TariffInvalid"    // it is no tariff
	ReasonExpired    = "TariffExpired"
	ReasonUsable     = "TariffUsable"
)

// errInvalid is in the chain of an error about what is in a file.
var errInvalid = errors.New("no tariff")

// mostTrouble keeps the note of an Event below the 1,024 bytes that the API server takes:
// a message may quote a cell of any length.
const mostTrouble = 800

// Trouble returns why the tariff is of no use, as the reason and part of the note of an Event:
// it could not be read, is none, or no zone has a price now. Both are empty for one that is of use.
func (s Status) Trouble() (reason, why string) {
	switch {
	case s.Err != nil:
		why = s.Err.Error()
		if len(why) > mostTrouble {
			why = strings.ToValidUTF8(why[:mostTrouble], "") + " ..."
		}
		if errors.Is(s.Err, errInvalid) {
			return ReasonInvalid, why
		}
		return ReasonUnreadable, why
	case s.Priced == 0:
		return ReasonExpired, "no zone has a price: all values have expired, or are to come"
	}
	return "", ""
}

// Status returns what the tariff is good for at a time.
func (f *File) Status(at time.Time) Status {
	c := f.now.Load()
	s := Status{Err: c.err}
	s.Priced, s.Without = c.tariff.Zones(at, f.maxAge)
	return s
}

// Run reads the file every so often, more than 0, until ctx ends, and has each status noted.
func (f *File) Run(ctx context.Context, every time.Duration, clk clock.WithTicker, note func(Status)) {
	ticker := clk.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			_ = f.Read() // the status says so
			note(f.Status(clk.Now()))
		}
	}
}
