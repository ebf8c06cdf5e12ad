package karpenter

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reasons are those of Karpenter's Events about NodeClaims that it gives up.
var reasons = []string{"InsufficientCapacityError", "NodeClassNotReady"}

// explainLost adds what Karpenter's Events say about lost NodeClaims. Each is asked for once. Events may be missing, or
// the autoscaler may not be allowed to read them: then the conditions of the NodeClaim remain the reason.
func (p *Provider) explainLost(ctx context.Context) {
	lost := p.memory.losses()
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		if lost[name].explained {
			continue
		}
		var list corev1.EventList
		err := p.claims.Live.List(ctx, &list, client.InNamespace(metav1.NamespaceDefault), client.MatchingFields{
			"involvedObject.kind": claimKind.Kind, "involvedObject.name": name,
		})
		if err != nil {
			p.memory.explain(name, "")
			continue
		}
		p.memory.explain(name, toldBy(name, list.Items))
	}
}

// toldBy returns why Karpenter gave up a NodeClaim according to Events; empty if they do not say that.
func toldBy(name string, events []corev1.Event) string {
	for i := range events {
		if e := &events[i]; e.InvolvedObject.Name == name && slices.Contains(reasons, e.Reason) {
			return fmt.Sprintf("%s: %s", e.Reason, strings.TrimPrefix(e.Message, "NodeClaim "+name+" event: "))
		}
	}
	return ""
}
