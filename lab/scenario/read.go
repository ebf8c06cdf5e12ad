package scenario

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/input/table"
	"supercargo.dev/supercargo/internal/text/clip"
)

// Read reads a scenario. name is only used in errors. open reads the files that the scenario names.
// It gets the path as written in the scenario; the caller decides what it is relative to. If open
// is nil, such files are errors.
//
// Errors are of type [*table.Errors], with the path of the field as column ("spec.nodes[0].count").
// They are ordered by line, with those of other files last, up to [table.MaxErrors].
//
// Unknown fields, duplicate fields, empty values, aliases and further documents are errors. Cost:
// O(n log n) in the size of the files and the number of listed or recorded pods.
func Read(name string, text []byte, open func(path string) ([]byte, error)) (*Scenario, error) {
	if open == nil {
		open = func(string) ([]byte, error) { return nil, errors.New("reading other files is not supported here") }
	}
	r := &reader{file: name, open: open}
	if root, ok := r.document(text); ok {
		b := &builder{reader: r, s: defaults()}
		b.root(root)
		if r.count() == 0 {
			return b.s, nil
		}
	}
	return nil, r.err()
}

// defaults returns a scenario with all defaults.
func defaults() *Scenario {
	return &Scenario{
		SchedulingInterval: 20 * time.Second,
		ScalingInterval:    5 * time.Minute,
		AcquisitionLag:     Lag{Mean: 150 * time.Second},
		BillingPeriod:      time.Minute,
		BilledFrom:         FromOrder,
		ReleaseLag:         5 * time.Second,
		Migration:          Migration{BitsPerSecond: 1_200_000_000, BytesPerMemory: 1, Fixed: 2 * time.Second},
		Rescheduling:       Rescheduling{Interval: time.Minute, Residence: 10 * time.Minute, Gain: 10, Pods: 20},
		Autoscale:          true,
		MaxNodes:           1000,
		TaskKinds:          BuiltInKinds(),
	}
}

// builder builds a scenario from the document.
type builder struct {
	*reader
	s     *Scenario
	later []func() // checks that need the whole document

	flavorNames, kindNames names // for those checks
}

// names are names that can be referenced.
type names struct {
	list []string // in order, for messages
	set  map[string]bool
}

func namesIn[T any](things []T, name func(T) string) names {
	n := names{set: make(map[string]bool, len(things))}
	for _, thing := range things {
		n.list = append(n.list, name(thing))
		n.set[name(thing)] = true
	}
	return n
}

func (b *builder) root(v value) {
	b.object(v,
		required("apiVersion", "supercargo.dev/v1alpha1", b.constant("supercargo.dev/v1alpha1")),
		required("kind", "Scenario", b.constant("Scenario")),
		required("metadata", "an object with a name", func(v value) {
			b.object(v, required("name", "the scenario's name", into(&b.s.Name, b.name)))
		}),
		required("spec", "an object", b.spec))
}

