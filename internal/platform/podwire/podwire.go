// Package podwire lets clients built with the libraries of Kubernetes 1.35 see the gangs of
// pods of later versions.
//
// A pod of Kubernetes 1.35 says in spec.workloadRef which gang it is in, and one of 1.36 or
// later in spec.schedulingGroup, which the libraries of 1.35 would drop without a word. On
// the wire the two are the fields 42 and 43 of a message, each with the name of the gang as
// its first field. So what such a client reads is changed in one place: a field 43 becomes a
// field 42, and package gang finds the name where it looks for it.
//
// Only pods that are read as protobuf are changed, which is how the clients and caches of
// controller-runtime read them.
package podwire
