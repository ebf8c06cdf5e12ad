package main

import "strings"

// cell returns a text for a table cell: on one line, and with the characters escaped that Markdown treats as markup.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`).Replace(strings.Join(strings.Fields(text), " "))
}
