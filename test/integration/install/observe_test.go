package install

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	autoscaler "supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// TestProgramsThatOnlyReportAskForNothingForbidden runs the autoscaler and the descheduler with the permissions of
// manifests/observe, which are those of the chart's defaults, on objects that ask them to act.
func TestProgramsThatOnlyReportAskForNothingForbidden(t *testing.T) {
	c := newCluster(t)
	c.kubectl("apply", "-k", manifests+"crd")
	c.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	c.kubectl("create", "namespace", home)
	c.install("observe")
	requests, log := &kit.Ledger{}, &kit.Log{}
	as := func(account string) operator.Options {
		config := rest.CopyConfig(c.as(account))
		config.Wrap(requests.Wrap)
		return operator.Options{
			Config: operator.Throttle(config), LeaderElection: true, LeaderElectionNamespace: home, MetricsAddress: "0", ProbeAddress: "0",
			Actions: []string{}, Log: log.Logger(account),
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- autoscaler.Run(ctx, autoscaler.Options{Options: as("supercargo-autoscaler")}) }()
	d := app.Defaults()
	d.Options = as("supercargo-descheduler")
	go func() { ended <- app.Run(ctx, d) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
	})

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "work"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "work", Image: "work:1"}}}}
	migration := &v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "work"}}
	migration.Spec.PodName = pod.Name
	fleet := kit.Objects(t, manifests+"samples/nodefleet.yaml")[0]
	for _, object := range []client.Object{pod, migration, fleet} {
		testapi.Create(t, c.Client, object)
	}
	c.waits("the Migration waits, and says why", func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(migration), migration); err != nil {
			return err
		}
		if s := &migration.Status; s.Phase != v1alpha1.MigrationPending || !strings.Contains(s.Conditions[0].Message, "descheduler.migrations.enabled") {
			return errors.New("it does not")
		}
		return nil
	})
	if err := playground.CreateNodes(ctx, c.Playground.Client(), []playground.NodeSpec{{Name: "node", CPU: "4", Memory: "8Gi"}}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			t.Log(log.Tail(20))
		}
	}()
	c.waits("consolidation has reported", func() error {
		var report v1alpha1.Consolidation
		if err := c.Get(ctx, client.ObjectKey{Name: v1alpha1.ConsolidationName}, &report); err != nil {
			return err
		}
		if report.Status.Time == nil {
			return errors.New("it has not")
		}
		return nil
	})
	written, forbade := requests.Read()
	if len(forbade) > 0 || len(written) < 4 {
		t.Errorf("forbidden: %q; written: %q", forbade, written)
	}
}
