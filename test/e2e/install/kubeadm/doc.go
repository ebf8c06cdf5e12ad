// Package kubeadm makes clusters with kubeadm, as its users do, on machines of package
// cluster: a control plane of static pods, kube-proxy and CoreDNS, all from images that
// are made here of programs that `nodes.sh install` has built. No registry is asked.
package kubeadm
