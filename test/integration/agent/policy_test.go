package agent

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/test/kit"
)

const (
	descheduler = "system:serviceaccount:supercargo-system:supercargo-descheduler"
	scheduler   = "system:kube-scheduler"
	attacker    = "system:serviceaccount:default:attacker"
)

// as returns a client of an account to which RBAC allows everything.
func (b *bench) as(user string) client.Client {
	b.Helper()
	config := rest.CopyConfig(b.Site.Config())
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	c, err := client.New(config, client.Options{Scheme: b.Scheme()})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// guarded enforces the policies in the descheduler's manifests until the test ends.
func (b *bench) guarded() {
	b.Helper()
	m := b.migration(b.pod("probe-of-policy")) // by the administrator, before the policies are in force
	ctx := context.WithoutCancel(b.Context())  // the test's context ends before the cleanup
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"order":"Kill"}}`))
	try := func() error { return b.Status().Patch(ctx, m.DeepCopy(), patch, client.DryRunAll) }
	objects := kit.Objects(b, "../../../manifests/descheduler/policy.yaml")
	b.Cleanup(func() {
		for _, object := range objects {
			if err := client.IgnoreNotFound(b.Delete(ctx, object)); err != nil {
				b.Error(err)
			}
		}
		b.Eventually("the policy is no longer in force", func() string {
			if err := try(); err != nil {
				return err.Error()
			}
			return ""
		})
	})
	for _, object := range objects {
		b.Make(object)
	}
	b.Eventually("the policy is in force", func() string {
		if err := try(); err == nil {
			return "the administrator, who is none of ours, writes a status"
		}
		return ""
	})
}

// refused checks that a policy rejects an attempt, or that none does.
func (b *bench) refused(what, by string, err error) {
	b.Helper()
	switch {
	case by == "" && err != nil:
		b.Errorf("%s: it is refused: %v", what, err)
	case by != "" && err == nil:
		b.Errorf("%s: it is allowed", what)
	case by != "" && (!apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), by)):
		b.Errorf("%s: it is refused, but not by policy %s: %v", what, by, err)
	}
}

// TestOthersGiveTheAgentsNoOrders simulates a user who may write the status of Migrations by RBAC, for
// example by a wildcard in a role of a namespace.
func TestOthersGiveTheAgentsNoOrders(t *testing.T) {
	b := newBench(t)
	m := b.migration(b.pod("work"))
	b.guarded()
	const policy = "supercargo-migration-status"
	const reservation = `"reservation":{"node":"n","podUID":"u","time":"2026-01-01T00:00:00Z"}`
	for _, tc := range []struct{ name, user, patch, refusedBy string }{
		{"an order by the descheduler", descheduler, `{"status":{"order":"Kill"}}`, ""},
		{"an order by somebody", attacker, `{"status":{"order":"Kill"}}`, policy},
		{"another container by somebody", attacker, `{"status":{"plan":{"containerID":"of-another-pod"}}}`, policy},
		{"a report by somebody", attacker, `{"status":{"source":{"step":"Shipped","time":"2026-01-01T00:00:00.000000Z"}}}`, policy},
		{"a reservation by somebody", attacker, `{"status":{` + reservation + `}}`, policy},
		{"a reservation by the scheduler", scheduler, `{"status":{` + reservation + `}}`, ""},
		{"a reservation by the second scheduler", "system:serviceaccount:kube-system:supercargo-scheduler", `{"status":{` + reservation + `}}`, ""},
		{"an order by the scheduler", scheduler, `{"status":{"order":"Kill",` + reservation + `}}`, policy},
		{"a condition by the scheduler", scheduler, `{"status":{"conditions":[{"type":"Finished","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, policy},
		{"no change by somebody", attacker, `{"status":{}}`, policy},
	} {
		err := b.as(tc.user).Status().Patch(b.Context(), m.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(tc.patch)), client.DryRunAll)
		b.refused(tc.name, tc.refusedBy, err)
	}
	if err := b.as(attacker).Patch(b.Context(), m.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)), client.DryRunAll); err != nil {
		t.Errorf("a Migration itself cannot be changed any more: %v", err)
	}
}
