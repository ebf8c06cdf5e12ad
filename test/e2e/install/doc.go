// Package install installs Supercargo on clusters that kubeadm makes, as its pages say
// and with kubectl and helm alone, uses it, upgrades and removes it. Its tests have the
// build tag install and need root; `make e2e-install` runs them.
package install
