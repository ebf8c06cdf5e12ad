// Package nodes tests what runs on real nodes: kubelets, containerd, runc and CRIU. Its tests have the build
// tag nodes, need root, and find their programs in the folder that NODES_DIR names; `make e2e-nodes` puts
// them there first.
package nodes
