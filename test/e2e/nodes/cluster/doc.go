// Package cluster runs real nodes on one Linux machine: kubelets with containerd, runc
// and CRIU, and the playground's control plane in this process, with Supercargo's own
// kube-scheduler.
//
// Each node is a set of namespaces (mount, network, process, host name) whose first
// process is a child of this one: whatever happens to this process, the kernel ends the
// node with it. What the kernel leaves, control groups and a network bridge, a guard
// removes that outlives this process. See sweep.sh.
//
// It needs root, and the programs that `make nodes-install` builds.
package cluster
