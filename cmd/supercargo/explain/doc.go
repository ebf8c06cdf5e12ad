// Package explain says in lines what objects of a cluster have in their status: what was decided
// last and why, what was expected of it and what came of it.
//
// It prints what it is given, and neither reads nor decides anything.
package explain

// orUnknown is a text, or a sign that it is not there.
func orUnknown(text string) string {
	if text == "" {
		return "?"
	}
	return text
}