func (b *builder) spec(v value) {
	s := b.s
	b.object(v,
		required("horizon", "a duration such as 2h", into(&s.Horizon, b.positive)),
		optional("schedulingInterval", into(&s.SchedulingInterval, b.positive)),
		optional("scalingInterval", into(&s.ScalingInterval, b.positive)),
		optional("acquisitionLag", into(&s.AcquisitionLag, b.lag)),
		optional("billingPeriod", into(&s.BillingPeriod, b.positive)),
		optional("billedFrom", into(&s.BilledFrom, oneOf(b.reader, "order or ready", map[string]BilledFrom{
			string(FromOrder): FromOrder, string(FromReady): FromReady,
		}))),
		optional("releaseLag", into(&s.ReleaseLag, b.duration)),
		optional("migration", b.migration),
		optional("rescheduling", b.rescheduling),
		optional("namespaces", func(v value) { b.list(v, b.namespace) }),
		optional("flavors", func(v value) { b.list(v, b.flavor) }),
		optional("flavorsFile", b.flavorsFile),
		optional("electricity", func(v value) { b.list(v, b.electricity) }),
		optional("nodes", func(v value) { b.list(v, b.nodes) }),
		optional("homogeneousFlavor", into(&s.HomogeneousFlavor, b.flavorName)),
		optional("autoscale", into(&s.Autoscale, parsed(b.reader, "true or false", parseBool))),
		optional("maxNodes", into(&s.MaxNodes, b.number(1, 1, MaxMachines))),
		optional("workload", b.workload),
		optional("taskKinds", func(v value) { b.list(v, b.taskKind) }))
	if has(v, "flavors") && has(v, "flavorsFile") {
		b.fault(child(v, "flavorsFile"), "is mutually exclusive with flavors")
	}
	// References are checked only if everything could be read.
	if b.count() > 0 {
		return
	}
	b.machines(v)
	slices.SortFunc(s.TaskKinds, func(a, c TaskKind) int { return cmp.Compare(a.Name, c.Name) })
	b.flavorNames = namesIn(s.Flavors, func(f Flavor) string { return f.Name })
	b.kindNames = namesIn(s.TaskKinds, func(k TaskKind) string { return k.Name })
	for _, check := range b.later {
		check()
	}
	if b.count() == 0 {
		b.pods(v)
	}
}

// machines validates the flavors and the nodes together.
func (b *builder) machines(v value) {
	s := b.s
	if len(s.Flavors) == 0 {
		b.faultAt(v.node.Line, join(v.path, "flavors"), "is required: must have at least one flavor, here or in flavorsFile")
		return
	}
	var start int64
	for _, n := range s.Nodes {
		start += n.Count
	}
	switch {
	case start > s.MaxNodes:
		b.fault(child(v, "nodes"), "has %d machines: must have at most %d, which is maxNodes", start, s.MaxNodes)
	case start == 0 && !s.Autoscale:
		b.fault(child(v, "autoscale"), "is false: at least one node is required")
	}
	if s.HomogeneousFlavor == "" {
		s.HomogeneousFlavor = s.Flavors[0].Name
		if len(s.Nodes) > 0 {
			s.HomogeneousFlavor = s.Nodes[0].Flavor
		}
	}
}

func (b *builder) migration(v value) {
	m := &b.s.Migration
	b.object(v,
		optional("bandwidth", into(&m.BitsPerSecond, b.above(parseBandwidth))),
		optional("bytesPerMemory", into(&m.BytesPerMemory, b.ratio(0, maxRatio))),
		optional("fixed", into(&m.Fixed, b.duration)))
}

// lag reads a duration, or an object with mean and sd.
func (b *builder) lag(v value) Lag {
	var l Lag
	if len(v.node.Content) == 0 {
		l.Mean = parsed(b.reader, "a duration such as 150s, or {mean: 157s, sd: 4s}", parseDuration)(v)
		return l
	}
	b.object(v,
		required("mean", "a duration such as 157s", into(&l.Mean, b.duration)),
		optional("sd", into(&l.SD, b.duration)))
	return l
}

