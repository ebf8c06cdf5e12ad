// Package clip shortens external text for messages, statuses and Events.
package clip

import (
	"strings"
	"unicode/utf8"
)

// Bytes returns text in at most most bytes, which must be at least 3. Longer text ends in "…" and is not cut within a
// character.
func Bytes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}

// Cell returns at most 40 characters of text, followed by "..." if there are more: enough to find the cell in its file.
func Cell(text string) string {
	const most = 40
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most]) + "..."
}
