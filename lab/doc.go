// Package lab is empty. The folders below it are the laboratory, which never runs in a
// cluster:
//
//   - sim runs a cluster in virtual time with the real scheduler; scenario says what it starts
//     from, policy and baseline who decides in it, standby which idle machines sleep, bound what
//     a run must cost at least, outcome what it came to;
//   - replicas and workers replay a service and a workflow under the laws that scale them;
//   - playground is a control plane on this machine; replay drives it, or any cluster, with a
//     recorded workload, report turns what was seen into figures, and compressed shortens
//     every wait for it; demo shows Supercargo by all of these;
//   - planfile reads what is to be planned, hands it to the planner and prints the plan;
//     definition reads what commands are given.
//
// It may import everything that ships. Nothing that ships imports it.
package lab
