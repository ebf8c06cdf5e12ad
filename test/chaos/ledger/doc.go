// Package ledger replays the audit log of an API server and reports violated invariants: no machine
// is bought twice, no pod is bound twice or lost, no Migration stays unfinished, no node stays
// cordoned, and no replica of a program writes after another replica has become leader.
//
// It is pure: its input is the audit log ([Read]), the changes that a test made to Leases
// ([Meddling]) and the final state ([Final]).
//
// write.go reads the log, leaders.go, purchases.go and pods.go check it, and final.go checks the
// final state.
package ledger
