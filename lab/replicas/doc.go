// Package replicas presents the results of replays of a service in virtual time. In the packages
// below it, plant simulates the service, decider chooses what decides on its replicas, and loop
// connects both.
package replicas
