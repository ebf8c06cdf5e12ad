//go:build openstack

package openstack

func childMain() int { return 1 }
