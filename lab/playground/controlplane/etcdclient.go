package controlplane

import (
	_ "unsafe" // for go:linkname

	"go.uber.org/zap"
	_ "k8s.io/apiserver/pkg/storage/storagebackend/factory" // holds the variable
)

// etcdClientLogger is the logger of the API server's etcd clients. Kubernetes creates it for the
// terminal when the program starts, and offers no way to change it. Without this, a stopping
// playground would print many warnings about calls that its stop has cut off. If the variable is
// ever removed, the program does not link.
//
//go:linkname etcdClientLogger k8s.io/apiserver/pkg/storage/storagebackend/factory.etcd3ClientLogger
var etcdClientLogger *zap.Logger

func init() { etcdClientLogger = zap.NewNop() }
