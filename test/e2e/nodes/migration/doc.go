// Package migration moves pods between real nodes with all of Supercargo's programs: the
// scheduler of the playground, the descheduler and the node-agents, each as a process of
// its own that can be killed. Its tests ask what users ask: is anything lost, does
// anything run twice, does a Job notice.
package migration
