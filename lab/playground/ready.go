package playground

import (
	"context"
	"fmt"
	"slices"

	"supercargo.dev/supercargo/lab/playground/process"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// waitReady waits until the components are ready: pods can be created, and the nodes of the options
// accept them.
func (p *Playground) waitReady(ctx context.Context) error {
	if !p.opts.NoControllerManager {
		if err := p.group.Poll(ctx, p.defaultServiceAccountExists); err != nil {
			return &process.Error{
				Doing: "wait for", Name: "kube-controller-manager", Log: process.KubernetesLog,
				Err: fmt.Errorf("to create the default service account: %w", err),
			}
		}
	}
	if len(p.opts.Nodes) == 0 {
		return nil
	}
	return p.WaitNodes(ctx, p.opts.Nodes)
}

func (p *Playground) defaultServiceAccountExists(ctx context.Context) error {
	_, err := p.plane.Client().CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

// WaitNodes waits until the nodes are Ready, have no taint for being not ready, and, if kwok runs,
// are managed by it.
func (p *Playground) WaitNodes(ctx context.Context, specs []NodeSpec) error {
	check := func(ctx context.Context) error { return p.nodesReady(ctx, specs) }
	if err := p.group.Poll(ctx, check); err != nil {
		return fmt.Errorf("wait for nodes: %w", err)
	}
	return nil
}

func (p *Playground) nodesReady(ctx context.Context, specs []NodeSpec) error {
	// Read from the API server's cache, because this is polled often.
	cached := metav1.ListOptions{ResourceVersion: "0"}
	nodes, err := p.plane.Client().CoreV1().Nodes().List(ctx, cached)
	if err != nil {
		return err
	}
	ready := map[string]bool{}
	for _, node := range nodes.Items {
		ready[node.Name] = takesPods(&node)
	}
	if !p.opts.NoKwok {
		leases, err := p.plane.Client().CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, cached)
		if err != nil {
			return err
		}
		held := map[string]bool{}
		for _, lease := range leases.Items {
			held[lease.Name] = true
		}
		for name := range ready {
			ready[name] = ready[name] && held[name]
		}
	}
	for _, spec := range specs {
		if !ready[spec.Name] {
			return fmt.Errorf("node %s is not ready", spec.Name)
		}
	}
	return nil
}

// takesPods reports whether a node is Ready and the node controller has observed it.
func takesPods(node *corev1.Node) bool {
	tainted := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable
	})
	return !tainted && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
