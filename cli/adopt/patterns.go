package adopt

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"supercargo.dev/supercargo/internal/input/catalogue"
)

// mostPatterns is the maximum number of patterns of a NodeFleet, and longestPattern their maximum length.
const (
	mostPatterns   = 1000
	longestPattern = 63
)

// patternSyntax is the syntax of patterns of a NodeFleet.
var patternSyntax = regexp.MustCompile(`^!?[A-Za-z0-9*][A-Za-z0-9*._/-]*$`)

// patterns returns patterns that choose exactly the chosen of the known instance types, which are ordered by name. It
// returns none if they are what a NodeFleet chooses by default, and false if there are no such patterns.
//
// Whole families become m7i.*, whole groups of families m*, and sizes of which no type is chosen !*.metal.
func patterns(known []catalogue.Flavor, chosen []string) ([]string, bool) {
	if slices.Equal(namesOf(catalogue.Choose(nil, known)), chosen) {
		return nil, true
	}
	short := shortened(known, chosen)
	if len(chosen) <= len(short) {
		short = chosen
	}
	for _, tried := range [][]string{short, chosen} {
		fits := len(tried) > 0 && len(tried) <= mostPatterns && !slices.ContainsFunc(tried, func(p string) bool { return len(p) > longestPattern })
		if fits && slices.Equal(namesOf(catalogue.Choose(tried, known)), chosen) {
			return tried, true
		}
	}
	return nil, false
}

func namesOf(chosen []*catalogue.Flavor, _ []string) []string {
	all := make([]string, len(chosen))
	for i, t := range chosen {
		all[i] = t.Name
	}
	return all
}

// family are the instance types with the same part of the name before the size.
type family struct {
	// prefix is common to the names, separator included; types of which names have no such part are a family each.
	prefix string
	types  []string
}

// families groups names, in their order.
func families(names []string) (all []family) {
	at := map[string]int{}
	for _, name := range names {
		prefix := cmp.Or(prefixOf(name), name)
		i, is := at[prefix]
		if !is {
			i = len(all)
			at[prefix] = i
			all = append(all, family{prefix: prefix})
		}
		all[i].types = append(all[i].types, name)
	}
	return all
}

// shortened returns patterns for the chosen types: first those that choose, then those that exclude, each ordered.
func shortened(known []catalogue.Flavor, chosen []string) []string {
	names := make([]string, len(known))
	for i := range known {
		names[i] = known[i].Name
	}
	is := make(map[string]bool, len(chosen))
	for _, name := range chosen {
		is[name] = true
	}
	sizes := unchosenSizes(families(names), is)
	var take, leave []string
	for _, size := range sizes {
		leave = append(leave, "!*."+size)
	}
	names = keep(names, func(name string) bool { return !slices.Contains(sizes, sizeOf(name)) })
	whole := map[string]bool{} // prefixes of families of which everything is chosen, or most
	all := families(names)
	for _, f := range all {
		in := keep(f.types, func(name string) bool { return is[name] })
		out := keep(f.types, func(name string) bool { return !is[name] })
		switch {
		case len(in) == 0:
		case len(in) <= 1+len(out) && len(out) > 0 || len(f.types) == 1:
			take = append(take, in...)
		default:
			whole[f.prefix] = true
			for _, name := range out {
				leave = append(leave, "!"+name)
			}
		}
	}
	some, none := groups(all, whole, take)
	take, leave = append(take, some...), append(leave, none...)
	slices.Sort(take)
	slices.Sort(leave)
	return slices.Concat(take, leave)
}

// unchosenSizes returns the sizes that families with chosen types have, and of which no type is chosen, if excluding
// them is shorter than excluding each of the types.
func unchosenSizes(all []family, chosen map[string]bool) []string {
	out, in := map[string]int{}, map[string]bool{}
	for _, f := range all {
		used := slices.ContainsFunc(f.types, func(name string) bool { return chosen[name] })
		for _, name := range f.types {
			if size := sizeOf(name); size != "" && used {
				in[size] = in[size] || chosen[name]
				out[size]++
			}
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(out)), func(size string) bool { return in[size] || out[size] < 2 })
}

// groups returns patterns for whole families. Families whose prefixes begin with the same letters are a group: a group is
// chosen as a whole, and the others of it excluded, if that is shorter. Single types that are chosen besides must not be
// excluded with them.
func groups(all []family, whole map[string]bool, single []string) (take, leave []string) {
	members := map[string][]string{}
	for _, f := range all {
		members[letters(f.prefix)] = append(members[letters(f.prefix)], f.prefix)
	}
	for _, group := range slices.Sorted(maps.Keys(members)) {
		in := keep(members[group], func(prefix string) bool { return whole[prefix] })
		if len(in) == 0 {
			continue
		}
		var out []string // that the pattern of the group would choose too
		for _, other := range slices.Sorted(maps.Keys(members)) {
			if strings.HasPrefix(other, group) {
				out = append(out, keep(members[other], func(prefix string) bool { return !whole[prefix] })...)
			}
		}
		usable := group != "" && !slices.ContainsFunc(out, func(prefix string) bool {
			return slices.ContainsFunc(single, func(name string) bool { return strings.HasPrefix(name, prefix) })
		})
		if usable && 1+len(out) < len(in) {
			take = append(take, group+"*")
			for _, prefix := range out {
				leave = append(leave, "!"+prefix+"*")
			}
			continue
		}
		for _, prefix := range in {
			take = append(take, prefix+"*")
		}
	}
	slices.Sort(leave)
	return take, slices.Compact(leave)
}

// letters returns the letters with which a name begins.
func letters(name string) string {
	isLetter := func(b byte) bool { return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' }
	end := 0
	for end < len(name) && isLetter(name[end]) {
		end++
	}
	return name[:end]
}
