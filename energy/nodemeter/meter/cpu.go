package meter

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// microarchitecture returns the name of the node's CPU in the table of virtual CPUs, such as
// "Cascade Lake"; empty if it is not in the table.
func microarchitecture(proc string) string {
	f, err := os.Open(filepath.Join(proc, "cpuinfo"))
	if err != nil {
		return "" // the table has a mean for unknown CPUs
	}
	defer f.Close()
	return parseMicroarchitecture(io.LimitReader(f, mostStatBytes))
}

// parseMicroarchitecture parses the first CPU of /proc/cpuinfo. Families and models are those
// that Intel and AMD publish for their servers; Cascade Lake has Skylake's model and a later
// stepping.
func parseMicroarchitecture(r io.Reader) string {
	values := map[string]string{}
	lines := bufio.NewScanner(r)
	for lines.Scan() && lines.Text() != "" {
		name, value, _ := strings.Cut(lines.Text(), ":")
		values[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	number := func(name string) int {
		n, err := strconv.Atoi(values[name])
		if err != nil {
			return -1
		}
		return n
	}
	family, model := number("cpu family"), number("model")
	switch values["vendor_id"] {
	case "GenuineIntel":
		if family == 6 && model == 85 && number("stepping") >= 5 {
			return "Cascade Lake"
		}
		if family == 6 {
			return intelModels[model]
		}
	case "AuthenticAMD":
		switch {
		case family == 23 && model < 0x30:
			return "EPYC 1st Gen"
		case family == 23:
			return "EPYC 2nd Gen"
		case family == 25 && model < 0x10:
			return "EPYC 3rd Gen"
		}
	}
	return ""
}

// intelModels are the models of Intel's family 6.
var intelModels = map[int]string{
	45: "Sandy Bridge", 62: "Ivy Bridge", 63: "Haswell", 79: "Broadwell", 86: "Broadwell", 85: "Skylake", 158: "Coffee Lake",
}

// cloudOf returns the cloud of a node as the table names it, from the scheme of its provider ID
// ("aws:///eu-west-1a/i-0123").
func cloudOf(providerID string) string {
	scheme, _, _ := strings.Cut(providerID, "://")
	if scheme == "gce" {
		return "gcp"
	}
	return scheme
}
