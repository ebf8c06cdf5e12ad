package main

import "strings"

// cell returns a text for a cell of a table: on one line, and without what Markdown would take for markup.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`).Replace(strings.Join(strings.Fields(text), " "))
}
