// Package trace reads and writes recorded workloads and machine catalogues.
//
// Five CSV formats are read:
//
//   - the openb pod list of the Alibaba GPU cluster trace of 2023, see
//     [Read] for what its columns turn into;
//   - the generic trace, with the columns arrival_s, cpu_milli, memory_mib,
//     runtime_s and, where wanted, name, class, category, count and arch;
//   - the pod list, with the columns name, cpu_milli, memory_mib and, where wanted,
//     count, arch, class and runtime_s, see [ReadPodList];
//   - the flavor catalogue, with the columns name, cpu, memory_gib,
//     price_per_hour and, where wanted, arch, machine_type, max_pods,
//     watts_idle and watts_full, see [ReadFlavors], and for those who heed them
//     zones, labels and taints, see [ReadOffers];
//   - the task list of a workflow, with the columns id, category, cores, memory_mib,
//     runtime_s, cpu_fraction and, where wanted, parents and stage, see [ReadTasks].
//
// Files are UTF-8, comma-separated, with one header row. A byte order mark and
// CRLF line ends are accepted, blank lines are skipped, columns may stand in
// any order. Space around a cell is dropped. A quoted cell must end on the line
// it began.
//
// Numbers are read exactly, never through floating point: times become whole
// nanoseconds, CPU whole milli-CPU, memory bytes, money micro-dollars. Bad
// input is refused, never repaired, and [Errors] names every fault found with
// its line and column. Input size, line length and the number of rows are
// bounded by the Max constants.
//
// The package is pure: no clock, client, logger or random source.
package trace

const (
	// MaxInputBytes is the largest input that is read.
	MaxInputBytes = 64 << 20
	// MaxLineBytes is the longest line that is read, its end not counted.
	MaxLineBytes = 16 << 10
	// MaxRows is the largest number of pods or flavors that one input may
	// describe, counts included.
	MaxRows = 1_000_000
	// MaxErrors is how many faults are listed; further ones are only counted.
	MaxErrors = 20
)
