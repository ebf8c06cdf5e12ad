package replica

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// owners tells the replicas of a target from other pods that its selector matches: the selectors of two Deployments may
// match the pods of both, and each counts its own by their controllers.
//
// A Deployment controls pods through ReplicaSets. The controllers of StatefulSets and ReplicaSets are the targets
// themselves. Other kinds may control pods directly, through ReplicaSets, or through anything else: pods of a controller
// that is not known to belong to another object count as theirs.
type owners struct {
	target types.UID
	// apps is set if the target is a kind of apps, of which it is known how it controls its pods.
	apps bool
	// known says of each controller whether it belongs to the target.
	known map[types.UID]bool
}

// mine reports whether a pod belongs to the target. known is false if its controller has not been read.
func (o *owners) mine(p *corev1.Pod) (mine, known bool) {
	by := metav1.GetControllerOf(p)
	switch {
	case by == nil:
		return !o.apps, true
	case by.UID == o.target:
		return true, true
	case by.Kind != "ReplicaSet":
		return !o.apps, true
	}
	mine, known = o.known[by.UID]
	return mine, known
}

// find reads the ReplicaSets that control pods. A ReplicaSet that the cache does not have yet is left unknown, and
// sure is then false.
func (o *owners) find(ctx context.Context, c client.Reader, pods []corev1.Pod) (sure bool, err error) {
	known := map[types.UID]bool{}
	sure = true
	for i := range pods {
		p := &pods[i]
		by := metav1.GetControllerOf(p)
		if by == nil || by.UID == o.target || by.Kind != "ReplicaSet" {
			continue
		}
		if _, done := known[by.UID]; done {
			continue
		}
		set := &metav1.PartialObjectMetadata{}
		set.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
		err := c.Get(ctx, types.NamespacedName{Namespace: p.Namespace, Name: by.Name}, set)
		if apierrors.IsNotFound(err) || err == nil && set.UID != by.UID {
			sure = false
			continue
		}
		if err != nil {
			return false, fmt.Errorf("read ReplicaSet %s of pod %s: %w", by.Name, p.Name, err)
		}
		above := metav1.GetControllerOf(set)
		known[by.UID] = above != nil && above.UID == o.target || above == nil && !o.apps
	}
	o.known = known
	return sure, nil
}
