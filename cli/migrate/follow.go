package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/status"
)

// ErrStopped is the error when the wait is cancelled.
var ErrStopped = errors.New("stopped waiting")

// Follow waits until a migration has ended, and leaves its last state in m. It calls show with
// each state that it sees. The error is [ErrStopped] when ctx ends; the migration continues then.
func Follow(ctx context.Context, c client.WithWatch, m *v1alpha1.Migration, show func(*v1alpha1.Migration)) error {
	key := client.ObjectKeyFromObject(m)
	for {
		err := followOnce(ctx, c, m, show)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%w: Migration %s continues; `supercargo explain migration/%s -n %s` shows its state, `kubectl delete migration -n %s %s` cancels it",
				ErrStopped, key.Name, key.Name, key.Namespace, key.Namespace, key.Name)
		case apierrors.IsNotFound(err):
			return fmt.Errorf("migration %s was cancelled: its object was deleted: %w", key.Name, err)
		case !errors.Is(err, errWatchEnded) && !passing(err):
			return fmt.Errorf("watch Migration %s: %w", key.Name, err)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// passing reports whether an error is temporary.
func passing(err error) bool {
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsResourceExpired(err)
}

// errWatchEnded means that the API server has ended a watch, as it does from time to time.
var errWatchEnded = errors.New("the watch has ended")

func followOnce(ctx context.Context, c client.WithWatch, m *v1alpha1.Migration, show func(*v1alpha1.Migration)) error {
	list := &v1alpha1.MigrationList{}
	options := []client.ListOption{client.InNamespace(m.Namespace), client.MatchingFields{"metadata.name": m.Name}}
	if err := c.List(ctx, list, options...); err != nil {
		return err
	}
	if len(list.Items) == 0 {
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("migrations").GroupResource(), m.Name)
	}
	if done(&list.Items[0], m, show) {
		return nil
	}
	watched, err := c.Watch(ctx, list, append(options, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})...)
	if err != nil {
		return err
	}
	defer watched.Stop()
	for e := range watched.ResultChan() {
		now, ok := e.Object.(*v1alpha1.Migration)
		if !ok {
			break
		}
		if done(now, m, show) {
			return nil
		}
	}
	return errWatchEnded
}

// done copies the state of a migration to m, shows it, and reports whether the migration has
// ended.
func done(now, m *v1alpha1.Migration, show func(*v1alpha1.Migration)) bool {
	now.DeepCopyInto(m)
	show(m)
	ended, _ := status.Ended(m.Status.Phase)
	return ended
}
