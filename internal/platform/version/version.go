// Package version says which Supercargo a binary was built from.
package version

// Version is the release or commit that a binary was built from, as `git
// describe` names it: "v0.3.0", "v0.3.0-12-g1a2b3c4", with "-dirty" when the
// tree had changes. The linker sets it (-X); a plain `go build` or `go test`
// leaves it at "devel". It is not to be assigned at run time.
//
// The Kubernetes version that a binary speaks for is
// k8s.io/component-base/version's business, not this package's.
var Version = "devel"
