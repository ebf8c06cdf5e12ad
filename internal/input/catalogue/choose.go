package catalogue

import (
	"path"
	"strings"
)

// Choose returns the flavors that the patterns select, and the patterns that match none. In a pattern, * matches any
// text and ? any character, slashes included; a pattern that begins with ! excludes its matches. If no pattern selects,
// all flavors are selected except those that are Burstable or Accelerated. A malformed pattern matches none. The result
// points into all, in its order.
func Choose(patterns []string, all []Flavor) (chosen []*Flavor, unmatched []string) {
	used := make([]bool, len(patterns))
	for i := range all {
		if takes(patterns, &all[i], used) {
			chosen = append(chosen, &all[i])
		}
	}
	for i, pattern := range patterns {
		if !used[i] {
			unmatched = append(unmatched, pattern)
		}
	}
	return chosen, unmatched
}

// takes reports whether the patterns select a flavor, and records in used which of them match it.
func takes(patterns []string, f *Flavor, used []bool) bool {
	chosen, excluded, onlyExcludes := false, false, true
	for i, pattern := range patterns {
		pattern, not := strings.CutPrefix(pattern, "!")
		onlyExcludes = onlyExcludes && not
		if ok, err := path.Match(flat(pattern), flat(f.Name)); ok && err == nil {
			used[i] = true
			chosen, excluded = chosen || !not, excluded || not
		}
	}
	return !excluded && (chosen || onlyExcludes && f.Kind == "")
}

// flat replaces slashes, which * and ? of [path.Match] do not match, by a character that no name contains.
func flat(s string) string { return strings.ReplaceAll(s, "/", "\x00") }
