package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/descheduler/mover"
)

// deschedulerNamespace is where the descheduler is installed by the manifests.
const deschedulerNamespace = "supercargo-system"

// explainConsolidation says what the descheduler decided last about nodes.
func explainConsolidation(ctx context.Context, w io.Writer, flags explainFlags) error {
	c, _, err := namespacedClient(flags.kubeconfig, flags.namespace)
	if err != nil {
		return err
	}
	namespace := flags.namespace
	if namespace == "" {
		namespace = deschedulerNamespace
	}
	var object corev1.ConfigMap
	switch err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: mover.StatusName}, &object); {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no ConfigMap %s/%s: the descheduler has not decided yet, runs with --consolidation=Off, or is in another namespace (-n)",
			namespace, mover.StatusName)
	case err != nil:
		return fmt.Errorf("read the descheduler's last decision: %w", err)
	}
	d, err := mover.ReadDecision(&object)
	if err != nil {
		return err
	}
	if flags.output == "json" {
		return writeJSON(w, d)
	}
	_, err = io.WriteString(w, consolidationText(d))
	return err
}

// consolidationText says a decision in lines.
func consolidationText(d *mover.Decision) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Consolidation, mode %s, policy %s, as of %s\n", d.Mode, d.Policy, d.Time.UTC().Format("2006-01-02 15:04:05"))
	fmt.Fprintf(&b, "%d nodes; those with pods cost $%s/h, and $%s/h when all that is decided is done\n", d.Nodes, d.DollarsPerHour, d.ExpectedDollarsPerHour)
	if len(d.Emptying) > 0 {
		fmt.Fprintf(&b, "Being emptied: %s\n", strings.Join(d.Emptying, ", "))
	}
	if len(d.Emptied) > 0 {
		fmt.Fprintf(&b, "Emptied: %s\n", strings.Join(d.Emptied, ", "))
	}
	for _, drain := range d.Drains {
		fmt.Fprintf(&b, "\n%s, chosen at %s: %s\n", drain.Node, drain.Time.UTC().Format("15:04:05"), drain.Reason)
		for _, p := range drain.Pods {
			fmt.Fprintf(&b, "  %-8s %s", p.Method, p.Pod)
			if p.Target != "" {
				fmt.Fprintf(&b, " (room on %s)", p.Target)
			}
			if p.Reason != "" {
				fmt.Fprintf(&b, ": %s", p.Reason)
			}
			b.WriteString("\n")
		}
	}
	for i, t := range d.Energy {
		if i == 0 {
			fmt.Fprintf(&b, "\nPods that other machines suit better, as of %s:\n", t.Time.UTC().Format("15:04:05"))
		}
		fmt.Fprintf(&b, "  %-10s %s from %s to %s: %s\n", t.Method, t.Pod, t.From, t.Target, t.Reason)
	}
	if len(d.Kept) > 0 {
		b.WriteString("\nNodes that stay:\n")
	}
	for _, k := range d.Kept {
		fmt.Fprintf(&b, "  %s: %s\n", k.Name, k.Reason)
	}
	if d.Omitted > 0 {
		fmt.Fprintf(&b, "%d more are not listed\n", d.Omitted)
	}
	return b.String()
}
