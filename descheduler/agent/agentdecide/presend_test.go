package agentdecide

import (
	"testing"
	"time"
)

func TestHowLongMemoryIsSentBeforeTheFreeze(t *testing.T) {
	large := Presending{Able: true, MemoryBytes: 100, Above: 100, Left: 40 * time.Second}
	for name, tc := range map[string]struct {
		change func(*Presending)
		want   time.Duration
	}{
		"a share of the time until the deadline":      {func(*Presending) {}, 10 * time.Second},
		"much time":                                   {func(p *Presending) { p.Left = time.Hour }, maxPresend},
		"hardly any time":                             {func(p *Presending) { p.Left = 4*time.Second - 1 }, 0},
		"just enough time":                            {func(p *Presending) { p.Left = 4 * time.Second }, time.Second},
		"after the deadline":                          {func(p *Presending) { p.Left = -time.Hour }, 0},
		"a small container":                           {func(p *Presending) { p.MemoryBytes = 99 }, 0},
		"never":                                       {func(p *Presending) { p.Above = 0 }, 0},
		"it was begun":                                {func(p *Presending) { p.Begun = true }, 0},
		"a back-end that cannot":                      {func(p *Presending) { p.Able = false }, 0},
		"a container without memory, and no limit":    {func(p *Presending) { p.MemoryBytes, p.Above = 0, 0 }, 0},
		"a container without memory, and the least 1": {func(p *Presending) { p.MemoryBytes, p.Above = 0, 1 }, 0},
	} {
		p := large
		tc.change(&p)
		if got := p.For(); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
