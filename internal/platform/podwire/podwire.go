// Package podwire lets clients that are built with the libraries of Kubernetes 1.35 see the gangs of pods of later
// versions.
//
// A pod of Kubernetes 1.35 states its gang in spec.workloadRef, a pod of 1.36 or later in spec.schedulingGroup, which
// the libraries of 1.35 would silently drop. In protobuf the two are the fields 42 and 43 of a message, each with the
// name of the gang as its first field. This package therefore changes what such a client reads: it renumbers field 43
// to 42, where package gang finds the name.
//
// Only pods that are read as protobuf are changed, which is how the clients and caches of controller-runtime read them.
package podwire
