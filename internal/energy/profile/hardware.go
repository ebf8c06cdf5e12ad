package profile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Hardware is what a machine's speed and power depend on, as far as it tells.
type Hardware struct {
	Architecture, CPUModel string // "amd64", "AMD EPYC 7302"
	Cores, Threads         int
	MaxMegahertz           int64 // 0 when the kernel does not say
	MemoryBytes            int64
}

// Fingerprint returns 16 hexadecimal digits that change when the hardware does. Memory
// counts in whole GiB, since kernels reserve a little more or less of it from release to
// release; letters and spaces of the CPU model count as one.
func (h Hardware) Fingerprint() string {
	model := strings.Join(strings.Fields(strings.ToLower(h.CPUModel)), " ")
	sum := sha256.Sum256(fmt.Appendf(nil, "%s|%s|%d|%d|%d|%d", h.Architecture, model, h.Cores, h.Threads, h.MaxMegahertz, (h.MemoryBytes+gib/2)/gib))
	return hex.EncodeToString(sum[:8])
}
