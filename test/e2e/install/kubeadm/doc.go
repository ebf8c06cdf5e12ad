// Package kubeadm makes clusters with kubeadm, as its users do, on machines of package cluster: a control
// plane of static pods, kube-proxy and CoreDNS, all from images that are built here from programs that
// `nodes.sh install` has built. It uses no registry.
package kubeadm
