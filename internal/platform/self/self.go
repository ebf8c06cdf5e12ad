// Package self identifies the object of the cluster that represents a program. Events about the program itself, such as
// about a file that it cannot read, refer to that object.
package self

import (
	"cmp"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Environment variables with the identity of the pod. The manifests set them with the downward API.
const (
	EnvName      = "POD_NAME"
	EnvNamespace = "POD_NAMESPACE"
	EnvUID       = "POD_UID"
)

// Object returns the program's pod, if the environment names it and its namespace. Otherwise it returns the node with
// the name of the machine, because a program outside a pod, such as a systemd service, runs directly on a node.
func Object() *corev1.ObjectReference { return object(os.Getenv, os.Hostname) }

func object(env func(string) string, hostname func() (string, error)) *corev1.ObjectReference {
	// kubectl describe finds the Events of a pod by its UID too.
	if name, namespace := env(EnvName), env(EnvNamespace); name != "" && namespace != "" {
		return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name, UID: types.UID(env(EnvUID))}
	}
	host, _ := hostname() // empty on an error
	host = cmp.Or(strings.ToLower(strings.TrimSpace(host)), "localhost")
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: host, UID: types.UID(host)}
}
