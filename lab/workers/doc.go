// Package workers runs a workflow in virtual time on workers that a law adds and
// removes, and measures what the law came to.
//
// The plant is a manager, its queue and its workers. A task joins the queue when its
// parents and all tasks of lower stages have ended; it starts on the first worker with
// room, in the order of the queue, one that fits nowhere being skipped; it runs exactly
// as long as its file says and occupies what it asks for. A worker asked for connects
// after an initialisation time drawn for it. One whose pod is deleted, as a WorkerPool
// does, takes tasks until it has had none for a while and then leaves; one that is drained
// takes no more tasks and leaves when it is empty; one that is killed leaves at once, and
// its tasks return to the head of the queue and start again from nothing.
//
// A law sees what a real one could. [Pool] is the decision of the controller of WorkerPools
// itself, and is shown pods and the answers of a manager. The laws that it is compared with
// see the queue, who runs what since when, the mean runtime of the tasks of a category that
// have ended (and nothing of those of which none has), the CPU time that workers have used,
// and how long the last worker took to come.
//
// Times are whole milliseconds. The same input gives the same result everywhere.
package workers
