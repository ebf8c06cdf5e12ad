package constraint

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// simple remembers the compiled pods whose constraints are the name of a node, a node selector and tolerations, which is
// most pods of most clusters. They are found without an allocation.
type simple struct {
	pods map[string]*Pod
	key  keyBuilder
	keys []string
}

// find returns the compiled form of a pod with the given labels, nil if it is not known yet. only is false if the
// pod has other constraints.
func (s *simple) find(pod *corev1.Pod, nodeName string, set map[string]string) (p *Pod, only bool) {
	if !isSimple(&pod.Spec) {
		return nil, false
	}
	s.key.buf = s.key.buf[:0]
	s.key.add(pod.Namespace, nodeName)
	s.addMap(pod.Spec.NodeSelector)
	s.addMap(set)
	for i := range pod.Spec.Tolerations { // in their order: another order only has another key
		t := &pod.Spec.Tolerations[i]
		s.key.add(t.Key, string(t.Operator), t.Value, string(t.Effect))
	}
	return s.pods[string(s.key.buf)], true
}

// remember keeps the compiled form of the pod that was looked up last.
func (s *simple) remember(p *Pod) { s.pods[s.key.String()] = p }

// addMap adds a map as one record.
func (s *simple) addMap(of map[string]string) {
	s.keys = s.keys[:0]
	for key := range of {
		s.keys = append(s.keys, key)
	}
	slices.Sort(s.keys)
	for _, key := range s.keys {
		s.key.addPart(key)
		s.key.addPart(of[key])
	}
	s.key.add()
}

// isSimple reports whether a pod has neither affinities nor topology spread constraints nor host ports.
func isSimple(spec *corev1.PodSpec) bool {
	if spec.Affinity != nil || len(spec.TopologySpreadConstraints) > 0 {
		return false
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for j := range containers[i].Ports {
				if containers[i].Ports[j].HostPort > 0 {
					return false
				}
			}
		}
	}
	return true
}
