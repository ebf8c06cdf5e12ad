// Package machine runs Debian virtual machines that are Kubernetes nodes, with the
// playground's control plane in this process. QEMU emulates the machines, so each has a
// kernel, a clock and a disk of its own; they have systemd and control groups of version 2,
// and the kubelet has its defaults.
//
// It needs root, and the disks and the network that hack/vms/vms.sh makes.
package machine
