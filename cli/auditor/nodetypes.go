package auditor

import (
	"strings"

	"supercargo.dev/supercargo/internal/input/catalogue"
)

// The size from which on AKS takes a machine as a node, as pods can use of it: 2 vCPUs and 4 GiB.
const (
	leastAzureMilliCPU = 1900
	leastAzureMemory   = 5 << 29
)

// formerAWS are the families of AWS that the current images of EKS do not run on: their processors are older than what
// Amazon Linux 2023 requires, x86-64-v2 and Graviton2.
var formerAWS = map[string]bool{"a1": true, "c1": true, "cc2": true, "cr1": true, "hi1": true, "hs1": true, "m1": true, "m2": true, "t1": true}

// isNode reports whether the managed Kubernetes of a list's provider takes machines of the instance type as nodes.
func isNode(list string, f *catalogue.Flavor) bool {
	switch list {
	case "aws":
		family, _, _ := strings.Cut(f.Name, ".")
		return !formerAWS[family] && !strings.HasPrefix(family, "mac")
	case "azure":
		return f.Size.MilliCPU >= leastAzureMilliCPU && f.Size.MemoryBytes >= leastAzureMemory
	}
	return true
}
