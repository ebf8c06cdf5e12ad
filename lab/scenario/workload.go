package scenario

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/table"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/clip"
)

func (b *builder) workload(v value) {
	w := &b.s.Workload
	b.object(v,
		optional("pods", func(v value) { b.list(v, b.task) }),
		optional("traces", func(v value) { b.list(v, b.trace) }),
		optional("patterns", func(v value) { b.list(v, b.pattern) }))
	for i, p := range w.Patterns {
		if slices.ContainsFunc(w.Patterns[:i], func(other Pattern) bool { return other.Name == p.Name }) {
			b.fault(child(v, "patterns"), "has two patterns with the name %q: names must be unique", p.Name)
		}
	}
}

// podFields returns the fields that listed pods and task kinds share.
func (b *builder) podFields(c *class.Class, size *packing.Size, category, arch *string) []field {
	return []field{
		required("class", "batch or service", into(c, b.podClass)),
		required("cpu", "cores such as 2 or 100m", into(&size.MilliCPU, parsed(b.reader, "cores such as 100m", parseCPU))),
		required("memory", "an amount such as 300Mi", into(&size.MemoryBytes, parsed(b.reader, "an amount such as 300Mi", parseMemory(table.RoundUp)))),
		optional("category", into(category, b.category)),
		optional("arch", into(arch, b.arch)),
		optional("gpus", func(v value) { size.Extended = milliGPUs(b.gpus(v)) }),
	}
}

// gpus reads a number of GPUs in thousandths.
func (b *builder) gpus(v value) int64 { return b.number(0, 1000, maxMilliGPUs)(v) }

// moving returns the fields about namespace, weight and migration, which traces have too.
func (b *builder) moving(namespace *string, weight func(v value), m *Migratable) []field {
	return []field{
		optional("namespace", into(namespace, b.namespaceName)),
		optional("energyWeight", weight),
		optional("migration", into(m, oneOf(b.reader, "checkpoint, restart or never", map[string]Migratable{
			string(MoveWithState): MoveWithState, string(MoveByRestart): MoveByRestart, string(MoveNever): MoveNever,
		}))),
	}
}

func (b *builder) weight(v value) *float64 {
	h := b.ratio(0, 1)(v)
	return &h
}

// weights reads the weight of a kind, or the range from which weights are drawn.
func (b *builder) weights(k *TaskKind) func(v value) {
	return func(v value) {
		if len(v.node.Content) == 0 {
			k.EnergyWeight = b.weight(v)
			return
		}
		var r WeightRange
		if b.object(v,
			required("min", "a weight such as 0", into(&r.Least, b.ratio(0, 1))),
			required("max", "a weight such as 1", into(&r.Most, b.ratio(0, 1)))) && r.Least > r.Most {
			b.bad(child(v, "min"), errors.New("must be at most max"))
		}
		k.Weights = &r
	}
}

func (b *builder) podClass(v value) class.Class {
	return oneOf(b.reader, "batch or service", map[string]class.Class{"batch": class.Batch, "service": class.Service})(v)
}

func (b *builder) category(v value) string {
	return b.text(v, "a category", "is not a valid category: must be at most 253 bytes without control characters", printable)
}

func (b *builder) task(_ int, v value) {
	t := Task{Count: 1}
	ok := b.object(v, append(append(b.podFields(&t.Class, &t.Size, &t.Category, &t.Arch), b.moving(&t.Namespace, into(&t.EnergyWeight, b.weight), &t.Migration)...),
		required("name", "a pod name", into(&t.Name, b.podName)),
		optional("arrival", into(&t.Arrival, b.duration)),
		optional("runtime", into(&t.Runtime, b.positive)),
		optional("lifetime", into(&t.Lifetime, b.positive)),
		optional("count", into(&t.Count, b.number(1, 1, MaxPods))))...)
	if !ok {
		return
	}
	b.lengthSuits(v, t.Class)
	b.later = append(b.later, func() {
		if t.Arrival > b.s.Horizon {
			b.bad(child(v, "arrival"), fmt.Errorf("is after the horizon: must be at most %v", b.s.Horizon))
		}
	})
	if t.Count > 1 && !validPodName(t.Name+"-"+strconv.FormatInt(t.Count-1, 10)) {
		b.bad(child(v, "name"), errors.New("is too long for a pod name with a number appended"))
	}
	b.s.Workload.Pods = append(b.s.Workload.Pods, t)
}

