package karpenter

import (
	"context"
	"fmt"
	"testing"

	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/packing"
)

// BenchmarkObserve observes machines of a catalogue of 1000 instance types in three zones. The time includes that of the
// fake client, which lists a thousand NodeClaims in about as much time as a real one decodes them.
func BenchmarkObserve(b *testing.B) {
	const types = 1000
	for _, claims := range []int{0, 1000} {
		b.Run(fmt.Sprintf("claims=%d", claims), func(b *testing.B) {
			s := newSite(b)
			s.requires("topology.kubernetes.io/zone", "In", "a", "b", "c")
			rows := make([]catalogue.Flavor, types)
			for i := range rows {
				rows[i].Name = fmt.Sprintf("type-%04d", i)
				rows[i].Size = packing.Size{MilliCPU: 4000, MemoryBytes: 16 << 30}
			}
			p := s.claims.For(s.fleet, s.nodes, func(context.Context) ([]catalogue.Flavor, error) { return rows, nil })
			if _, err := p.Observe(b.Context()); err != nil {
				b.Fatal(err)
			}
			if err := p.Buy(b.Context(), "order", "type-0000@a", 0, claims); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Observe(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
