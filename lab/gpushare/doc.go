// Package gpushare fills a fixed cluster with pods that request GPUs and shares of GPUs, to compare how much of the GPUs the
// policies of schedulers leave unusable. It follows the evaluation of fragmentation gradient descent (Weng et al., Beware
// of Fragmentation, USENIX ATC 2023): pods are drawn from a list, arrive one by one and stay, until they have requested more
// GPUs than there are. A pod that fits nowhere when it arrives does not come again.
//
// A share is of one device of a node, for all policies: a node whose devices have less left each does not fit the pod, however
// much they have together.
package gpushare
