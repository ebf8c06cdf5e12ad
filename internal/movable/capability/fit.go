package capability

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// maxNamed is how many missing features an error names.
const maxNamed = 3

// Fits returns nil if the node can restore the container. Otherwise it returns the reason, worded to follow "the node".
// Both values must come from the parse functions of this package or have sorted lists. Fits does not allocate if the
// node fits.
func (r Requirements) Fits(n Node) error {
	if _, ok := slices.BinarySearch(n.Backends, r.Backend); !ok {
		return fmt.Errorf("does not support back-end %s (its agent supports %s)", r.Backend, orNone(n.Backends))
	}
	if !n.Restore {
		return errors.New("has a container runtime that does not restore checkpoints")
	}
	if r.Arch != "" && r.Arch != n.Arch {
		return fmt.Errorf("has architecture %s instead of %s", orUnknown(n.Arch), r.Arch)
	}
	if err := oldEnough("kernel", r.Kernel, n.Kernel); err != nil {
		return err
	}
	if err := r.fitsRuntime(n); err != nil {
		return err
	}
	if err := oldEnough("CRIU", r.CRIU, n.CRIU); err != nil {
		return err
	}
	if named, count := lacking(r.CPUFeatures, n.CPUFeatures); count > 0 {
		return lacks(named, count)
	}
	return nil
}

func (r Requirements) fitsRuntime(n Node) error {
	want, have := runtimeName(r.Runtime), runtimeName(n.Runtime)
	if want == "" {
		return nil
	}
	if want != have {
		return fmt.Errorf("has container runtime %s instead of %s", orUnknown(have), want)
	}
	return oldEnough(want, runtimeVersion(r.Runtime), runtimeVersion(n.Runtime))
}

// runtimeName and runtimeVersion are the parts of "containerd://2.3.7".
func runtimeName(runtime string) string {
	name, _, _ := strings.Cut(runtime, "://")
	return name
}

func runtimeVersion(runtime string) string {
	_, version, _ := strings.Cut(runtime, "://")
	return version
}

// oldEnough returns an error if the version have is older than least, or cannot be parsed.
func oldEnough(what, least, have string) error {
	if least == "" {
		return nil
	}
	want, known := parseVersion(least)
	got, ok := parseVersion(have)
	if !known || !ok {
		return fmt.Errorf("has %s %s, which cannot be compared with %s", what, orUnknown(have), least)
	}
	if slices.Compare(got[:], want[:]) < 0 {
		return fmt.Errorf("has %s %s, older than %s", what, have, least)
	}
	return nil
}

// parseVersion returns the first three numbers of a version such as "6.18.0-3-amd64". Missing numbers are 0. It returns
// false if the version does not start with a number.
func parseVersion(version string) (numbers [3]int, ok bool) {
	rest := strings.TrimPrefix(version, "v")
	for i := range numbers {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		number, err := strconv.Atoi(rest[:digits])
		if err != nil {
			return numbers, i > 0
		}
		numbers[i] = number
		rest = rest[digits:]
		if !strings.HasPrefix(rest, ".") {
			break
		}
		rest = rest[1:]
	}
	return numbers, true
}

// lacking returns how many of the wanted names are not in have, and the first of them. Both lists must be sorted and
// without duplicates. It scans each list once and does not allocate.
func lacking[T cmp.Ordered](want, have []T) (named [maxNamed]T, count int) {
	for _, w := range want {
		for len(have) > 0 && have[0] < w {
			have = have[1:]
		}
		if len(have) > 0 && have[0] == w {
			continue
		}
		if count < maxNamed {
			named[count] = w
		}
		count++
	}
	return named, count
}

func lacks(named [maxNamed]string, count int) error {
	text := "lacks CPU feature " + named[0]
	if count > 1 {
		text = "lacks CPU features " + strings.Join(named[:min(count, maxNamed)], ", ")
	}
	if count > maxNamed {
		text += fmt.Sprintf(" and %d more", count-maxNamed)
	}
	return errors.New(text)
}

func orNone(backends []v1alpha1.MigrationBackend) string {
	if len(backends) == 0 {
		return "none"
	}
	return strings.Join(anyStrings(backends), ", ")
}

func orUnknown(value string) string { return cmp.Or(value, "unknown") }
