// Package words keeps retired words out of the repository: in pages, help texts, messages, comments, identifiers, names of
// files, the Makefile, scripts, manifests, and reasons. The table is in table.go.
package words
