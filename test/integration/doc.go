// Package integration tests Supercargo's components against a real API server,
// started in process by the playground package.
package integration
