package karpenter

import (
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// noCapacity is the reason of Karpenter's Events about NodeClaims that it deletes because the cloud has no such
// machine.
const noCapacity = "InsufficientCapacityError"

// explainLost adds what Karpenter's Events say about lost NodeClaims. Each is asked for once. Events may be missing, or
// the autoscaler may not be allowed to read them: then the problem of the NodeClass is the reason, about which Karpenter
// has no Event, and without one the conditions of the NodeClaim remain it.
func (p *Provider) explainLost(ctx context.Context, problem string) {
	lost := p.memory.losses()
	maps.DeleteFunc(lost, func(_ string, l loss) bool { return l.explained })
	if len(lost) == 0 {
		return
	}
	var list corev1.EventList
	err := p.claims.Live.List(ctx, &list, client.InNamespace(metav1.NamespaceDefault), client.MatchingFields{
		"involvedObject.kind": claimKind.Kind, "reason": noCapacity,
	})
	if err != nil {
		list.Items = nil
	}
	for name := range lost {
		why := reasonIn(name, list.Items)
		if why == "" && problem != "" {
			why = deleted(name, problem)
		}
		p.memory.explain(name, why)
	}
}

// reasonIn returns why Karpenter deleted a NodeClaim according to its Events; empty if they do not say that.
func reasonIn(name string, events []corev1.Event) string {
	for i := range events {
		if e := &events[i]; e.InvolvedObject.Name == name {
			return fmt.Sprintf("%s: %s", e.Reason, strings.TrimPrefix(e.Message, "NodeClaim "+name+" event: "))
		}
	}
	return ""
}
