package replica

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/autoscaler/replica/replicadecide"
)

// errOvertaken reports that the scale has changed since the decision was made.
var errOvertaken = errors.New("another client has changed it")

// conflicts is the number of attempts to write the scale. Writes conflict often, because the status of a Deployment
// changes often while it scales.
const conflicts = 4

// rescale writes the scale, provided that it is unchanged since the decision. The API server refuses the write if the
// object has changed since it was read. wrote is false if the scale is as decided already.
func (e *evaluation) rescale(ctx context.Context, out *replicadecide.Outcome) (wrote bool, err error) {
	target := e.object.Spec.Target
	key := types.NamespacedName{Namespace: e.key.Namespace, Name: target.Name}
	kind, _, err := e.Kinds.of(groupKind(target), e.now)
	if err != nil {
		return false, err
	}
	for attempt := 1; ; attempt++ {
		scale, err := e.Scaler.Scale(ctx, kind, key)
		if err != nil {
			return false, fmt.Errorf("read the scale: %w", err)
		}
		switch int(scale.Spec.Replicas) {
		case out.Replicas:
			return false, nil
		case out.From:
		default:
			return false, fmt.Errorf("it has %d replicas: %w", scale.Spec.Replicas, errOvertaken)
		}
		scale.Spec.Replicas = int32(out.Replicas)
		err = e.Scaler.SetScale(ctx, kind, scale)
		if err == nil {
			return true, nil
		}
		if !apierrors.IsConflict(err) || attempt == conflicts {
			return false, fmt.Errorf("write the scale: %w", err)
		}
	}
}
