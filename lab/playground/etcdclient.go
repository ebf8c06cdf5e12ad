package playground

import (
	_ "unsafe" // for go:linkname

	"go.uber.org/zap"
	_ "k8s.io/apiserver/pkg/storage/storagebackend/factory" // holds the variable
)

// etcdClientLogger is what the API server's etcd clients log with. Kubernetes
// makes it when the program starts, for the terminal, and gives no way to change
// it: a playground that stops would leave a page of warnings there about calls
// that its stop has cut off. Should the variable go, the program does not link.
//
//go:linkname etcdClientLogger k8s.io/apiserver/pkg/storage/storagebackend/factory.etcd3ClientLogger
var etcdClientLogger *zap.Logger

func init() { etcdClientLogger = zap.NewNop() }