func (b *builder) flavor(_ int, v value) {
	f := Flavor{Flavor: catalogue.Flavor{Flavor: cluster.Flavor{Arch: "amd64", MaxPods: new(int64(110))}}, Speed: 1}
	ok := b.object(v,
		required("name", "the flavor's name", into(&f.Name, b.name)),
		required("cpu", "cores such as 2 or 500m", into(&f.Size.MilliCPU, b.above(parseCPU))),
		required("memory", "an amount such as 8Gi", into(&f.Size.MemoryBytes, b.above(parseMemory(table.RoundDown)))),
		required("pricePerHour", "dollars such as 0.1371", into(&f.MicroDollarsPerHour, b.number(0, millionths, maxMicroDollarsPerHour))),
		optional("machineType", into(&f.MachineType, b.label)),
		optional("wattsIdle", into(&f.MilliwattsIdle, b.number(0, 1000, maxMilliwatts))),
		optional("wattsFull", into(&f.MilliwattsFull, b.number(0, 1000, maxMilliwatts))),
		optional("powerCurve", func(v value) { b.list(v, b.powerPoint(&f.PowerCurve)) }),
		optional("zone", func(v value) {
			f.Zone = b.label(v)
			b.later = append(b.later, func() { b.zoneIsKnown(v, f.Zone) })
		}),
		optional("speed", into(&f.Speed, b.ratio(1, maxRatio))),
		optional("arch", into(&f.Arch, b.arch)),
		optional("gpus", func(v value) { f.setGPUs(b.gpus(v)) }),
		optional("maxPods", into(&f.MaxPods, func(v value) *int64 { return new(b.number(1, 1, maxMaxPods)(v)) })))
	if !ok {
		return
	}
	switch {
	case has(v, "wattsIdle") != has(v, "wattsFull"):
		b.fault(v, "must have both or neither of wattsIdle and wattsFull")
	case f.MilliwattsIdle > f.MilliwattsFull:
		b.bad(child(v, "wattsIdle"), errors.New("must be at most wattsFull"))
	default:
		b.powerSuits(v, &f)
	}
	if slices.ContainsFunc(b.s.Flavors, func(other Flavor) bool { return other.Name == f.Name }) {
		b.bad(child(v, "name"), errors.New("is also the name of another flavor: names must be unique"))
	}
	if f.MachineType == "" {
		f.MachineType = f.Name
	}
	b.s.Flavors = append(b.s.Flavors, f)
}

// flavorsFile reads a catalogue.
func (b *builder) flavorsFile(v value) {
	path, content, ok := b.contents(v)
	if !ok {
		return
	}
	list, err := catalogue.ReadFlavors(path, bytes.NewReader(content))
	if err != nil {
		b.other(v, err)
		return
	}
	for _, f := range list {
		f.Arch = cmp.Or(f.Arch, "amd64")
		if f.MaxPods == nil {
			f.MaxPods = new(int64(110))
		}
		f.MachineType = cmp.Or(f.MachineType, f.Name)
		stated := Flavor{Flavor: f, Speed: 1}
		if n := milliGPUsOf(f.Extended); n > 0 {
			stated.setGPUs(n)
		}
		b.s.Flavors = append(b.s.Flavors, stated)
	}
}

// contents opens the file whose path v holds.
func (b *builder) contents(v value) (path string, content []byte, ok bool) {
	path, ok = b.scalar(v, "the path of a file")
	if !ok {
		return "", nil, false
	}
	if path == "" {
		b.bad(v, errors.New("must be the path of a file"))
		return "", nil, false
	}
	content, err := b.open(path)
	if err != nil {
		b.fault(v, "%v", fmt.Errorf("read %s: %w", clip.Cell(path), err))
	}
	return path, content, err == nil
}

// other records the errors of another file.
func (b *builder) other(v value, err error) {
	var faults *table.Errors
	if !errors.As(err, &faults) {
		b.fault(v, "%v", err)
		return
	}
	b.more += faults.More
	room := maxCollected - len(b.others)
	if len(faults.List) > room {
		b.more += len(faults.List) - room
	}
	b.others = append(b.others, faults.List[:min(room, len(faults.List))]...)
}

func (b *builder) nodes(_ int, v value) {
	n := Nodes{Count: 1, Class: class.Any}
	b.object(v,
		required("flavor", "the name of a flavor", into(&n.Flavor, b.flavorName)),
		optional("count", into(&n.Count, b.number(1, 1, MaxMachines))),
		optional("class", into(&n.Class, oneOf(b.reader, "Any, Batch or Service", map[string]class.Class{
			"Any": class.Any, "Batch": class.Batch, "Service": class.Service,
		}))))
	b.s.Nodes = append(b.s.Nodes, n)
}

