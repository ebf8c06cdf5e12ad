package playground

import (
	"runtime/debug"
	"strings"
	_ "unsafe" // for go:linkname

	"k8s.io/component-base/version"
)

// kubernetesVersion is what the Kubernetes components call themselves. The linker
// sets it when `make` builds. Programs that are built otherwise, as tests are,
// would be of version v0.0.0-master, with which clients such as cluster-api refuse
// to work. Should the variable go, the program does not link.
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
		panic(err) // it is the same, which is always right
	}
}
