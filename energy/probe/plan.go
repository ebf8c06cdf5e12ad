package probe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"supercargo.dev/supercargo/energy/profile"
)

// mostSizes is the maximum number of CPU sizes, and of memory sizes. It bounds the duration of a
// probe and the length of its report.
const mostSizes = 6

// Spare is the memory that a probe needs besides its data.
const Spare = 64 << 20

// Sizes are the sizes of a plan: each amount of CPU with each amount of memory.
type Sizes struct {
	MilliCPU    []int64
	MemoryBytes []int64
}

// SizesFor returns the sizes to probe on a machine with that much room for one pod. CPU: 0.25,
// 0.5, 1, 2, 4 and so on, with a factor of 4 above 1 on a machine with more than 8, and last all
// of it. Memory: 64 MiB, 256 MiB and 1 GiB, up to a quarter of the room without Spare. It is an
// error if the room has less than 0.25 CPU, or less than 8 MiB for the data.
func SizesFor(room profile.Size) (Sizes, error) {
	const leastCPU, leastMemory, mostMemory = 250, 8 << 20, 1 << 30
	memory := min((room.MemoryBytes-Spare)/4, mostMemory)
	if room.MilliCPU < leastCPU || memory < leastMemory {
		return Sizes{}, fmt.Errorf("room for %d m CPU and %d bytes: must be at least %d m and %d bytes", room.MilliCPU, room.MemoryBytes, leastCPU, leastMemory*4+Spare)
	}
	whole := room.MilliCPU
	if whole >= 1000 {
		whole -= whole % 1000 // workers have whole CPUs
	}
	var s Sizes
	step := int64(2)
	if whole > 8000 {
		step = 4
	}
	for cpu := int64(leastCPU); cpu < whole && len(s.MilliCPU) < mostSizes-1; {
		s.MilliCPU = append(s.MilliCPU, cpu)
		if cpu < 1000 {
			cpu *= 2
		} else {
			cpu *= step
		}
	}
	s.MilliCPU = append(s.MilliCPU, whole)
	for bytes := int64(64 << 20); bytes < memory; bytes *= 4 {
		s.MemoryBytes = append(s.MemoryBytes, bytes)
	}
	s.MemoryBytes = append(s.MemoryBytes, memory-memory%(1<<20))
	return s, nil
}

// Points returns all sizes in the order of probing: memory changes last, because filling it takes
// time.
func (s Sizes) Points() []profile.Size {
	var all []profile.Size
	for _, memory := range s.MemoryBytes {
		for _, cpu := range s.MilliCPU {
			all = append(all, profile.Size{MilliCPU: cpu, MemoryBytes: memory})
		}
	}
	return all
}

// Largest returns the requests of a pod with room for all sizes.
func (s Sizes) Largest() profile.Size {
	return profile.Size{MilliCPU: slices.Max(s.MilliCPU), MemoryBytes: slices.Max(s.MemoryBytes) + Spare}
}

// Validate returns the first error in the sizes.
func (s Sizes) Validate() error {
	for _, of := range []struct {
		what     string
		all      []int64
		from, to int64
	}{{"CPU", s.MilliCPU, 10, 4096000}, {"memory", s.MemoryBytes, LeastBytes, 1 << 40}} {
		if len(of.all) == 0 || len(of.all) > mostSizes {
			return fmt.Errorf("%s: %d sizes: must be from 1 to %d", of.what, len(of.all), mostSizes)
		}
		for i, v := range of.all {
			if v < of.from || v > of.to || i > 0 && v <= of.all[i-1] {
				return fmt.Errorf("%s: size %d is %d: must be from %d to %d, in ascending order", of.what, i+1, v, of.from, of.to)
			}
		}
	}
	return nil
}

// Flags returns the sizes in the format of --cpu and --memory: "250m,1" and "64Mi".
func (s Sizes) Flags() (cpu, memory string) {
	var c, m []string
	for _, v := range s.MilliCPU {
		c = append(c, resource.NewMilliQuantity(v, resource.DecimalSI).String())
	}
	for _, v := range s.MemoryBytes {
		m = append(m, resource.NewQuantity(v, resource.BinarySI).String())
	}
	return strings.Join(c, ","), strings.Join(m, ",")
}

// ParseSizes parses the format of [Sizes.Flags].
func ParseSizes(cpu, memory string) (s Sizes, err error) {
	read := func(flag, text string, value func(resource.Quantity) int64) (all []int64) {
		for part := range strings.SplitSeq(text, ",") {
			q, wrong := resource.ParseQuantity(strings.TrimSpace(part))
			if wrong != nil && err == nil {
				err = fmt.Errorf("--%s=%s: %s: %w", flag, text, strconv.Quote(part), wrong)
			}
			all = append(all, value(q))
		}
		return all
	}
	s.MilliCPU = read("cpu", cpu, func(q resource.Quantity) int64 { return q.MilliValue() })
	s.MemoryBytes = read("memory", memory, func(q resource.Quantity) int64 { return q.Value() })
	if err != nil {
		return Sizes{}, err
	}
	return s, s.Validate()
}
