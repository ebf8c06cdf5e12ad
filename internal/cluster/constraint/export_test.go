package constraint

import corev1 "k8s.io/api/core/v1"

// CompileAgain is [Compiler.Compile] without what earlier calls have compiled of pods that are written the same.
func (c *Compiler) CompileAgain(pod *corev1.Pod) (*Pod, error) {
	c.compiled.pods = map[string]*Pod{}
	return c.Compile(pod)
}
