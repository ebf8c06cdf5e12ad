// Package trace reads recorded workloads.
//
// Six CSV formats are read, as package table reads files:
//
//   - the openb pod list of the Alibaba GPU cluster trace of 2023, see
//     [Read] for what its columns turn into;
//   - the generic trace, with the columns arrival_s, cpu_milli, memory_mib,
//     runtime_s and, where wanted, name, class, category, count and arch;
//   - the pod list, with the columns name, cpu_milli, memory_mib and, where wanted,
//     count, arch, class and runtime_s, see [ReadPodList];
//   - the task list of a workflow, with the columns id, category, cores, memory_mib,
//     runtime_s, cpu_fraction and, where wanted, parents and stage, see [ReadTasks];
//   - the recording of a cluster, with a row for each thing that came, changed or went, see [Row]
//     and [ReadRecording];
//   - the series of arrival rates, with the columns time_s and rate_per_s, see [ReadRates].
//
// Times become whole nanoseconds, CPU whole milli-CPU, memory bytes.
//
// The package is pure: no clock, client, logger or random source.
package trace