// flavorName reads a reference to a flavor.
func (b *builder) flavorName(v value) string {
	name, ok := b.scalar(v, "the name of a flavor")
	if ok {
		b.later = append(b.later, func() { b.mustBeOneOf(v, "flavor", name, b.flavorNames) })
	}
	return name
}

// mustBeOneOf records an error for a reference to an unknown name.
func (b *builder) mustBeOneOf(v value, what, name string, known names) {
	if known.set[name] {
		return
	}
	list := strings.Join(known.list[:min(len(known.list), 10)], ", ")
	if len(known.list) > 10 {
		list += ", ..."
	}
	b.fault(v, "%q is not a known %s: must be one of %s", clip.Cell(name), what, list)
}

// constant reads a field with a fixed value.
func (b *builder) constant(want string) func(v value) {
	return func(v value) {
		if got, ok := b.scalar(v, want); ok && got != want {
			b.bad(v, fmt.Errorf("must be %s", want))
		}
	}
}

// oneOf reads one of several words.
func oneOf[T any](r *reader, want string, words map[string]T) func(v value) T {
	return parsed(r, want, func(text string) (T, error) {
		word, ok := words[text]
		if !ok {
			return word, fmt.Errorf("must be %s", want)
		}
		return word, nil
	})
}

func parseBool(text string) (bool, error) {
	if text != "true" && text != "false" {
		return false, errors.New("must be true or false")
	}
	return text == "true", nil
}

func (b *builder) name(v value) string {
	return b.text(v, "a name", "is not a valid name: must be 1 to 253 bytes without control characters", func(text string) bool { return text != "" && printable(text) })
}

// text reads a valid text. what is the error message for an invalid one.
func (b *builder) text(v value, want, what string, valid func(string) bool) string {
	return parsed(b.reader, want, func(text string) (string, error) {
		if !valid(text) {
			return "", errors.New(what)
		}
		return text, nil
	})(v)
}

func (b *builder) label(v value) string {
	return b.text(v, "a label value", "is not a valid label value: must be up to 63 letters, digits, '-', '_' and '.', with a letter or digit at either end", validLabel)
}

func (b *builder) arch(v value) string {
	return b.text(v, "an architecture", "must be an architecture such as amd64 or arm64", lowerAlnum.MatchString)
}

func (b *builder) duration(v value) time.Duration {
	return parsed(b.reader, "a duration such as 20s", parseDuration)(v)
}

func (b *builder) positive(v value) time.Duration {
	return parsed(b.reader, "a duration such as 20s", nonZero(parseDuration))(v)
}

// number reads a number in the given unit, from least to most units.
func (b *builder) number(least, unit, most int64) func(v value) int64 {
	return parsed(b.reader, "a number", func(text string) (int64, error) {
		n, err := decimal(text, unit, most, table.Exact)
		if err == nil && n < least {
			err = errZero
		}
		return n, err
	})
}

// ratio reads a number with up to six decimals, from least millionths to most.
func (b *builder) ratio(least, most int64) func(v value) float64 {
	read := b.number(least, millionths, most*millionths)
	return func(v value) float64 { return float64(read(v)) / millionths }
}

// above reads an amount above zero.
func (b *builder) above(parse func(text string) (int64, error)) func(v value) int64 {
	return parsed(b.reader, "an amount", nonZero(parse))
}

func nonZero[T ~int64 | ~float64](parse func(text string) (T, error)) func(text string) (T, error) {
	return func(text string) (T, error) {
		result, err := parse(text)
		if err == nil && result == 0 {
			err = errZero
		}
		return result, err
	}
}

// has reports whether an object has a field.
func has(v value, name string) bool { return child(v, name).node != v.node }

// child returns a field of an object, or the object with the field's path if it has no such field.
func child(v value, name string) value {
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		if v.node.Content[i].Value == name {
			return value{v.node.Content[i+1], join(v.path, name)}
		}
	}
	return value{v.node, join(v.path, name)}
}