// lengthSuits records an error if runtime or lifetime is missing or belongs to the other class.
func (b *builder) lengthSuits(v value, c class.Class) {
	switch {
	case c == class.Batch && !has(v, "runtime"):
		b.fault(child(v, "runtime"), "is required for a batch pod: must be its runtime, such as 3m")
	case c == class.Batch && has(v, "lifetime"):
		b.fault(child(v, "lifetime"), "is only for services: set only runtime for a batch pod")
	case c == class.Service && has(v, "runtime"):
		b.fault(child(v, "runtime"), "is only for batch pods: set lifetime for a service")
	}
}

func (b *builder) podName(v value) string {
	return b.text(v, "a pod name", "is not a valid pod name: must be up to 253 lower-case letters, digits, '-' and '.', with a letter or digit at either end and beside each '.'", validPodName)
}

// entryName reads the prefix of the names of an entry's pods.
func (b *builder) entryName(v value) string {
	return b.text(v, "a name", "is not a valid name: must be up to 63 lower-case letters, digits and '-', with a letter or digit at either end", validName)
}

func (b *builder) trace(_ int, v value) {
	t := Trace{TimeScale: 1}
	var like Pod
	file := v
	ok := b.object(v, append(b.moving(&like.Namespace, into(&like.EnergyWeight, b.weight), &like.Migration),
		required("file", "the path of a trace", func(v value) { file = v }),
		optional("name", into(&t.Name, b.entryName)),
		optional("timeScale", into(&t.TimeScale, b.ratio(1, millionths))),
		optional("limit", into(&t.Limit, b.number(1, 1, MaxPods))))...)
	if !ok {
		return
	}
	path, content, ok := b.contents(file)
	if !ok {
		return
	}
	recorded, err := trace.ReadPods(path, bytes.NewReader(content))
	if err != nil {
		b.other(file, err)
		return
	}
	if t.Limit > 0 && int64(len(recorded)) > t.Limit {
		recorded = recorded[:t.Limit]
	}
	i := len(b.s.Workload.Traces)
	b.s.Workload.Traces = append(b.s.Workload.Traces, t)
	b.later = append(b.later, func() { b.s.Workload.Traces[i].Pods = b.recorded(file, t, recorded, like) })
}

// recorded returns the pods of a trace, scaled and named, up to the horizon. like has the values
// for what a recording does not have.
func (b *builder) recorded(v value, t Trace, all []trace.Pod, like Pod) []Pod {
	var pods []Pod
	gpus := slices.ContainsFunc(b.s.Flavors, func(f Flavor) bool { return f.GPUs.Any })
	for _, p := range all {
		arrival, runtime := scaled(p.Arrival, t.TimeScale), scaled(p.Runtime, t.TimeScale)
		if arrival > b.s.Horizon {
			break
		}
		if runtime > MaxDuration {
			b.fault(v, "pod %q runs for longer than the maximum of %v", p.Name, MaxDuration)
			break
		}
		pod := Pod{
			Pod: cluster.Pod{
				Item: p.Item, Class: cmp.Or(p.Class, class.Batch), Arch: p.Arch, Namespace: like.Namespace, EnergyWeight: like.EnergyWeight,
			},
			Category: p.Category, Migration: like.Migration,
		}
		pod.Arrival, pod.Runtime = arrival, runtime
		if gpus {
			pod.Size.Extended = milliGPUs(p.MilliGPUs)
		}
		if t.Name != "" {
			pod.Name = t.Name + "-" + p.Name
		}
		if len(pod.Name) > 253 {
			b.fault(v, "pod name %q is longer than 253 bytes with the name of the entry as prefix", clip.Cell(pod.Name))
			break
		}
		if pod.Class == class.Service {
			pod.Runtime, pod.Lifetime = 0, runtime
		}
		pods = append(pods, pod)
	}
	return pods
}

