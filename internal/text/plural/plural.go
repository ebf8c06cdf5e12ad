// Package plural writes counts and lists in English: 1 pod, 2 pods; a, b and c.
package plural

import (
	"fmt"
	"strings"
)

// Count returns a number with its noun, which is given in the singular: "1 pod", "0 pods", "3 policies".
func Count[N ~int | ~int32 | ~int64](n N, noun string) string {
	return fmt.Sprintf("%d %s", n, Noun(n, noun))
}

// Noun returns the form of a noun, given in the singular, that stands after the number n. Of several words, the last one
// changes. It knows regular nouns only.
func Noun[N ~int | ~int32 | ~int64](n N, noun string) string {
	return Form(n, noun, regular(noun))
}

// Form returns one if n is 1, else many: for verbs, pronouns and irregular nouns, such as "is" and "are".
func Form[N ~int | ~int32 | ~int64](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// regular returns the regular plural of a noun.
func regular(noun string) string {
	for _, ending := range []string{"s", "x", "z", "ch", "sh"} {
		if strings.HasSuffix(noun, ending) {
			return noun + "es"
		}
	}
	if stem, found := strings.CutSuffix(noun, "y"); found && stem != "" && !strings.ContainsRune("aeiou", rune(stem[len(stem)-1])) {
		return stem + "ies"
	}
	return noun + "s"
}

// Part returns a part of several things of one owner: "its pod" for 1 of 1, "both pods" for 2 of 2, "all 3 pods" for 3 of
// 3, else "2 of its 3 pods". The noun is given in the singular.
func Part(part, whole int, noun string) string {
	switch {
	case part < whole:
		return fmt.Sprintf("%d of its %s", part, Count(whole, noun))
	case whole == 1:
		return "its " + noun
	case whole == 2:
		return "both " + Noun(whole, noun)
	}
	return "all " + Count(whole, noun)
}

// All names all of some things: "the only pod", "both pods" or "all 3 pods". The noun is given in the singular.
func All[N ~int | ~int32 | ~int64](n N, noun string) string {
	switch n {
	case 1:
		return "the only " + noun
	case 2:
		return "both " + Noun(n, noun)
	}
	return "all " + Count(n, noun)
}

// List joins words as a sentence does: "a", "a and b", "a, b and c". It is empty for no words.
func List(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
