// Package meter reads what a node draws, once a second, from the best meter that it has,
// and remembers what it used over the last hours.
//
// Meters are, best first: RAPL's counters of CPU packages and memory (rapl.go), power
// sensors of the board (hwmon.go), and for a node without either a power model and how
// busy its CPUs are (load.go). A server that others tell what the node draws (query.go) goes
// before the model; and before all others if it is asked by a query of the user's own, who
// has a better meter then, such as one of the whole machine. They see different parts of a
// machine: RAPL the CPUs and their memory, sensors and models all of it. So a reading
// carries its source, and what is said of a node says which it is; and of the time in which
// one meter took over from another of another kind nothing is known.
//
// A reading that cannot be true is dropped and counted by what is wrong with it; the
// judgement is that of [energy.Limits]. What is not known is never filled in, but for
// stretches of at most five seconds between two sound readings. Those of a server are
// further apart; there, what was used in less than ten such stretches is not known.
package meter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/internal/energy"
)

// Kind says which meters may be used.
type Kind string

// The kinds, as --power-meter has them.
const (
	Auto  Kind = "auto"  // the best that there is
	RAPL  Kind = "rapl"  // RAPL's counters alone
	Hwmon Kind = "hwmon" // the board's sensors alone
	Query Kind = "query" // a server alone
	Model Kind = "model" // the model, even if there is a meter
	None  Kind = "none"  // nothing is read
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Auto, RAPL, Hwmon, Query, Model, None} }

const (
	// readEvery is how often the meter is read.
	readEvery = time.Second
	// lookEvery is how often a better meter is looked for where there is none, or one
	// that fails: its kernel module may be loaded later.
	lookEvery = time.Minute
	// maxAge is how old a reading may be to count as what the node draws now.
	maxAge = 10 * time.Second
	// remembered is how many readings are kept: two hours of them, in half a megabyte.
	remembered = 2 * 3600
)

// Machine is what the API server says of the node, for the model and for the metrics.
type Machine struct {
	// Type is the machine type, ProviderID what the cloud calls the machine, Zone and
	// Architecture where it is and what it runs. Each may be empty.
	Type, ProviderID, Zone, Architecture string
	// Cores is how many the node offers to pods; 0 if that is not known.
	Cores float64
}

// Options say what to read.
type Options struct {
	// Node is the node's name.
	Node string
	// Root is the folder that has the node's root folder; below it are sys and proc. Proc is
	// where proc is if that is elsewhere: what is read of it is the same in a container.
	Root, Proc string
	// Kind is which meters may be used; empty is [Auto].
	Kind Kind
	// Sensors are the power sensors to add up, as chip/sensor ("ina2xx/power1"), for
	// boards whose sensors show parts of the machine.
	Sensors []string
	// Server is asked what the node draws; nil for none. It is left alone with a kind other
	// than [Auto] and [Query].
	Server *Server
	// Rated is the most that the machine can draw; 0 leaves it to the meter, which may
	// not know.
	Rated energy.Watts
	// Table has the coefficients of the model; nil is the one that the program carries.
	Table *energy.Table
	// Clock tells the time; nil is the real one.
	Clock clock.WithTicker
	// Log takes which meter is used, and when it fails.
	Log logr.Logger
}

// instrument is one way to learn what the node draws.
type instrument interface {
	source() energy.Source
	// rated is the most that it can show; 0 if that is not known.
	rated() energy.Watts
	// read reads it; now is asked as close to each reading as can be.
	read(now func() time.Time) (measurement, error)
}

// measurement is what an instrument gives.
type measurement struct {
	energy.Reading
	since time.Time    // the power is the mean since then; zero: it is that of one moment
	fault energy.Fault // what the instrument itself found wrong
	none  bool         // nothing new: the first look at a counter, or no answer yet
	// reach is how far readings may be apart, and how old the newest may be; 0 is that of
	// meters that are read each second.
	reach time.Duration
}

// Meter is the power meter of a node. Its methods are safe for concurrent use.
type Meter struct {
	Options
	history *history
	query   *queried // nil: no server is asked
	order   []Kind   // which may be used, the best first

	mu      sync.Mutex
	machine Machine
	own     *energy.Model // of the whole machine, as its MachineProfile says; nil: it does not
	model   energy.Model  // of the machine with so many CPUs
	origin  string        // of the model
	cpus    int           // 0: no model has been chosen
	now     instrument    // nil: none
	kind    Kind          // of it
	lookAt  time.Time     // when one is looked for next
	failing bool
	wrong   string // with the meters that were looked for last
	dropped map[energy.Source]*energy.Counts
	used    map[energy.Source]energy.Joules
}

