package playground

import (
	"context"
	"errors"
	"fmt"
	"os"

	"supercargo.dev/supercargo/lab/playground/controlplane"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// workload is the cluster that has the Nodes of machines, and in which kwok simulates them: that of
// the playground, or another.
type workload struct {
	path       string // of the kubeconfig
	kubeconfig []byte
	config     *rest.Config
	client     kubernetes.Interface
	apart      bool // another cluster than the playground's
}

// findWorkload reads the kubeconfig of the workload cluster.
func (p *Playground) findWorkload() (*workload, error) {
	path := p.opts.WorkloadKubeconfig
	if path == "" {
		return &workload{path: p.dir.KubeconfigPath(), kubeconfig: p.dir.Kubeconfig(), config: p.plane.Config(), client: p.plane.Client()}, nil
	}
	fail := func(err error) (*workload, error) {
		return nil, &controlplane.InputError{Option: "WorkloadKubeconfig", Err: err}
	}
	switch {
	case !p.opts.ClusterAPI:
		return fail(errors.New("machines need cluster-api: set ClusterAPI"))
	case len(p.opts.Nodes) > 0:
		return fail(errors.New("nothing simulates Nodes of the playground itself: leave Nodes empty"))
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fail(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return fail(fmt.Errorf("read kubeconfig %s: %w", path, err))
	}
	config.QPS, config.Burst = controlplane.ClientQPS, controlplane.ClientQPS
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fail(err)
	}
	return &workload{path: path, kubeconfig: data, config: config, client: client, apart: true}, nil
}

// takeOverNodes lets a new kwok take over the nodes at once. Their leases still name the previous
// one, and it would wait until they expire. Leases of nodes that kwok does not simulate are those of
// real kubelets, and stay.
func (w *workload) takeOverNodes(ctx context.Context) error {
	leases := w.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if !w.apart {
		if err := leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			return fmt.Errorf("delete old node leases: %w", err)
		}
		return nil
	}
	nodes, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the nodes that kwok simulates: %w", err)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if node.Annotations[kwokAnnotation] != kwokFake {
			continue
		}
		if err := leases.Delete(ctx, node.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete the old lease of node %s: %w", node.Name, err)
		}
	}
	return nil
}
