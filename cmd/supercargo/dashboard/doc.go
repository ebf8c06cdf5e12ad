// Package dashboard serves a live, read-only page about a cluster: what it costs, which pods are
// on which nodes, what waits and why, and what Supercargo decides.
//
// source.go watches the cluster, package view says what is shown of it, hub.go keeps what was
// said last, and server.go tells browsers what has changed since they asked. A browser that reads
// slowly is told less often, never less.
package dashboard
