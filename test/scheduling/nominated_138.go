//go:build kubernetes1.38

package scheduling

import "k8s.io/klog/v2"

// Nominated returns how many pods are nominated to the node.
func (s *Scheduler) Nominated(node string) int {
	return len(s.SchedulingQueue.NominatedPodsForNode(klog.FromContext(s.ctx), node))
}
