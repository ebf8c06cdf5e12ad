// Package replicas tells what came of replays of a service in virtual time. The folders below it
// make them: plant is the service, decider who decides on its replicas, loop brings both together.
package replicas
