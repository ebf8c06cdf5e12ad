// Package cluster runs real nodes on one Linux machine: kubelets with containerd, runc and CRIU, and the
// playground's control plane in this process, with Supercargo's own kube-scheduler.
//
// Each node is a set of namespaces (mount, network, process, host name) whose first process is a child of
// this process. If this process ends for any reason, the kernel ends the node. A guard that outlives this
// process then removes what the kernel leaves: control groups and a network bridge. See sweep.sh.
//
// It needs root, and the programs that `make nodes-install` builds.
package cluster
