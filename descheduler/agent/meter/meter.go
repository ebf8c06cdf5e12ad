// Package meter reads what a node draws, once a second, from the best meter that it has,
// and remembers what it used over the last hours.
//
// Meters are, best first: RAPL's counters of CPU packages and memory (rapl.go), power
// sensors of the board (hwmon.go), and for a node without either a power model and how
// busy its CPUs are (load.go). They see different parts of a machine: RAPL the CPUs and
// their memory, sensors and models all of it. So a reading carries its source, and what
// is said of a node says which it is.
//
// A reading that cannot be true is dropped and counted by what is wrong with it; the
// judgement is that of [energy.Limits]. What is not known is never filled in, but for
// stretches of at most five seconds between two sound readings.
package meter

import (
	"context"
	"errors"
	"fmt"
	"reflect"
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
	Model Kind = "model" // the model, even if there is a meter
	None  Kind = "none"  // nothing is read
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Auto, RAPL, Hwmon, Model, None} }

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
	// Root is the folder that has the node's root folder; below it are sys and proc.
	Root string
	// Kind is which meters may be used; empty is [Auto].
	Kind Kind
	// Sensors are the power sensors to add up, as chip/sensor ("ina2xx/power1"), for
	// boards whose sensors show parts of the machine.
	Sensors []string
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
	none  bool         // the first look at a counter, which says nothing yet
}

// Meter is the power meter of a node. Its methods are safe for concurrent use.
type Meter struct {
	Options
	history *history

	mu      sync.Mutex
	machine Machine
	own     *energy.Model // of the whole machine, as its MachineProfile says; nil: it does not
	model   energy.Model  // of the machine with so many CPUs
	origin  string        // of the model
	cpus    int           // 0: no model has been chosen
	now     instrument    // nil: none
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
	return &Meter{
		Options: o, history: newHistory(remembered),
		dropped: map[energy.Source]*energy.Counts{}, used: map[energy.Source]energy.Joules{},
	}, nil
}

// Run reads the meter every second until ctx ends. A meter that fails is no reason to
// stop: it is looked for again.
func (m *Meter) Run(ctx context.Context) error {
	if m.Kind == None {
		<-ctx.Done()
		return ctx.Err()
	}
	ticker := m.Clock.NewTicker(readEvery)
	defer ticker.Stop()
	for {
		m.read()
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

// Believe tells the meter the power model of its node's machine, which goes before those of
// the table; nil takes it away.
func (m *Meter) Believe(model *energy.Model) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !reflect.DeepEqual(m.own, model) {
		m.own, m.cpus = model, 0
	}
}

// Last returns the newest reading, and false if there is none that is at most ten
// seconds old.
func (m *Meter) Last() (energy.Reading, bool) {
	p, ok := m.history.last()
	r := energy.Reading{Source: p.source, At: p.at, Watts: p.watts}
	return r, ok && r.Age(m.Clock.Now()) <= maxAge
}

// Energy returns what the node used between two moments, measured or modelled, and
// false unless all of that time is known. It remembers two hours.
func (m *Meter) Energy(from, to time.Time) (energy.Joules, bool) {
	u, ok := m.history.usage(from, to)
	return u.Total(), ok
}

// Usage returns what [Meter.Energy] does, measured and modelled apart.
func (m *Meter) Usage(from, to time.Time) (energy.Usage, bool) { return m.history.usage(from, to) }

// read takes one reading.
func (m *Meter) read() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.look()
	if m.now == nil {
		return
	}
	source := m.now.source()
	got, err := m.now.read(m.Clock.Now)
	if err != nil {
		got.fault = energy.Unreadable
	}
	if failing := err != nil; failing != m.failing {
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
	if used, ok := m.history.add(got.Reading, got.since); ok {
		m.used[source] += *side(&used, source.Measured())
		if source.Measured() && used.Modelled > 0 {
			m.used[energy.SourceModel] += used.Modelled
		}
	}
}

func (m *Meter) count(source energy.Source, fault energy.Fault) {
	if m.dropped[source] == nil {
		m.dropped[source] = &energy.Counts{}
	}
	m.dropped[source][fault]++
}

// look finds the best meter, if there is none yet or the one in use is not the best or
// fails.
func (m *Meter) look() {
	now := m.Clock.Now()
	if now.Before(m.lookAt) || m.now != nil && !m.failing && (m.now.source() == energy.SourceRAPL || m.Kind != Auto) {
		return
	}
	m.lookAt = now.Add(lookEvery)
	found, err := m.find()
	if err != nil && err.Error() != m.wrong { // once, not every minute
		m.wrong = err.Error()
		m.Log.Error(err, "A power meter of the node cannot be used")
	}
	if found == nil || m.now != nil && !m.failing && found.source() == m.now.source() {
		return
	}
	m.now, m.failing = found, false
	m.Log.Info("The node's power is read", "source", found.source())
}

// find returns the best meter that works, nil if there is none, and what is wrong with
// better ones.
func (m *Meter) find() (instrument, error) {
	var errs []error
	if m.Kind == Auto || m.Kind == RAPL {
		r, err := openRAPL(m.Root)
		if r != nil {
			return r, nil
		}
		errs = append(errs, missing(m.Kind, err, "rapl", powercap))
	}
	if m.Kind == Auto || m.Kind == Hwmon {
		h, err := openHwmon(m.Root, m.Sensors)
		if h != nil {
			return h, errors.Join(errs...)
		}
		errs = append(errs, missing(m.Kind, err, "hwmon", hwmonDir))
	}
	if m.Kind == Auto || m.Kind == Model {
		return &modelled{root: m.Root, model: m.modelFor}, errors.Join(errs...)
	}
	return nil, errors.Join(errs...)
}

// missing says that a meter that was asked for is not there.
func missing(asked Kind, err error, name, dir string) error {
	if err == nil && asked != Auto {
		return fmt.Errorf("--power-meter=%s: the node shows none in /%s: use auto, or load the kernel's module", name, dir)
	}
	return err
}
