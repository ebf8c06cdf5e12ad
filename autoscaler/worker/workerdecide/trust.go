package workerdecide

import "fmt"

// distrust returns a contradiction in a reading, or empty if there is none. The four answers are given one after the
// other, so small differences in counts are normal. It is a contradiction if one answer has none of what another has
// many.
func distrust(r *Reading) string {
	listed, counted := int64(len(r.Tasks)), r.Queue.Waiting+r.Queue.OnWorkers
	switch {
	case listed == 0 && counted > few:
		return fmt.Sprintf("queue_status counts %d tasks and task_status lists none", counted)
	case counted == 0 && listed > few:
		return fmt.Sprintf("task_status lists %d tasks and queue_status counts none", listed)
	case len(r.Workers) == 0 && r.Queue.Workers > few:
		return fmt.Sprintf("queue_status counts %d workers and worker_status lists none", r.Queue.Workers)
	case r.Queue.Workers == 0 && len(r.Workers) > few:
		return fmt.Sprintf("worker_status lists %d workers and queue_status counts none", len(r.Workers))
	}
	seen := make(map[string]bool, len(r.Workers))
	for i := range r.Workers {
		switch address := r.Workers[i].Address; {
		case address == "":
			return "worker_status lists a worker without an address"
		case seen[address]:
			return fmt.Sprintf("worker_status lists address %q twice", address)
		default:
			seen[address] = true
		}
	}
	return ""
}

// few is the number of tasks or workers that may start or end during the four queries.
const few = 3
