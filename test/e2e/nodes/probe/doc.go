// Package probe tests that a real node is really probed: the Job of the descheduler runs
// the node agent's probe in a container of a real kubelet, a profile comes of it, and by
// that a running container moves with its state to a node that needs less energy.
package probe
