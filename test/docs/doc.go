// Package docs tests that the pages name nothing that is not there: metrics, flags, files of
// manifests, targets of make, headings that links lead to. It also tests what a newcomer runs
// first, make demo.
package docs
