package cli

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/cli/explain"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/descheduler/consolidation"
)

// deschedulerNamespace is the descheduler's namespace in the manifests.
const deschedulerNamespace = "supercargo-system"

// explainConsolidation prints the last decision of the descheduler about nodes.
func explainConsolidation(ctx context.Context, w io.Writer, flags explainFlags) error {
	c, err := flags.cluster.Client()
	if err != nil {
		return err
	}
	namespace := flags.cluster.Namespace() // ignores the namespace of the kubeconfig
	if namespace == "" {
		namespace = deschedulerNamespace
	}
	var object corev1.ConfigMap
	switch err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: consolidation.StatusName}, &object); {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no ConfigMap %s/%s: the descheduler has not decided yet, runs with --consolidation=Off, or is in another namespace (-n)",
			namespace, consolidation.StatusName)
	case err != nil:
		return fmt.Errorf("read the descheduler's last decision: %w", err)
	}
	d, err := consolidation.ReadDecision(&object)
	if err != nil {
		return err
	}
	if done, err := command.WriteStructured(w, flags.output, d); done {
		return err
	}
	return explain.Consolidation(w, d)
}
