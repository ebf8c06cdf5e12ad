// Package workers simulates a workflow in virtual time on workers that a law adds and removes, and
// measures the result of the law.
//
// The plant is a manager, its queue and its workers. A task is queued when its parents and all
// tasks of lower stages have ended. It starts on the first worker with room, in queue order; tasks
// that fit nowhere are skipped. It runs exactly as long as its file says and occupies the resources
// that it requests. A requested worker connects after a random initialization time. A worker whose
// pod is deleted, as a WorkerPool does, accepts tasks until it has been idle for a while and then
// leaves. A drained worker accepts no more tasks and leaves when it is empty. A killed worker
// leaves at once, and its tasks return to the head of the queue and restart from the beginning.
//
// A law observes what a real one could. [Pool] is the decision of the WorkerPool controller itself
// and observes pods and the answers of a manager. The laws that it is compared with observe the
// queue, the running tasks with their start times, the mean runtime of the finished tasks of a
// category (nothing for categories without any), the CPU time used by workers, and the start-up
// time of the worker that connected last.
//
// Times are whole milliseconds. The same input gives the same result everywhere.
package workers
