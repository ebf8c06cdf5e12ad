// Package probe tests probing of a real node: the Job of the descheduler runs the node agent's probe in a
// container of a real kubelet, the result becomes a profile, and because of the profile a running container
// moves with its state to a node that needs less energy.
package probe
