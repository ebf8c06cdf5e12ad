// Package tarifffile follows an electricity tariff, prices or carbon intensities, in a file that others write: a
// forecast that is fetched regularly, or a mounted ConfigMap.
//
// A file that is unreadable, too long or malformed is not used in part, and the previous content is not used instead:
// no price is known until the file is valid again. The same applies to expired values. Users then do without prices.
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

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/tariff"
)

// MaxBytes is the maximum size of a file: hourly values of 20 zones for a year.
const MaxBytes = 8 << 20

// File is a tariff in a file. It is safe for concurrent use.
type File struct {
	path   string
	unit   tariff.Unit
	maxAge time.Duration

	now atomic.Pointer[content]

	mu   sync.Mutex
	last []byte // content at the last read, nil if it failed
}

// content is the content of a file: a tariff, or the reason why there is none.
type content struct {
	tariff tariff.Tariff
	err    error
}

// New returns the tariff in a file. No price is known before [File.Read]. A value is valid in its zone until the next
// one for the zone, but for maxAge at most.
func New(path string, unit tariff.Unit, maxAge time.Duration) *File {
	f := &File{path: path, unit: unit, maxAge: maxAge}
	f.now.Store(&content{err: fmt.Errorf("read tariff %s: it has not been read yet", path)})
	return f
}

// Unit returns the unit of the values.
func (f *File) Unit() tariff.Unit { return f.unit }

// Read reads the file and applies changes. The error is the reason why no price is known.
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

// invalid is an error in the content of a file.
type invalid struct{ error }

// Is reports that it matches errInvalid.
func (invalid) Is(target error) bool { return target == errInvalid }

// Unwrap returns the wrapped error.
func (e invalid) Unwrap() error { return e.error }

// text returns the whole file, or nil with an error.
func (f *File) text() ([]byte, error) {
	info, err := os.Stat(f.path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(): // reading a pipe could block forever
		return nil, fmt.Errorf("it is not a regular file: %v", info.Mode())
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
		return nil, fmt.Errorf("it has more than %d bytes: remove past values, and zones without machines", MaxBytes)
	}
	return text, nil
}

// At returns the price of a kWh in a zone at a time.
func (f *File) At(zone string, at time.Time) tariff.Price {
	return f.now.Load().tariff.At(zone, at, f.maxAge)
}

// Over returns the average price of a kWh in a zone between two times.
func (f *File) Over(zone string, from, to time.Time) tariff.Price {
	return f.now.Load().tariff.Over(zone, from, to, f.maxAge)
}

// Status is the state of a tariff.
type Status struct {
	// Priced is the number of zones that have a price now, Without the number of those that have only other values.
	Priced, Without int
	// Err is the reason why nothing could be read.
	Err error
}

// errInvalid matches errors in the content of a file.
var errInvalid = errors.New("not a valid tariff")

// mostTrouble keeps the note of an Event below the 1,024 bytes that the API server accepts: a message may quote a cell
// of any length.
const mostTrouble = 800

// Trouble returns the reason and part of the note of an Event for an unusable tariff: it is unreadable or malformed, or
// no zone has a price now. Both are empty for a usable tariff.
func (s Status) Trouble() (reason, why string) {
	switch {
	case s.Err != nil:
		why = s.Err.Error()
		if len(why) > mostTrouble {
			why = strings.ToValidUTF8(why[:mostTrouble], "") + " ..."
		}
		if errors.Is(s.Err, errInvalid) {
			return v1alpha1.SchedulingReasonTariffInvalid, why
		}
		return v1alpha1.SchedulingReasonTariffUnreadable, why
	case s.Priced == 0:
		return v1alpha1.SchedulingReasonTariffExpired, "no zone has a price: all values have expired or are for later times"
	}
	return "", ""
}

// Status returns the state of the tariff at a time.
func (f *File) Status(at time.Time) Status {
	c := f.now.Load()
	s := Status{Err: c.err}
	s.Priced, s.Without = c.tariff.Zones(at, f.maxAge)
	return s
}

// Run reads the file at the given interval, which must be positive, until ctx is done, and passes each status to note.
func (f *File) Run(ctx context.Context, every time.Duration, clk clock.WithTicker, note func(Status)) {
	ticker := clk.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			_ = f.Read() // the status includes the error
			note(f.Status(clk.Now()))
		}
	}
}
