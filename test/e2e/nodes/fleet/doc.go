// Package fleet runs what moves pods on a cluster of real nodes: an agent on each, and the
// descheduler. They are the built programs, with the rights that the manifests give them.
package fleet
