package nodefleet

import (
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/descheduler/checkpoint/simulated"
	"supercargo.dev/supercargo/descheduler/consolidation"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// The machine types of the test.
const (
	thirsty = "thirsty"
	frugal  = "frugal"
)

// A pod of a Job moves with its state to a machine that uses less energy for the rest of its work. The
// machine that it leaves is then empty, and is released.
func TestAMachineThatWasLeftForAMoreFrugalOneIsReleased(t *testing.T) {
	t.Parallel()
	b := newBench(t, "energy")
	b.learned(thirsty, 4000, 50, 100)
	b.learned(frugal, 1000, 60, 20)
	b.flavor(thirsty, "4", "8Gi", "0.20", begins(1))
	b.flavor(frugal, "8", "16Gi", "0.30", begins(1))
	left, taken := b.named(thirsty, 1)[0], b.named(frugal, 1)[0]
	b.put(taken, "tenant", "2", "4Gi", service)
	b.Runs(1)
	b.cordon(taken, true)
	b.worker()
	b.Runs(2)
	b.cordon(taken, false)
	b.fleet("all")
	b.autoscale()
	b.has("all", v1alpha1.FleetReady, metav1.ConditionTrue, "Reconciled")

	b.deschedule()
	b.becomes(map[string]int{frugal: 1})
	var all v1alpha1.MigrationList
	testapi.List(b, b, &all, client.InNamespace(b.Space))
	if len(all.Items) != 1 || all.Items[0].Spec.TargetNode != taken || all.Items[0].Status.Phase != v1alpha1.MigrationSucceeded {
		t.Errorf("Migrations: %+v, want one from %s to %s that has succeeded", all.Items, left, taken)
	}
	b.Runs(2)
	job := &batchv1.Job{}
	if err := b.Get(t.Context(), client.ObjectKey{Namespace: b.Space, Name: "work"}, job); err != nil || job.Status.Failed != 0 || job.Status.Active != 1 {
		t.Errorf("the Job has status %+v (%v)", job.Status, err)
	}
	if d := b.get("all").Status.LastDecision; d == nil || len(d.Releases) != 1 || d.Releases[0].Node != left {
		t.Errorf("the fleet's last decision is %+v", d)
	}
	b.Eventually("nothing is left of what was done", b.untouched)
}

// learned creates a profile of a machine type on which all pods need the same energy and time, and that has
// idle power.
func (b *bench) learned(machineType string, joules, seconds float64, idle int64) {
	b.Helper()
	of := func(v float64) profile.Model {
		return profile.Model{Terms: []profile.Term{profile.One}, Coefficients: []float64{v}, Range: profile.Range{
			Most: profile.Size{MilliCPU: 8000, MemoryBytes: 32 << 30}, LeastValue: v, MostValue: v,
		}}
	}
	p := &v1alpha1.MachineProfile{
		ObjectMeta: metav1.ObjectMeta{Name: machineType},
		Spec: v1alpha1.MachineProfileSpec{
			MachineType: machineType, Models: profile.Profile{Energy: of(joules), Runtime: of(seconds)}.Object(time.Now(), ""),
			Power: &v1alpha1.MachinePower{IdleWatts: *resource.NewQuantity(idle, resource.DecimalSI), FullWatts: *resource.NewQuantity(4*idle, resource.DecimalSI)},
		},
	}
	b.Make(p)
	b.Cleanup(func() {
		if err := b.Delete(context.WithoutCancel(b.Context()), p); err != nil {
			b.Error(err)
		}
	})
}

// worker creates a Job of one pod that may be moved with its state.
func (b *bench) worker() {
	b.Helper()
	pod := b.pod("work", "1", "64Mi", func(p *corev1.Pod) {
		p.Annotations = map[string]string{v1alpha1.AnnotationMigration: v1alpha1.MigrationCheckpoint, v1alpha1.AnnotationRuntime: "100h"}
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
	})
	b.Make(&batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "work"},
		Spec: batchv1.JobSpec{
			BackoffLimit: new(int32(0)), PodReplacementPolicy: new(batchv1.Failed),
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: pod.Annotations}, Spec: pod.Spec},
		},
	})
}

// deschedule runs a descheduler that moves pods to save energy, and agents of the nodes, which simulate the
// migration of state.
func (b *bench) deschedule() {
	b.Helper()
	o := app.Defaults()
	o.Options = b.Options("descheduler")
	o.Config.Wrap(b.view())
	e := &o.Consolidation.Energy
	o.Consolidation.Mode, o.Consolidation.Residence, e.Mode, e.Interval, e.Weight = consolidation.Off, time.Second, consolidation.Act, time.Second, 1
	b.SimulateAgents(simulated.Model{})
	b.StartSound("the descheduler", func(ctx context.Context) error { return app.Run(ctx, o) })
}