// scaled divides a time and rounds it to the nanosecond, saturating at the maximum.
func scaled(d time.Duration, scale float64) time.Duration {
	if scale == 1 {
		return d
	}
	result := math.Round(float64(d) / scale)
	if result >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(result)
}

func (b *builder) pattern(i int, v value) {
	p := Pattern{Name: "pattern-" + strconv.Itoa(i)}
	words := map[string]Shape{"stable": Stable, "growing": Growing, "cycle": Cycle, "on-off": OnOff, "burst": Burst}
	rate := parsed(b.reader, "a rate such as 12/m", parseRate)
	ok := b.object(v,
		required("shape", "stable, growing, cycle, on-off or burst", into(&p.Shape, oneOf(b.reader, "stable, growing, cycle, on-off or burst", words))),
		optional("name", into(&p.Name, b.entryName)),
		optional("rate", into(&p.BaseRate, rate)),
		optional("peakRate", into(&p.PeakRate, rate)),
		optional("exponent", into(&p.Exponent, b.ratio(1, 100))),
		optional("period", into(&p.Period, b.positive)),
		optional("on", into(&p.On, b.positive)),
		optional("count", into(&p.Count, b.number(1, 1, MaxPods))),
		optional("bursts", into(&p.Bursts, b.number(1, 1, MaxPods))),
		required("mix", "weights by task kind such as {batch_small: 5, nginx: 1}", into(&p.Mix, b.mix)))
	if ok && b.shapeSuits(v, &p) {
		b.later = append(b.later, func() { b.amount(v, p) })
		b.s.Workload.Patterns = append(b.s.Workload.Patterns, p)
	}
}

// shapeSuits records missing numbers, numbers that do not belong to the shape, and contradictions.
func (b *builder) shapeSuits(v value, p *Pattern) bool {
	before := b.count()
	needs := map[Shape][]string{
		Stable: {"rate"}, Growing: {"rate", "peakRate"}, Cycle: {"rate", "peakRate", "period"}, OnOff: {"rate", "period", "on"},
		Burst: {"count", "period", "on"},
	}[p.Shape]
	for _, name := range []string{"rate", "peakRate", "exponent", "period", "on", "count", "bursts"} {
		takes := slices.Contains(needs, name)
		switch {
		case takes && !has(v, name):
			b.fault(child(v, name), "is required for the shape %s", p.Shape)
		case !takes && has(v, name) && (name != "exponent" || p.Shape != Growing) && (name != "bursts" || p.Shape != Burst):
			b.fault(child(v, name), "does not apply to the shape %s: must be omitted", p.Shape)
		}
	}
	if b.count() > before {
		return false
	}
	if p.Shape == Growing && p.Exponent == 0 {
		p.Exponent = 2
	}
	switch {
	case p.Shape != Burst && p.highest() == 0:
		b.bad(child(v, "rate"), errZero)
	case has(v, "peakRate") && p.PeakRate < p.BaseRate:
		b.bad(child(v, "peakRate"), errors.New("must be at least rate"))
	case p.On > p.Period:
		b.bad(child(v, "on"), errors.New("must be at most period"))
	}
	return b.count() == before
}

