// Package dashboard serves a live, read-only page about a cluster: its cost, which pods are on which
// nodes, which pods are pending and why, and the decisions of Supercargo.
//
// source.go watches the cluster, package view computes the page, hub.go stores its current version, and
// server.go and stream.go send changes to browsers. A slow browser receives fewer updates, but no
// outdated ones.
//
// A server has one of two ways to decide who sees the page. On a user's computer it is a token in the address that the
// command prints. In a cluster (serve.go) it is the API server: desk.go admits users by their tokens, and session.go
// has their sessions.
package dashboard
