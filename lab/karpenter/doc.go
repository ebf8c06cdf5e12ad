// Package karpenter makes the decisions of Karpenter with one NodePool and default settings, for comparison in the
// simulator. It is written from Karpenter's documentation; test/peers/karpenter compares it with the original.
//
// [Solve] plans pods on machines by first-fit decreasing. [Controller] batches pending pods and buys machines for them,
// and removes or replaces machines that are empty or under-used (consolidation).
//
// The package supports what the simulator supports: CPU, memory, pod counts and architectures; prices without spot
// machines; pods that must not be disrupted, but no PodDisruptionBudgets; no expiry and no drift. All machines belong to
// the NodePool, including those that exist at the start. Decisions take no time and never time out.
package karpenter
