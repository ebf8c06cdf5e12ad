// Package self says which object of a cluster a program is. Events about what concerns the
// program alone, such as a file that it cannot read, are about that object.
package self

import (
	"cmp"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What the environment tells a program of its pod. The manifests have the kubelet set them.
const (
	EnvName      = "POD_NAME"
	EnvNamespace = "POD_NAMESPACE"
	EnvUID       = "POD_UID"
)

// Object returns the program's pod, where the environment names it and its namespace. Else it
// returns the node that is called as the machine is: one that runs outside a pod, as a service
// of systemd does, is about that if about anything. It costs a look at the environment.
func Object() *corev1.ObjectReference { return object(os.Getenv, os.Hostname) }

func object(env func(string) string, hostname func() (string, error)) *corev1.ObjectReference {
	// kubectl describe finds the Events of a pod by its UID too.
	if name, namespace := env(EnvName), env(EnvNamespace); name != "" && namespace != "" {
		return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name, UID: types.UID(env(EnvUID))}
	}
	host, _ := hostname() // a machine that does not tell its name has none
	host = cmp.Or(strings.ToLower(strings.TrimSpace(host)), "localhost")
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: host, UID: types.UID(host)}
}
