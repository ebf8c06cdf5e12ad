// Package probe tests that a real node is really probed: the Job of the descheduler runs
// the node agent's probe in a container of a real kubelet, and a profile comes of it.
package probe
