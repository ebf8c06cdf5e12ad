// Package dashboard serves a live, read-only page about a cluster: its cost, which pods are on which
// nodes, which pods are pending and why, and the decisions of Supercargo.
//
// source.go watches the cluster, package view computes the page, hub.go stores its current version, and
// server.go and stream.go send changes to browsers. A slow browser receives fewer updates, but no
// outdated ones.
package dashboard
