package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/node/termination/terminator"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/options"
)

// interval is the interval at which Karpenter's termination controller checks a node that is not drained yet.
const interval = time.Second

// drain drains a node as Karpenter does before it deletes the machine: it adds the taint of disrupted nodes,
// and evicts the pods with Karpenter's terminator and eviction queue, called as a library. It returns when no
// pod is left to evict. It never deletes a pod.
func drain(ctx context.Context, name string, out io.Writer) error {
	config, err := ctrl.GetConfig() // it reads flag -kubeconfig
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	const millicores = 1000
	ctx, stop := context.WithCancel(options.ToContext(ctx, &options.Options{CPURequests: millicores}))
	defer stop()
	m, err := ctrl.NewManager(config, manager.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return fmt.Errorf("make a manager: %w", err)
	}
	err = m.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
		return []string{o.(*corev1.Pod).Spec.NodeName}
	})
	if err != nil {
		return fmt.Errorf("index pods by their node: %w", err)
	}
	recorder := events.NewRecorder(m.GetEventRecorderFor("karpenter")) //nolint:staticcheck // Karpenter's recorder wants one of the old API
	queue := terminator.NewQueue(m.GetClient(), recorder)
	if err := queue.Register(ctx, m); err != nil {
		return fmt.Errorf("start the eviction queue: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	if !m.GetCache().WaitForCacheSync(ctx) {
		return errors.Join(errors.New("the cache has not been filled"), <-ended)
	}
	err = empty(ctx, m.GetClient(), terminator.NewTerminator(clock.RealClock{}, m.GetClient(), queue, recorder), name, out)
	stop()
	return errors.Join(err, <-ended)
}

// empty drains the node until nothing is left to evict.
func empty(ctx context.Context, c client.Client, t *terminator.Terminator, name string, out io.Writer) error {
	for said := ""; ; {
		var node corev1.Node
		if err := c.Get(ctx, types.NamespacedName{Name: name}, &node); err != nil {
			return fmt.Errorf("read node %s: %w", name, err)
		}
		if err := t.Taint(ctx, &node, v1.DisruptedNoScheduleTaint); err != nil {
			return fmt.Errorf("taint node %s: %w", name, err)
		}
		err := t.Drain(ctx, &node, nil)
		switch {
		case err == nil:
			_, err = fmt.Fprintf(out, "node %s is drained\n", name)
			return err
		case !terminator.IsNodeDrainError(err):
			return fmt.Errorf("drain node %s: %w", name, err)
		case err.Error() != said:
			said = err.Error()
			fmt.Fprintf(out, "node %s: %s\n", name, said)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("drain node %s: %w", name, context.Cause(ctx))
		case <-time.After(interval):
		}
	}
}
