// Package replicas is empty. The folders below it replay a service in virtual time: plant is the
// service, decider who decides on its replicas, loop brings both together.
package replicas
