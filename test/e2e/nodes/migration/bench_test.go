//go:build nodes

package migration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/moves"
	"supercargo.dev/supercargo/test/e2e/nodes/oci"
	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

// figure contains the median and the maximum over several migrations.
type figure struct {
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

func figureOf(values []float64) figure {
	slices.Sort(values)
	return figure{values[len(values)/2], values[len(values)-1]}
}

// memory is what a counter has in memory, in MiB: incompressible bytes that it checks, and zeros.
type memory struct {
	Mebibytes int `json:"mebibytes"`
	Zeros     int `json:"zeroMebibytes"`
}

// env returns the environment of such a counter.
func (m memory) env() []corev1.EnvVar {
	return []corev1.EnvVar{{Name: "MB", Value: strconv.Itoa(m.Mebibytes)}, {Name: "ZERO_MB", Value: strconv.Itoa(m.Zeros)}}
}

// measured contains the measurements of migrating a counter with a given amount of memory.
type measured struct {
	memory
	// Image is the size of the counter's image, in MiB.
	Image int `json:"imageMebibytes"`
	Moves int `json:"moves"`
	// Floor is the same pause of a counter that runc checkpoints to memory and restores on the same node. Nothing is sent.
	Floor figure `json:"floorSeconds"`
	// Pause is the longest time between two ticks of the counter, which ticks every 0.1 s.
	Pause      figure `json:"pauseSeconds"`
	Frozen     figure `json:"frozenSeconds"`
	Dump       figure `json:"dumpSeconds"`
	Ship       figure `json:"shipSeconds"`
	Restore    figure `json:"restoreSeconds"`
	Total      figure `json:"totalSeconds"`
	Checkpoint int64  `json:"checkpointBytes"`
	Shipped    int64  `json:"shippedBytes"`
	AgentPeak  int64  `json:"agentPeakBytes"`
}

// BenchmarkMigration moves counters of several sizes back and forth.
func BenchmarkMigration(b *testing.B) {
	var report []measured
	for _, of := range []struct {
		memory
		image int
	}{
		{memory{0, 0}, 0}, {memory{64, 0}, 0}, {memory{256, 0}, 0}, {memory{1024, 0}, 0}, {memory{128, 128}, 0}, {memory{512, 512}, 0},
		{memory{256, 0}, 300}, {memory{256, 0}, 3072},
	} {
		b.Run(fmt.Sprintf("%dMiB+%dMiB/image%dMiB", of.Mebibytes, of.Zeros, of.image), func(b *testing.B) {
			w := newTown(b)
			w.slow(b)
			m := w.measure(b, of.memory, w.image(b, of.image))
			m.Image, m.Floor = of.image, w.floor(b, of.memory, 3)
			report = append(report, m)
			for name, f := range map[string]figure{"pause-s": m.Pause, "floor-s": m.Floor, "dump-s": m.Dump, "ship-s": m.Ship, "restore-s": m.Restore} {
				b.ReportMetric(f.Median, name)
			}
			b.ReportMetric(float64(m.AgentPeak)/(1<<20), "agent-MiB")
		})
	}
	moves.WriteJSON(b, *benchReport, report)
}

// slow limits the network of the nodes, if a rate is given.
func (w *town) slow(b *testing.B) {
	w.Helper()
	for _, node := range w.fleet.Nodes {
		if *benchRate == "" {
			return
		}
		if err := node.Slow(b.Context(), *benchRate); err != nil {
			b.Fatal(err)
		}
	}
}

// image returns the image of a counter with so many MiB of files beside it, on both nodes.
func (w *town) image(b *testing.B, mebibytes int) string {
	w.Helper()
	if mebibytes == 0 {
		return cluster.Images["counter"]
	}
	name, archive := fmt.Sprintf("localhost/counter:%d", mebibytes), filepath.Join(w.fleet.Nodes[0].Dir, "image.tar")
	err := oci.WriteFile(archive, oci.Image{Name: name, Program: cluster.ProgramPath("workload/counter"), FillerMiB: mebibytes})
	for _, node := range w.fleet.Nodes {
		if err == nil {
			err = node.Import(w.Context(), archive)
		}
	}
	if err := errors.Join(err, os.Remove(archive)); err != nil {
		b.Fatal(err)
	}
	return name
}

// measure moves a counter b.N times.
func (w *town) measure(b *testing.B, size memory, image string) measured {
	w.Helper()
	for _, agent := range w.fleet.Agents {
		if err := agent.Restart(w.Context()); err != nil {
			w.Fatal(err)
		}
	}
	name := "counter"
	w.Create(moves.Movable(w.Pod(name, image, size.env()...)))
	w.Running(name)
	w.Counts(name, 5)
	result := measured{memory: size}
	var pause, frozen, dump, ship, restore, total []float64
	for b.Loop() {
		before := len(w.Ticks(name))
		m := w.Succeeded(w.Move(name)).Status
		name = m.Plan.RestoredPod
		w.Counts(name, len(w.Ticks(name))+5)
		longest, _ := workload.LongestPause(w.Ticks(name)[before-1:])
		pause = append(pause, longest.Seconds())
		frozen = append(frozen, w.seconds(m.Measured.FrozenSeconds))
		dump = append(dump, w.seconds(m.Measured.DumpSeconds))
		ship = append(ship, w.seconds(m.Measured.ShipSeconds))
		restore = append(restore, w.seconds(m.Measured.RestoreSeconds))
		total = append(total, w.seconds(m.Measured.TotalSeconds))
		result.Moves++
		result.Checkpoint, result.Shipped = m.Measured.CheckpointBytes, m.Measured.ShippedBytes
	}
	if err := workload.CheckTicks(w.Ticks(name), 1); err != nil {
		w.Error(err)
	}
	result.Pause, result.Frozen, result.Dump = figureOf(pause), figureOf(frozen), figureOf(dump)
	result.Ship, result.Restore, result.Total = figureOf(ship), figureOf(restore), figureOf(total)
	for _, node := range w.fleet.Nodes {
		peak, err := w.fleet.AgentPeak(w.Context(), node)
		if err != nil {
			w.Fatal(err)
		}
		result.AgentPeak = max(result.AgentPeak, peak)
	}
	return result
}

// seconds parses a time of a status.
func (w *town) seconds(text string) float64 {
	w.Helper()
	s, err := strconv.ParseFloat(text, 64)
	if err != nil {
		w.Fatal(err)
	}
	return s
}