// New returns the meter of a node. Nothing is read before [Meter.Run].
func New(o Options) (*Meter, error) {
	if o.Kind == "" {
		o.Kind = Auto
	}
	if o.Table == nil {
		o.Table = energy.BuiltIn()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Node == "" || o.Root == "" {
		return nil, errors.New("a power meter needs the node's name and its root folder")
	}
	o.Proc = cmp.Or(o.Proc, filepath.Join(o.Root, "proc"))
	m := &Meter{
		Options: o, history: newHistory(remembered), order: []Kind{o.Kind},
		dropped: map[energy.Source]*energy.Counts{}, used: map[energy.Source]energy.Joules{},
	}
	if o.Kind == Query || o.Kind == Auto && o.Server != nil {
		if o.Server == nil {
			return nil, errors.New("power meter query: no server is given to be asked")
		}
		var err error
		if m.query, err = newQueried(o.Node, o.Rated, *o.Server); err != nil {
			return nil, err
		}
	}
	if o.Kind == Auto {
		m.order = ranked(m.query)
	}
	return m, nil
}

// ranked returns the kinds that [Auto] takes, the best first. What a query of the user's own
// asks for was measured for this, by a meter of the whole machine in most cases. What
// presets ask for are RAPL's counters of the node, which it can read each second itself
// where it has them.
func ranked(q *queried) []Kind {
	switch {
	case q == nil:
		return []Kind{RAPL, Hwmon, Model}
	case q.first:
		return []Kind{Query, RAPL, Hwmon, Model}
	}
	return []Kind{RAPL, Hwmon, Query, Model}
}

// Run reads the meter every second until ctx ends. A meter that fails is no reason to
// stop: it is looked for again.
func (m *Meter) Run(ctx context.Context) error {
	if m.Kind == None {
		<-ctx.Done()
		return ctx.Err()
	}
	if m.query != nil {
		defer m.query.asking.Wait()
	}
	ticker := m.Clock.NewTicker(readEvery)
	defer ticker.Stop()
	for {
		m.read(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
		}
	}
}

// Know tells the meter what the API server says of its node.
func (m *Meter) Know(machine Machine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.machine != machine {
		m.machine, m.cpus = machine, 0
	}
}

// SetModel tells the meter the power model of its node's machine, which goes before those of
// the table; nil takes it away.
func (m *Meter) SetModel(model *energy.Model) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !reflect.DeepEqual(m.own, model) {
		m.own, m.cpus = model, 0
	}
}

// Last returns the newest reading, and false if there is none that is at most ten
// seconds old, or, of a server, as old as it may be.
func (m *Meter) Last() (energy.Reading, bool) {
	p, ok := m.history.last()
	r := energy.Reading{Source: p.source, At: p.at, Watts: p.watts}
	return r, ok && r.Age(m.Clock.Now()) <= max(maxAge, p.reach)
}

// Energy returns what the node used between two moments, measured or modelled, and
// false unless all of that time is known. It remembers two hours, and does not know a time
// that is too short for how often the meter is read.
func (m *Meter) Energy(from, to time.Time) (energy.Joules, bool) {
	u, ok := m.history.usage(from, to)
	return u.Total(), ok
}

// Usage returns what [Meter.Energy] does, measured and modelled apart.
func (m *Meter) Usage(from, to time.Time) (energy.Usage, bool) { return m.history.usage(from, to) }

// read takes one reading.
func (m *Meter) read(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hear()
	m.look()
	m.ask(ctx)
	if m.now == nil {
		return
	}
	got, err := m.now.read(m.Clock.Now)
	source := cmp.Or(got.Source, m.now.source())
	if err != nil {
		got.fault = energy.Unreadable
	}
	if failing := err != nil; m.kind != Query && failing != m.failing {
		m.failing = failing
		m.Log.Info("The node's power meter changed", "source", source, "readable", !failing, "error", err)
	}
	if got.none {
		return
	}
	if got.fault == energy.Sound {
		limits := energy.Limits{Rated: m.Rated}
		if m.Rated == 0 {
			limits.Rated = m.now.rated()
		}
		got.fault = limits.Check(got.Reading, got.At)
	}
	m.count(source, got.fault)
	if got.fault != energy.Sound {
		return
	}
	// What a model has a part in is no measurement.
	if used, ok := m.history.add(got); ok {
		m.used[source] += *side(&used, source.Measured())
		if source.Measured() && used.Modelled > 0 {
			m.used[energy.SourceModel] += used.Modelled
		}
	}
}

