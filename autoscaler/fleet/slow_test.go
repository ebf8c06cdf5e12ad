package fleet

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
)

// inBursts delivers the watch events of pods and nodes together, so far apart: until the next delivery, the process
// reads from its cache what the last one contained.
func (m *model) inBursts(apart time.Duration) {
	var pods corev1.PodList
	var nodes corev1.NodeList
	var last time.Time
	deliver := func() {
		if now := m.clock.Now(); last.IsZero() || now.Sub(last) >= apart {
			last = now
			m.must(m.client.List(m.t.Context(), &pods))
			m.must(m.client.List(m.t.Context(), &nodes))
		}
	}
	m.r.Client = interceptor.NewClient(m.r.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			deliver()
			switch l := list.(type) {
			case *corev1.PodList:
				pods.DeepCopyInto(l)
			case *corev1.NodeList:
				nodes.DeepCopyInto(l)
			default:
				return c.List(ctx, list, opts...)
			}
			return nil
		},
	})
}

// stream has n jobs of a minute arrive every half minute, and waits until they have ended.
func (m *model) stream(n int) {
	const apart, most = 30 * second, 3 * time.Hour
	for i := 0; m.done < n; {
		if now := m.clock.Now().Sub(epoch); now > most {
			m.t.Fatalf("after %v %d jobs have ended: %s", now, m.done, m.outcome())
		} else if i < n && now >= time.Duration(i)*apart {
			pod := testPod(fmt.Sprintf("job-%03d", i), 3000, 1024, minute)
			pod.CreationTimestamp.Time = m.clock.Now()
			m.add(pod)
			i++
		}
		m.pass(min(max(m.round("f"), 5*second), apart))
	}
}

// TestASlowControlPlaneCausesNoMorePurchases has jobs arrive that need two machines at a time. Machines are expected
// within a minute, but come later.
func TestASlowControlPlaneCausesNoMorePurchases(t *testing.T) {
	for _, tc := range []struct {
		name        string
		lag, bursts time.Duration
		most        int
	}{
		{"quick", minute, 0, 4},
		{"quick, but events come in bursts", minute, minute, 4},
		{"slow", 15 * minute, 0, 4},
		{"slow, and events come in bursts", 15 * minute, minute, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := fleetNamed("f")
			f.Spec.Scaling.JoinTimeout.Duration, f.Spec.Scaling.ExpectedLag.Duration = 30*minute, minute
			m := newModel(t, []*v1alpha1.NodeFleet{f}, []provider.Flavor{modelFlavor("small", 4, 16, 100_000)})
			m.lag = tc.lag
			if tc.bursts > 0 {
				m.inBursts(tc.bursts)
			}
			m.stream(40)
			t.Logf("%d machines at most, %d made", m.wanted, m.made)
			if m.wanted > tc.most {
				t.Errorf("up to %d machines are desired, want %d at most\n%s", m.wanted, tc.most, strings.Join(m.log, "\n"))
			}
		})
	}
}
