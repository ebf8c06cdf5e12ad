// Package openstack tests fleets of OpenStack servers against a real OpenStack. Its tests have the build tag
// openstack and find the services by the variables that hack/openstack/openstack.sh sets; `make
// e2e-openstack` runs them under it.
//
// The hypervisor is Nova's fake one: everything up to it is real, and no guest runs. Each test has its own
// project of the cloud, with its own user and quotas. Tests share the three hosts, each in its own zone:
// roomy, small and broken.
package openstack
