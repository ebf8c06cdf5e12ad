// Package fleet runs the programs that move pods on a cluster of real nodes: an agent on each node, and the
// descheduler. They are the built programs, with the permissions in the manifests.
package fleet
