package profile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Hardware describes what a machine's speed and power depend on, as far as the machine reports it.
type Hardware struct {
	Architecture, CPUModel string // "amd64", "AMD EPYC 7302"
	Cores, Threads         int
	MaxMegahertz           int64 // 0 if the kernel does not report it
	MemoryBytes            int64
}

// Fingerprint returns 16 hexadecimal digits that change when the hardware changes. Memory counts in whole GiB because
// kernel releases reserve slightly different amounts. The case and spacing of the CPU model are ignored.
func (h Hardware) Fingerprint() string {
	model := strings.Join(strings.Fields(strings.ToLower(h.CPUModel)), " ")
	sum := sha256.Sum256(fmt.Appendf(nil, "%s|%s|%d|%d|%d|%d", h.Architecture, model, h.Cores, h.Threads, h.MaxMegahertz, (h.MemoryBytes+gib/2)/gib))
	return hex.EncodeToString(sum[:8])
}
