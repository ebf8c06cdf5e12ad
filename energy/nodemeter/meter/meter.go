// Package meter reads the power of a node once a second, from its best meter, and keeps the
// energy that it used over the last hours.
//
// Meters are, best first: RAPL's counters of CPU packages and memory (rapl.go), power sensors of
// the board (hwmon.go), and for a node without either a power model with the utilization of its
// CPUs (load.go). A server that others send the node's power to (query.go) takes precedence over
// the model, and with a user's own query over all others: such a user has a better meter, for
// instance one of the whole machine. Meters see different parts of a machine: RAPL the CPUs and
// their memory, sensors and models all of it. So each reading has its source, also in metrics,
// and the time between readings of two measuring meters of different kinds is unknown.
//
// An implausible reading is dropped and counted by its fault; [energy.Limits] decides. Unknown
// times are not filled in, except for stretches of at most five seconds between two sound
// readings. Those of a server are further apart; there, the energy of less than ten such
// stretches is unknown.
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

	"supercargo.dev/supercargo/energy"
)

// Kind selects the meters to use.
type Kind string

// The kinds, as in --power-meter.
const (
	Auto  Kind = "auto"  // the best available
	RAPL  Kind = "rapl"  // only RAPL's counters
	Hwmon Kind = "hwmon" // only the board's sensors
	Query Kind = "query" // only a server
	Model Kind = "model" // the model, even if there is a meter
	None  Kind = "none"  // nothing is read
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Auto, RAPL, Hwmon, Query, Model, None} }

const (
	// readEvery is how often the meter is read.
	readEvery = time.Second
	// searchEvery is how often to look for a better meter if there is none, or a failing one: its
	// kernel module may be loaded later.
	searchEvery = time.Minute
	// maxAge is the maximum age of the current power.
	maxAge = 10 * time.Second
	// remembered is the number of readings to keep: two hours, in half a megabyte.
	remembered = 2 * 3600
)

// Machine describes the node from its Node object, for the model and the metrics.
type Machine struct {
	// Type is the machine type, ProviderID the cloud's ID of the machine, Zone its zone and
	// Architecture its CPU architecture. Each may be empty.
	Type, ProviderID, Zone, Architecture string
	// Cores is the allocatable CPU; 0 if unknown.
	Cores float64
}

// Options configure a meter.
type Options struct {
	// Node is the node's name.
	Node string
	// Root is the folder that contains the node's sys and proc. Proc replaces Root/proc: what is
	// read from it is the same in a container.
	Root, Proc string
	// Kind selects the meters to use; empty for [Auto].
	Kind Kind
	// Sensors are the power sensors to add up, as chip/sensor ("ina2xx/power1"), for boards whose
	// sensors cover parts of the machine.
	Sensors []string
	// Server is queried for the node's power; nil for none. It is only used by [Auto] and
	// [Query].
	Server *Server
	// Rated is the highest plausible power of the machine; 0 for what the meter states, if it
	// does.
	Rated energy.Watts
	// Table has the coefficients of the model; nil for the built-in one.
	Table *energy.Table
	// Clock is the current time; nil for the real one.
	Clock clock.WithTicker
	// Log reports which meter is used, and when it fails.
	Log logr.Logger
}

// instrument is one source of the node's power.
type instrument interface {
	source() energy.Source
	// rated returns the highest plausible power; 0 if unknown.
	rated() energy.Watts
	// read returns a measurement. It calls now as close to each reading as possible.
	read(now func() time.Time) (measurement, error)
}

// measurement is a reading of an instrument.
type measurement struct {
	energy.Reading
	since time.Time    // the power is the mean since then; zero for momentary power
	fault energy.Fault // found by the instrument itself
	none  bool         // nothing new: the first reading of a counter, or no response yet
	// reach is the maximum time between two readings, and the maximum age of the newest; 0 for
	// meters that are read each second.
	reach time.Duration
}

// Meter is the power meter of a node. Its methods are safe for concurrent use.
type Meter struct {
	Options
	history *history
	query   *queried // nil for no server
	order   []Kind   // usable kinds, best first

	mu       sync.Mutex
	machine  Machine
	own      *energy.Model // of the whole machine, from its MachineProfile; nil if that has none
	model    energy.Model  // of the machine with this number of CPUs
	origin   string        // of the model
	cpus     int           // 0 if no model has been chosen
	now      instrument    // nil for none
	kind     Kind          // of now
	searchAt time.Time     // when to look for a better one
	failing  bool
	still    []energy.Count // of RAPL, when its counters were found not to move
	wrong    string         // the last error of meters that cannot be used
	dropped  map[energy.Source]*energy.Counts
	used     map[energy.Source]energy.Joules
}

