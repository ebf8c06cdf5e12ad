package controlplane

import (
	"runtime/debug"
	"strings"
	_ "unsafe" // for go:linkname

	"k8s.io/component-base/version"
)

// kubernetesVersion is the version that the Kubernetes components report. The linker sets it when
// `make` builds. Otherwise, as in tests, it would be v0.0.0-master, with which clients such as
// cluster-api refuse to work. If the variable is ever removed, the program does not link.
//
//go:linkname kubernetesVersion k8s.io/component-base/version.gitVersion
var kubernetesVersion string

func init() {
	if !strings.HasPrefix(kubernetesVersion, "v0.0.0-") {
		return
	}
	kubernetesVersion = "v" + version.DefaultKubeBinaryVersion + ".0"
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if module.Path == "k8s.io/kubernetes" {
				kubernetesVersion = module.Version
			}
		}
	}
	if err := version.SetDynamicVersion(kubernetesVersion); err != nil {
		panic(err) // it is the same version, which is always valid
	}
}
