// Package lab is empty. The packages below it never run in a cluster:
//
//   - sim simulates a cluster in virtual time with the real scheduler; scenario has its input, policy and baseline
//     the policies, bound computes lower bounds of the cost, and outcome
//     presents the results;
//   - replicas and workers replay a service and a workflow under the laws that scale them;
//   - playground is a control plane on this machine; replay drives it, or any cluster, with a recorded workload,
//     report computes figures from the observations, compressed shortens every wait, and demo shows Supercargo
//     with all of these;
//   - planfile reads the input of a plan, calls the planner and prints the plan; definition applies the defaults of
//     the CustomResourceDefinitions to the input of commands.
//
// Packages here may import everything that ships. Nothing that ships imports them.
package lab
