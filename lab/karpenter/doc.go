// Package karpenter decides about machines as Karpenter does with one NodePool and default settings, for comparison in
// the simulator. It is written from Karpenter's documentation; test/peers/karpenter compares it with the original.
//
// [Solve] plans pods on machines by first-fit decreasing. [Controller] gathers pending pods and buys for them, and
// removes or replaces machines that are empty or under-used (consolidation).
//
// It covers what the simulator has: CPU, memory, numbers of pods and architectures; prices without spot machines; pods
// that must not be disrupted, but no PodDisruptionBudgets; no expiry and no drift. All machines belong to the NodePool,
// including those that exist at the start. Decisions take no time and never time out.
package karpenter