// hear takes what the server has answered. One that is used and has nothing new for too long
// counts as a meter that fails.
func (m *Meter) hear() {
	if m.query == nil {
		return
	}
	fault, changed, err := m.query.listen()
	if changed { // once, not with each question
		m.Log.Info("The server that is asked for the node's power changed", "answers", err == nil, "error", err)
	}
	if m.kind == Query {
		m.failing = !m.query.ready(m.Clock.Now())
	} else if fault != energy.Sound {
		m.count(m.query.source(), fault)
	}
}

// ask asks the server, if it is used; and now and then if it would be, did it answer.
func (m *Meter) ask(ctx context.Context) {
	switch {
	case m.query == nil:
	case m.kind == Query:
		m.query.ask(ctx, m.Clock.Now(), m.query.every)
	case m.now == nil || m.failing || m.before(Query):
		m.query.ask(ctx, m.Clock.Now(), lookEvery)
	}
}

// before reports whether a kind may be used and goes before the one in use.
func (m *Meter) before(k Kind) bool {
	rank := slices.Index(m.order, k)
	return rank >= 0 && rank < slices.Index(m.order, m.kind)
}

func (m *Meter) count(source energy.Source, fault energy.Fault) {
	if m.dropped[source] == nil {
		m.dropped[source] = &energy.Counts{}
	}
	m.dropped[source][fault]++
}

// look finds the best meter, if there is none yet or the one in use is not the best or
// fails: every minute, and at once when a server turned well or bad.
func (m *Meter) look() {
	now := m.Clock.Now()
	best := m.now != nil && (m.Kind == Query || m.kind == m.order[0] && !m.failing)
	if best || now.Before(m.lookAt) && !m.turned(now) {
		return
	}
	m.lookAt = now.Add(lookEvery)
	kind, found, err := m.find(now)
	if err != nil && err.Error() != m.wrong { // once, not every minute
		m.wrong = err.Error()
		m.Log.Error(err, "A power meter of the node cannot be used")
	}
	if found == nil || m.now != nil && !m.failing && kind == m.kind {
		return
	}
	m.now, m.kind, m.failing = found, kind, false
	m.Log.Info("The node's power is read", "source", found.source())
}

// turned reports whether a server has answered that is better than what is used, or is used
// and has had nothing new for too long.
func (m *Meter) turned(now time.Time) bool {
	switch {
	case m.query == nil:
		return false
	case m.kind == Query:
		return m.failing
	}
	return m.query.ready(now) && (m.now == nil || m.before(Query))
}

// find returns the best meter that works and its kind, nil if there is none, and what is
// wrong with better ones.
func (m *Meter) find(now time.Time) (Kind, instrument, error) {
	var errs []error
	for _, kind := range m.order {
		found, err := m.open(kind, now)
		if found != nil {
			return kind, found, errors.Join(errs...)
		}
		errs = append(errs, err)
	}
	return "", nil, errors.Join(errs...)
}

// open returns the meter of a kind if it works, else nil, and what is wrong with it. A
// server need not have answered if nothing else may be used; what is wrong with it is said
// when it does not answer.
func (m *Meter) open(kind Kind, now time.Time) (instrument, error) {
	switch kind {
	case RAPL:
		r, err := openRAPL(m.Root)
		if r == nil {
			return nil, missing(m.Kind, err, "rapl", powercap)
		}
		return r, nil
	case Hwmon:
		h, err := openHwmon(m.Root, m.Sensors)
		if h == nil {
			return nil, missing(m.Kind, err, "hwmon", hwmonDir)
		}
		return h, nil
	case Query:
		if m.Kind == Query || m.query.ready(now) {
			return m.query, nil
		}
	case Model:
		return &modelled{proc: m.Proc, model: m.modelFor}, nil
	}
	return nil, nil
}

// missing says that a meter that was asked for is not there.
func missing(asked Kind, err error, name, dir string) error {
	if err == nil && asked != Auto {
		return fmt.Errorf("--power-meter=%s: the node shows none in /%s: use auto, or load the kernel's module", name, dir)
	}
	return err
}
