// Package ledger replays the audit log of an API server, and says which of the promises of
// Supercargo were broken: no machine is bought twice, no pod is bound twice or lost, no
// Migration stays half done, no node stays cordoned, and no replica of a program writes after
// another one has become leader.
//
// It is pure: it has what was written ([Read]), what a test did on purpose ([Meddling]) and
// what there is in the end ([Final]), and nothing else.
//
// write.go reads the log, leaders.go, purchases.go and pods.go check it, final.go checks the
// end of a run.
package ledger
