// Package manifests tests the files under manifests/: that the scheduler loads its configurations and orders
// the plugins as documented, and that the API server accepts the objects.
package manifests
