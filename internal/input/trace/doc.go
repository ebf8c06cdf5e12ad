// Package trace reads recorded workloads.
//
// It supports six CSV formats, which package table parses:
//
//   - the openb pod list of the Alibaba GPU cluster trace of 2023, see
//     [Read] for its columns;
//   - the generic trace, with the columns arrival_s, cpu_milli, memory_mib,
//     runtime_s and, optionally, name, class, category, count and arch;
//   - the pod list, with the columns name, cpu_milli, memory_mib and, optionally,
//     count, arch, class and runtime_s, see [ReadPodList];
//   - the task list of a workflow, with the columns id, category, cores, memory_mib,
//     runtime_s, cpu_fraction and, optionally, parents and stage, see [ReadTasks];
//   - the recording of a cluster, with a row for each object that was created, changed or removed,
//     see [Row] and [ReadRecording];
//   - the series of arrival rates, with the columns time_s and rate_per_s, see [ReadRates].
//
// Times are read as whole nanoseconds, CPU as whole milli-CPU, and memory as bytes.
//
// The package is pure: no clock, client, logger or random source.
package trace
