// Package version holds the version of Supercargo that a binary was built from.
package version

// Version is the release or commit that a binary was built from, as named by `git describe`: "v0.3.0",
// "v0.3.0-12-g1a2b3c4", with "-dirty" if the tree had changes. The linker sets it (-X); a plain `go build` or `go test`
// leaves it at "devel". It must not be assigned at run time.
//
// The Kubernetes version of a binary is in k8s.io/component-base/version.
var Version = "devel"
