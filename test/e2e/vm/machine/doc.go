// Package machine runs Debian virtual machines as Kubernetes nodes, with the playground's control plane
// in the test's process. QEMU emulates the machines, so each has its own kernel, clock and disk. They
// run systemd with control groups v2, and a kubelet with its default configuration.
//
// It needs root, and the disks and the network that hack/vms/vms.sh creates.
package machine
