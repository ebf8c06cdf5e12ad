package constraint

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"supercargo.dev/supercargo/internal/cluster/capacity"
)

// keyBuilder builds strings that are equal only if the same records were added.
type keyBuilder struct{ buf []byte }

// newKey returns a builder with a capacity of size bytes.
func newKey(size int) keyBuilder { return keyBuilder{buf: make([]byte, 0, size)} }

// add appends one record. Length prefixes keep the parts unambiguous.
func (k *keyBuilder) add(parts ...string) {
	for _, part := range parts {
		k.addPart(part)
	}
	k.buf = append(k.buf, ';')
}

// addPart appends a part of the next record.
func (k *keyBuilder) addPart(part string) {
	k.buf = strconv.AppendInt(k.buf, int64(len(part)), 10)
	k.buf = append(k.buf, ':')
	k.buf = append(k.buf, part...)
}

// String returns everything added so far.
func (k *keyBuilder) String() string { return string(k.buf) }

// texts returns the requirements as a user would write them, sorted.
func texts(requirements []labels.Requirement) []string {
	text := make([]string, len(requirements))
	for i := range requirements {
		text[i] = requirements[i].String()
	}
	slices.Sort(text)
	return slices.Compact(text)
}

// selectorKey returns a key that is equal for equal requirements, regardless of their order and of whether a single
// value is written as `in` or as `=`.
func selectorKey(s labels.Selector) string {
	requirements, selects := s.Requirements()
	if !selects {
		return "nothing"
	}
	parts := make([]string, len(requirements))
	for i := range requirements {
		op := requirements[i].Operator()
		if op == selection.Equals || op == selection.DoubleEquals {
			op = selection.In
		}
		var k keyBuilder
		k.add(requirements[i].Key(), string(op))
		k.add(requirements[i].Values().List()...)
		parts[i] = k.String()
	}
	slices.Sort(parts)
	var k keyBuilder
	k.add(slices.Compact(parts)...)
	return k.String()
}

// compiled remembers the compiled form of pods by what determines it, as it is written in the pod. A cluster has many pods
// of few kinds, and to find one takes no memory and a fraction of the time. Constraints that are equal but written in
// another way have another key here, and the same *Pod.
type compiled struct {
	pods map[string]*Pod
	key  keyBuilder
	keys []string
}

// find returns the compiled form of a pod with the given labels, nil if it is not known yet.
func (c *compiled) find(pod *corev1.Pod, nodeName string, set map[string]string) *Pod {
	c.key.buf = c.key.buf[:0]
	c.key.add(pod.Namespace, nodeName)
	if accepts, _ := capacity.Accepts(pod); !accepts {
		c.key.add("steady")
	}
	c.addMap(pod.Spec.NodeSelector)
	c.addMap(set)
	for i := range pod.Spec.Tolerations {
		t := &pod.Spec.Tolerations[i]
		c.key.addPart(t.Key)
		c.key.addPart(string(t.Operator))
		c.key.addPart(t.Value)
		c.key.addPart(string(t.Effect))
	}
	c.key.add()
	for i := range pod.Spec.InitContainers {
		c.addPorts(&pod.Spec.InitContainers[i])
	}
	c.key.add()
	for i := range pod.Spec.Containers {
		c.addPorts(&pod.Spec.Containers[i])
	}
	c.key.add()
	if pod.Spec.Affinity != nil {
		c.addMessage(pod.Spec.Affinity)
	}
	c.key.add()
	for i := range pod.Spec.TopologySpreadConstraints {
		c.addMessage(&pod.Spec.TopologySpreadConstraints[i])
	}
	return c.pods[string(c.key.buf)]
}

// remember keeps the compiled form of the pod that was looked up last.
func (c *compiled) remember(p *Pod) { c.pods[c.key.String()] = p }

// addMap adds a map as one record.
func (c *compiled) addMap(of map[string]string) {
	c.keys = c.keys[:0]
	for key := range of {
		c.keys = append(c.keys, key)
	}
	slices.Sort(c.keys)
	for _, key := range c.keys {
		c.key.addPart(key)
		c.key.addPart(of[key])
	}
	c.key.add()
}

// addPorts adds the host ports of a container, and whether it is a sidecar.
func (c *compiled) addPorts(of *corev1.Container) {
	for i := range of.Ports {
		p := &of.Ports[i]
		if p.HostPort <= 0 {
			continue
		}
		var policy corev1.ContainerRestartPolicy
		if of.RestartPolicy != nil {
			policy = *of.RestartPolicy
		}
		c.key.addPart(string(policy))
		c.key.addPart(p.HostIP)
		c.key.addPart(string(p.Protocol))
		c.key.addPart(strconv.Itoa(int(p.HostPort)))
	}
}

// message is a part of a pod in the encoding of protocol buffers, which sorts the keys of maps.
type message interface {
	Size() int
	MarshalToSizedBuffer(to []byte) (int, error)
}

// addMessage appends a part of the next record.
func (c *compiled) addMessage(m message) {
	n := m.Size()
	c.key.buf = strconv.AppendInt(c.key.buf, int64(n), 10)
	c.key.buf = append(c.key.buf, ':')
	from := len(c.key.buf)
	c.key.buf = slices.Grow(c.key.buf, n)[:from+n]
	if _, err := m.MarshalToSizedBuffer(c.key.buf[from:]); err != nil {
		panic(err) // the buffer is large enough
	}
}
