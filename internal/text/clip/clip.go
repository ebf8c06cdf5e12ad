// Package clip shortens text that others wrote before it goes into messages, statuses and Events.
package clip

import (
	"strings"
	"unicode/utf8"
)

// Bytes returns text in at most most bytes, which are at least 3. Text that is longer ends in "…",
// and no character is cut in two.
func Bytes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}

// Cell returns at most 40 characters of text, with "..." behind them if there are more: enough to
// find it again where it was read.
func Cell(text string) string {
	const most = 40
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most]) + "..."
}
