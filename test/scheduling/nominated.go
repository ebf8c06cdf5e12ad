//go:build !kubernetes1.38

package scheduling

// Nominated returns how many pods are nominated to the node.
func (s *Scheduler) Nominated(node string) int {
	return len(s.SchedulingQueue.NominatedPodsForNode(node))
}
