package dashboard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"supercargo.dev/supercargo/cli/objects"
	"supercargo.dev/supercargo/cli/status"
)

func TestEachBillDrawsAtLeastTheBoundOfThePower(t *testing.T) {
	o := shop("m5.xlarge", "m5.xlarge", "m5.2xlarge")
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	found, err := (&accountant{}).of(t.Context(), o, now)
	if err != nil {
		t.Fatal(err)
	}
	a := status.Of(&status.Snapshot{Audit: found}, now).Summary.Audit
	if a.BoundWatts == nil || *a.BoundWatts <= 0 || a.Now.Watts == nil {
		t.Fatalf("the bound is %v W, the nodes draw %v W; both must be known", a.BoundWatts, a.Now.Watts)
	}
	if found.Result.MilliCPU != 2700 || found.Sizes["m5.2xlarge"] < 3920 {
		t.Errorf("%d milli-CPU requested, sizes %v; want 2700 and the nodes' types", found.Result.MilliCPU, found.Sizes)
	}
	for name, b := range map[string]status.Bill{"now": a.Now, "moved": a.Moved, "cheapest": a.Cheapest} {
		if b.Watts != nil && *b.Watts < *a.BoundWatts {
			t.Errorf("%s: %v W, less than the bound of %v W", name, *b.Watts, *a.BoundWatts)
		}
	}
}

// shop returns nodes of instance types, each with a pod.
func shop(kinds ...string) *objects.Objects {
	o := &objects.Objects{}
	for i, kind := range kinds {
		name := fmt.Sprintf("node-%d", i)
		node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelInstanceTypeStable: kind, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelHostname: name, corev1.LabelTopologyRegion: "us-east-1",
		}}, Spec: corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-0"}}
		node.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("3920m"), "memory": resource.MustParse("14Gi"), "pods": resource.MustParse("58")}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		o.Nodes = append(o.Nodes, node)
		o.Pods = append(o.Pods, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pod-" + name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: new(true)}}},
			Spec: corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("900m"), "memory": resource.MustParse("1Gi")},
			}}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		})
	}
	return o
}

// TestThePossibleCostIsAsKnownAsItsMachines: a cluster may have prices although nothing is for sale, whatever the reason,
// with or without NodeFleets.
func TestThePossibleCostIsAsKnownAsItsMachines(t *testing.T) {
	plane := func(o *objects.Objects) { o.Nodes[0].Labels["node-role.kubernetes.io/control-plane"] = "" }
	ours := func(o *objects.Objects) { o.Nodes[0].Spec.ProviderID = "" }
	for _, tc := range []struct {
		name   string
		kinds  []string
		change func(*objects.Objects)
		want   string
	}{
		{"no nodes", nil, nil, "The possible cost is unknown: the cluster had no nodes"},
		{"nodes without a price", []string{"ours"}, ours, "The possible cost is unknown: no node had a known price"},
		{"a control plane with a price, of a known type", []string{"m5.xlarge"}, plane,
			"The possible cost is as of {at}, at list prices of aws in us-east-1. No machine is for sale: no node with a price is both outside the control plane and of a known size and architecture."},
		{"a node with a price", []string{"m5.xlarge"}, nil, "The possible cost is as of {at}, at list prices of aws in us-east-1."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := shop(tc.kinds...)
			if tc.change != nil {
				tc.change(o)
			}
			now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
			found, err := (&accountant{}).of(t.Context(), o, now)
			if err != nil {
				found = &status.Audit{Error: inWords(err)}
			}
			s := status.Of(&status.Snapshot{Audit: found, Cycle: time.Minute}, now).Summary
			if got := strings.TrimSuffix(s.Says.Audit, " The nodes or their prices have changed since."); got != tc.want {
				t.Errorf("it says %q, want %q", got, tc.want)
			}
		})
	}
}

// TestWithoutAuditsPricesAreReadAgainUntilTheyHaveBeenRead has an API server whose first two answers about nodes are errors.
func TestWithoutAuditsPricesAreReadAgainUntilTheyHaveBeenRead(t *testing.T) {
	scheme, err := Kinds()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		failures := 2
		c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
				if _, is := list.(*corev1.NodeList); is && failures > 0 {
					failures--
					return apierrors.NewInternalError(errors.New("etcd has no leader"))
				}
				return c.List(ctx, list, o...)
			},
		}).Build()
		open := make(chan struct{})
		close(open)
		a, nodes := &accountant{link: &Link{client: c, open: open}}, shop("m5.xlarge").Nodes
		var said []string
		start := time.Now()
		a.run(t.Context(), func() {
			audit, prices := a.last([]*corev1.Node{&nodes[0]})
			s := status.Of(&status.Snapshot{Nodes: []*corev1.Node{&nodes[0]}, Audit: audit, Prices: prices, NoAudits: true, Cycle: time.Minute}, start).Summary.Says
			said = append(said, s.Priced+" "+s.Audit)
		})
		const off = "The possible cost is not computed, because --audit-interval is 0."
		const failed = "Prices could not be read: list Nodes: Internal error occurred: etcd has no leader. " + off
		if diff := cmp.Diff([]string{failed, failed, "For the only node. " + off}, said); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if a.audit != nil {
			t.Errorf("the page has the error of an earlier attempt: %q", a.audit.Error)
		}
		if took := time.Since(start); took != 2*retryPrices {
			t.Errorf("the third round was after %v, want two pauses of %v", took, retryPrices)
		}
	})
}

// TestAnIntervalOfZeroOrLessReadsPricesOnceAndNeverAudits also has one above zero, which audits until its context ends.
func TestAnIntervalOfZeroOrLessReadsPricesOnceAndNeverAudits(t *testing.T) {
	scheme, err := Kinds()
	if err != nil {
		t.Fatal(err)
	}
	for _, interval := range []time.Duration{-time.Second, 0, time.Hour} {
		ctx, cancel := context.WithCancel(t.Context())
		open := make(chan struct{})
		close(open)
		a := &accountant{link: &Link{client: fake.NewClientBuilder().WithScheme(scheme).Build(), open: open}, interval: interval}
		rounds := 0
		a.run(ctx, func() {
			if rounds++; interval > 0 {
				cancel()
			}
		})
		cancel()
		if rounds != 1 || a.pricer == nil || (a.audit == nil) != (interval <= 0) {
			t.Errorf("every %v: %d rounds, prices are read: %v, audited: %v", interval, rounds, a.pricer != nil, a.audit != nil)
		}
	}
}
