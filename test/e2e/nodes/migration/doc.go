// Package migration moves pods between real nodes with all of Supercargo's programs: the scheduler of the
// playground, the descheduler and the node agents, each as a separate process. Its tests
// check what matters to users: that nothing is lost, nothing runs twice, and a Job notices nothing.
package migration
