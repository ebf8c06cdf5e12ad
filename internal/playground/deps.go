package playground

import (
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/go-containerregistry/pkg/v1/layout"
	_ "go.etcd.io/etcd/server/v3/embed"
	_ "golang.org/x/term"
	_ "gonum.org/v1/gonum/stat"
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	_ "k8s.io/kubernetes/cmd/kube-scheduler/app"
	_ "k8s.io/kubernetes/test/integration/scheduler_perf"
	_ "pgregory.net/rapid"
	_ "github.com/spf13/cobra"
)
