// Package install tests Supercargo on clusters made with kubeadm: it installs Supercargo as the documentation
// describes, with only kubectl and helm, uses it, upgrades it and removes it. Its tests have the build tag
// install and need root; `make e2e-install` runs them.
package install
