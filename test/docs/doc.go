// Package docs checks that the metrics, flags, manifests, make targets and linked headings in the
// documentation exist. It also tests make demo, which newcomers run first.
package docs