// New returns the meter of a node. It reads nothing before [Meter.Run].
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
		return nil, errors.New("the node's name and its root folder are required")
	}
	o.Proc = cmp.Or(o.Proc, filepath.Join(o.Root, "proc"))
	m := &Meter{
		Options: o, history: newHistory(remembered), order: []Kind{o.Kind},
		dropped: map[energy.Source]*energy.Counts{}, used: map[energy.Source]energy.Joules{},
	}
	if o.Kind == Query || o.Kind == Auto && o.Server != nil {
		if o.Server == nil {
			return nil, errors.New("power meter query: a server is required")
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

// ranked returns the kinds that [Auto] uses, best first. A user's own query is meant for this
// node, and mostly covers the whole machine. Presets query RAPL's counters of the node, which the
// meter can itself read each second if the node has them.
func ranked(q *queried) []Kind {
	switch {
	case q == nil:
		return []Kind{RAPL, Hwmon, Model}
	case q.first:
		return []Kind{Query, RAPL, Hwmon, Model}
	}
	return []Kind{RAPL, Hwmon, Query, Model}
}

// Run reads the meter every second until ctx ends. A failure of the meter does not stop it: it
// looks for a meter again.
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

// Know sets the description of the node's machine.
func (m *Meter) Know(machine Machine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.machine != machine {
		m.machine, m.cpus = machine, 0
	}
}

// SetModel sets the power model of the node's machine, which takes precedence over the table; nil
// removes it.
func (m *Meter) SetModel(model *energy.Model) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !reflect.DeepEqual(m.own, model) {
		m.own, m.cpus = model, 0
	}
}

// Last returns the newest reading; false if it is older than ten seconds, or than the maximum age
// for a server.
func (m *Meter) Last() (energy.Reading, bool) {
	p, ok := m.history.last()
	r := energy.Reading{Source: p.source, At: p.at, Watts: p.watts}
	return r, ok && r.Age(m.Clock.Now()) <= max(maxAge, p.reach)
}

// Energy returns the energy that the node used between two times, measured or modelled; false
// unless all of the interval is known. It covers the last two hours, and no interval that is too
// short for the rate of the readings.
func (m *Meter) Energy(from, to time.Time) (energy.Joules, bool) {
	u, ok := m.history.usage(from, to)
	return u.Total(), ok
}

// Usage returns the same as [Meter.Energy], with measured and modelled energy apart.
func (m *Meter) Usage(from, to time.Time) (energy.Usage, bool) { return m.history.usage(from, to) }

// read takes one reading.
func (m *Meter) read(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hear()
	m.selectMeter()
	m.ask(ctx)
	if m.now == nil {
		return
	}
	got, err := m.now.read(m.Clock.Now)
	source := cmp.Or(got.Source, m.now.source())
	if err != nil {
		got.fault = energy.Unreadable
	}
	if r, ok := m.now.(*rapl); ok && errors.Is(err, errStill) {
		m.still, m.searchAt = r.last, time.Time{} // another meter is found at the next reading
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
	// Energy that is partly modelled does not count as measured.
	if used, ok := m.history.add(got); ok {
		m.used[source] += *side(&used, source.Measured())
		if source.Measured() && used.Modelled > 0 {
			m.used[energy.SourceModel] += used.Modelled
		}
	}
}

// hear receives the server's response. A server in use without a new reading for too long counts
// as a failing meter.
func (m *Meter) hear() {
	if m.query == nil {
		return
	}
	fault, changed, err := m.query.listen()
	if changed { // once, not for each query
		m.Log.Info("The state of the server with the node's power changed", "answers", err == nil, "error", err)
	}
	if m.kind == Query {
		m.failing = !m.query.ready(m.Clock.Now())
	} else if fault != energy.Sound {
		m.count(m.query.source(), fault)
	}
}

// ask queries the server if it is in use, and every searchEvery if it would be in case it
// responded.
func (m *Meter) ask(ctx context.Context) {
	switch {
	case m.query == nil:
	case m.kind == Query:
		m.query.ask(ctx, m.Clock.Now(), m.query.every)
	case m.now == nil || m.failing || m.before(Query):
		m.query.ask(ctx, m.Clock.Now(), searchEvery)
	}
}

// before reports whether a kind may be used and takes precedence over the one in use.
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

// selectMeter finds the best meter if there is none yet, or if the one in use is not the best or fails:
// every minute, and at once when a server starts or stops to provide readings.
func (m *Meter) selectMeter() {
	now := m.Clock.Now()
	best := m.now != nil && (m.Kind == Query || m.kind == m.order[0] && !m.failing)
	if best || now.Before(m.searchAt) && !m.turned(now) {
		return
	}
	m.searchAt = now.Add(searchEvery)
	kind, found, err := m.find(now)
	if err != nil && err.Error() != m.wrong { // once, not every minute
		m.wrong = err.Error()
		m.Log.Error(err, "Failed to open a power meter of the node")
	}
	if found == nil || m.now != nil && !m.failing && kind == m.kind {
		return
	}
	m.now, m.kind, m.failing = found, kind, false
	m.Log.Info("Reading the node's power", "source", found.source())
}

// turned reports whether a better server than the meter in use has a reading, or the server in
// use has had none for too long.
func (m *Meter) turned(now time.Time) bool {
	switch {
	case m.query == nil:
		return false
	case m.kind == Query:
		return m.failing
	}
	return m.query.ready(now) && (m.now == nil || m.before(Query))
}

// find returns the best working meter and its kind, or nil, and the errors of better ones.
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

// open returns the meter of a kind, or nil and its error if it does not work. A server need not
// have responded if nothing else may be used; its errors are reported when a query fails.
func (m *Meter) open(kind Kind, now time.Time) (instrument, error) {
	switch kind {
	case RAPL:
		r, err := openRAPL(m.Root)
		if r == nil {
			return nil, missing(m.Kind, err, "rapl", powercap)
		}
		if moves, err := r.movesFrom(m.still); err != nil {
			return nil, err
		} else if !moves {
			return nil, errStill
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

// missing returns an error for a requested meter that does not exist.
func missing(asked Kind, err error, name, dir string) error {
	if err == nil && asked != Auto {
		return fmt.Errorf("--power-meter=%s: the node has none in /%s: use auto, or load the kernel module", name, dir)
	}
	return err
}
