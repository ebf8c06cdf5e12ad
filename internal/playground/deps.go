//go:build deps

package playground

import (
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/go-containerregistry/pkg/v1/layout"
	_ "golang.org/x/term"
	_ "gonum.org/v1/gonum/stat"
	_ "k8s.io/kubernetes/test/integration/scheduler_perf"
	_ "pgregory.net/rapid"
)
