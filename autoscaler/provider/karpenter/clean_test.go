package karpenter

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// A user corrects a spec whose NodeClaims Karpenter does not process. They are deleted, and the fleet buys again at once.
func TestANodeClaimOfAnOlderSpecThatKarpenterNeverProcessedIsSetAside(t *testing.T) {
	begun := func(s *site, name string) {
		s.set(name, []any{map[string]any{"type": "Launched", "status": "Unknown", "reason": awaiting, "message": "", "lastTransitionTime": start.Format(time.RFC3339)}}, "status", "conditions")
	}
	for _, tc := range []struct {
		name      string
		after     time.Duration
		karpenter func(s *site, name string)
		machines  int
	}{
		{"it is set aside", uptakePatience, func(*site, string) {}, 0},
		{"Karpenter may begin soon", uptakePatience - time.Second, func(*site, string) {}, 1},
		{"Karpenter has begun", uptakePatience, begun, 1},
		{"it is being deleted", uptakePatience, (*site).leaves, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t)
			s.buys("order", "small", 0, 1)
			old := s.names()
			s.fleet.Spec.Karpenter.Taints = []corev1.Taint{{Key: "new", Effect: corev1.TaintEffectNoSchedule}}
			s.clock.Step(tc.after)
			tc.karpenter(s, old[0])
			p, found := s.observed()
			if len(found.Machines) != tc.machines {
				t.Fatalf("machines %+v, want %d", found.Machines, tc.machines)
			}
			if tc.machines > 0 {
				if err := p.Clean(t.Context()); err != nil || len(s.names()) != 1 {
					t.Errorf("NodeClaims %q (%v), want it to stay", s.names(), err)
				}
				return
			}
			if f := flavorOf(t, found, "small"); f.Want != 0 {
				t.Errorf("the flavor wants %d", f.Want)
			}
			if err := p.Buy(t.Context(), "next", "small", 0, 1); err != nil {
				t.Fatal(err)
			}
			if err := p.Clean(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{claimName("general", "next", "small", 0)}, s.names()); diff != "" {
				t.Errorf("NodeClaims (-want +got):\n%s", diff)
			}
			if uid := s.deleted[old[0]]; uid == "" {
				t.Error("the deletion requires no UID")
			}
			_, found = s.observed()
			if len(found.Machines) != 1 || found.Machines[0].Failed != "" || found.Machines[0].Outdated {
				t.Errorf("machines %+v, want the new one alone", found.Machines)
			}
		})
	}
}

// Karpenter begins to process the NodeClaim after it was set aside: then the order is for a number that has changed.
func TestANodeClaimThatKarpenterProcessesAfterAllCounts(t *testing.T) {
	s := newSite(t)
	s.buys("order", "small", 0, 1)
	name := s.names()[0]
	s.fleet.Spec.Karpenter.Labels = map[string]string{"new": "label"}
	s.clock.Step(uptakePatience)
	p, _ := s.observed()
	s.conditions(name, []string{"Launched"}, "Registered", "NodeNotFound", "Node not registered with cluster")
	if err := p.Buy(t.Context(), "next", "small", 0, 1); err == nil {
		t.Error("an order for the first machine was carried out beside another")
	}
	if _, found := s.observed(); len(found.Machines) != 1 || !found.Machines[0].Outdated {
		t.Errorf("machines %+v, want the older one", found.Machines)
	}
}