// mix reads the weights of task kinds and returns them ordered by kind.
func (b *builder) mix(v value) []Share {
	const want = "weights by task kind such as {batch_small: 5, nginx: 1}"
	weight := b.number(1, millionths, millionths*millionths)
	var shares []Share
	b.pairs(v, want, func(kind string, v value) {
		shares = append(shares, Share{Kind: kind, Weight: weight(v)})
		b.later = append(b.later, func() { b.mustBeOneOf(v, "task kind", kind, b.kindNames) })
	})
	if v.node.Tag == "!!map" && len(v.node.Content) == 0 {
		b.fault(v, "has no task kind: must be %s", want)
	}
	slices.SortFunc(shares, func(a, c Share) int { return cmp.Compare(a.Kind, c.Kind) })
	return shares
}

// amount records an error for a pattern with too many pods.
func (b *builder) amount(v value, p Pattern) {
	if most := p.most(b.s.Horizon); most > MaxPods {
		b.fault(v, "creates up to %.0f pods at its highest rate until the horizon: must be at most %d", most, MaxPods)
	}
}

// taskKind reads a kind in addition to the built-in ones.
func (b *builder) taskKind(_ int, v value) {
	var k TaskKind
	length := func(v value) {
		if len(v.node.Content) == 0 {
			k.MinRuntime = b.positive(v)
			k.MaxRuntime = k.MinRuntime
			return
		}
		if b.object(v,
			required("min", "a duration such as 1m", into(&k.MinRuntime, b.positive)),
			required("max", "a duration such as 4m", into(&k.MaxRuntime, b.positive))) && k.MinRuntime > k.MaxRuntime {
			b.bad(child(v, "min"), errors.New("must be at most max"))
		}
	}
	ok := b.object(v, append(append(b.podFields(&k.Class, &k.Size, &k.Category, &k.Arch), b.moving(&k.Namespace, b.weights(&k), &k.Migration)...),
		required("name", "the kind's name", into(&k.Name, b.kindName)),
		optional("runtime", length),
		optional("lifetime", length))...)
	if !ok {
		return
	}
	b.lengthSuits(v, k.Class)
	if k.MinRuntime%time.Millisecond != 0 || k.MaxRuntime%time.Millisecond != 0 {
		b.fault(v, "must have a runtime in whole milliseconds")
	}
	if slices.ContainsFunc(b.s.TaskKinds, func(other TaskKind) bool { return other.Name == k.Name }) {
		b.bad(child(v, "name"), errors.New("is also the name of another kind: names must be unique"))
	}
	if k.Category == "" {
		k.Category = k.Name
	}
	b.s.TaskKinds = append(b.s.TaskKinds, k)
}

func (b *builder) kindName(v value) string {
	return b.text(v, "a name", "is not a valid kind: must be up to 63 lower-case letters, digits, '-' and '_', with a letter or digit at either end", lowerWord.MatchString)
}

// pods validates the number and the names of all pods that are not random, and the number of the
// random ones.
func (b *builder) pods(v value) {
	w := b.s.Workload
	total := 0.0
	for _, p := range w.Patterns {
		total += p.most(b.s.Horizon)
	}
	for _, t := range w.Traces {
		total += float64(len(t.Pods))
	}
	for _, t := range w.Pods {
		total += float64(t.Count)
	}
	at := child(v, "workload")
	if total > MaxPods {
		b.fault(at, "has about %.0f pods: must have at most %d", total, MaxPods)
		return
	}
	seen := make(map[string]bool)
	check := func(at value, pods []Pod) {
		for _, pod := range pods {
			if seen[pod.Name] {
				b.fault(at, "has a pod %q, which this or an earlier entry has too: names must be unique; the name of a trace becomes a prefix of its pods", pod.Name)
				return
			}
			seen[pod.Name] = true
		}
	}
	for i, t := range w.Pods {
		check(element(child(at, "pods"), i), t.appendPods(nil))
	}
	for i, t := range w.Traces {
		check(element(child(at, "traces"), i), t.Pods)
	}
}

// element returns an element of a list.
func element(v value, i int) value {
	return value{v.node.Content[i], fmt.Sprintf("%s[%d]", v.path, i)}
}
