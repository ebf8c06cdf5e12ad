package ledger

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Bindings returns the number of bound pods, and the pods that were bound to a second node.
func Bindings(writes []Write) (bound int, broken []string) {
	type place struct {
		node string
		by   Actor
	}
	places := map[string]place{} // by key and UID
	for i := range writes {
		w := &writes[i]
		if w.Resource != "pods" || w.Subresource != "binding" {
			continue
		}
		var b corev1.Binding
		if err := json.Unmarshal(w.Request, &b); err != nil {
			broken = append(broken, fmt.Sprintf("read the binding of %s: %v", w.Key(), err))
			continue
		}
		key := w.Key() + "/" + string(b.UID)
		if last, is := places[key]; is && last.node != b.Target.Name {
			broken = append(broken, fmt.Sprintf("bound twice: pod %s was bound to %s by %s, and to %s by %s at %s", w.Key(), last.node, last.by, b.Target.Name, w.Actor, clock(w.Asked)))
			continue
		}
		places[key] = place{b.Target.Name, w.Actor}
	}
	return len(places), broken
}

// Writers counts the writes of each actor, except those of Leases and Events.
func Writers(writes []Write) map[Actor]int {
	counts := map[Actor]int{}
	for i := range writes {
		if w := &writes[i]; w.Actor != "" && w.Resource != "leases" && w.Resource != "events" {
			counts[w.Actor]++
		}
	}
	return counts
}
