package scenario

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"supercargo.dev/supercargo/internal/input/table"
)

// Limits of single numbers, small enough for sums over a whole scenario.
const (
	maxMilliCPU            = 1_000_000_000
	maxMemoryBytes         = 1 << 50
	maxMicroDollarsPerHour = 1_000_000 * 1_000_000
	maxMilliwatts          = 1_000_000_000
	maxMaxPods             = 1_000_000
	maxBitsPerSecond       = 1_000_000_000_000_000
	maxRatio               = 1000 // of speeds and sizes of checkpoints
	maxRatePerSecond       = 1_000_000
	millionths             = 1_000_000
)

var errZero = errors.New("must be more than 0")

// decimal is [table.Decimal] with the maximum most.
func decimal(text string, unit, most int64, r table.Rounding) (int64, error) {
	value, err := table.Decimal(text, unit, r)
	if errors.Is(err, table.ErrTooLarge) || err == nil && value > most {
		return 0, fmt.Errorf("must be at most %s", new(big.Rat).SetFrac64(most, unit).FloatString(0))
	}
	return value, err
}

// suffixed is [table.Decimal] with the maximum most and a unit after the number. The suffix "" is for no unit.
func suffixed(text string, most int64, r table.Rounding, example string, suffixes map[string]int64) (int64, error) {
	number := strings.TrimRight(text, "KMGTikm")
	unit, ok := suffixes[text[len(number):]]
	if !ok {
		return 0, fmt.Errorf("has an unknown unit: must be %s", example)
	}
	value, err := table.Decimal(number, unit, r)
	switch {
	case errors.Is(err, table.ErrNotNumber):
		return 0, fmt.Errorf("must be %s", example)
	case err == nil && value > most:
		return 0, table.ErrTooLarge
	}
	return value, err
}

func parseCPU(text string) (int64, error) {
	return suffixed(text, maxMilliCPU, table.Exact, "cores or milli-CPU such as 2, 0.5 or 100m", map[string]int64{"": 1000, "m": 1})
}

func parseMemory(r table.Rounding) func(text string) (int64, error) {
	return func(text string) (int64, error) {
		return suffixed(text, maxMemoryBytes, r, "an amount such as 300Mi, 0.9Gi or 1G", map[string]int64{
			"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40,
		})
	}
}

func parseBandwidth(text string) (int64, error) {
	return suffixed(text, maxBitsPerSecond, table.Exact, "bits per second such as 1200M or 10G",
		map[string]int64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9})
}

// parseDuration reads a Go duration from 0 to [MaxDuration].
func parseDuration(text string) (time.Duration, error) {
	if strings.HasPrefix(text, "-") {
		return 0, table.ErrNegative
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil || strings.HasPrefix(text, "+"):
		return 0, errors.New("must be a duration with a unit, such as 20s, 5m or 1h30m")
	case d > MaxDuration:
		return 0, fmt.Errorf("must be at most %v", MaxDuration)
	}
	return d, nil
}

// parseRate parses pods per second, minute or hour.
func parseRate(text string) (Rate, error) {
	number, unit, _ := strings.Cut(text, "/")
	seconds, ok := map[string]int64{"s": 1, "m": 60, "h": 3600}[unit]
	if !ok {
		return 0, errors.New("must be a rate such as 0.5/s, 12/m or 30/h")
	}
	value, err := decimal(number, millionths, maxRatePerSecond*millionths, table.Exact)
	if err != nil {
		return 0, err
	}
	return Rate(float64(value) / float64(seconds*millionths)), nil
}

// lowerWord and lowerAlnum match texts that only this format restricts.
var (
	lowerWord  = regexp.MustCompile(`^[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$`)
	lowerAlnum = regexp.MustCompile(`^[a-z0-9]{1,16}$`)
)

func validLabel(text string) bool { return text != "" && len(validation.IsValidLabelValue(text)) == 0 }

// validName reports whether text is a valid namespace or prefix of pod names.
func validName(text string) bool { return len(validation.IsDNS1123Label(text)) == 0 }

func validPodName(text string) bool { return len(validation.IsDNS1123Subdomain(text)) == 0 }

// printable reports whether s has at most 253 bytes and no control characters.
func printable(s string) bool {
	for _, c := range s {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	return len(s) <= 253
}
