// Package manifests tests the files under manifests/: that the scheduler loads
// its configurations and orders the plugins as they promise, and that the API
// server would take the objects.
package manifests
