package nodefleet

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/agent"
	"supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/descheduler/consolidation"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/internal/platform/operator"
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
	b.run(1)
	b.cordon(taken, true)
	b.worker()
	b.run(2)
	b.cordon(taken, false)
	b.fleet("all")
	b.autoscale()
	b.has("all", v1alpha1.FleetReady, metav1.ConditionTrue, "Reconciled")

	b.deschedule()
	b.becomes(map[string]int{frugal: 1})
	var all v1alpha1.MigrationList
	b.list(&all, client.InNamespace(b.name))
	if len(all.Items) != 1 || all.Items[0].Spec.TargetNode != taken || all.Items[0].Status.Phase != v1alpha1.MigrationSucceeded {
		t.Errorf("Migrations: %+v, want one from %s to %s that has succeeded", all.Items, left, taken)
	}
	b.run(2)
	job := &batchv1.Job{}
	if err := b.Get(t.Context(), client.ObjectKey{Namespace: b.name, Name: "work"}, job); err != nil || job.Status.Failed != 0 || job.Status.Active != 1 {
		t.Errorf("the Job has status %+v (%v)", job.Status, err)
	}
	if d := b.get("all").Status.LastDecision; d == nil || len(d.Releases) != 1 || d.Releases[0].Node != left {
		t.Errorf("the fleet's last decision is %+v", d)
	}
	b.eventually("nothing is left of what was done", b.untouched)
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
	b.make(p)
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
	b.make(&batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: "work"},
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
	dir := b.TempDir()
	a, err := agent.New(agent.Config{
		Client: operator.Throttle(b.site.Config()), StateDir: filepath.Join(dir, "state"), WorkDir: filepath.Join(dir, "work"), ListenAddress: "127.0.0.1:0",
		Simulation: &agent.Simulation{Selector: labels.SelectorFromSet(labels.Set{benchLabel: b.name})}, Log: b.log.Logger("agents"),
	})
	if err != nil {
		b.Fatal(err)
	}
	o := app.Defaults()
	o.Options = operator.Options{Config: operator.Throttle(b.site.Config()), MetricsAddress: "0", ProbeAddress: "0", Log: b.log.Logger("descheduler")}
	o.Config.Wrap(view(b.name))
	e := &o.Consolidation.Energy
	o.Consolidation.Mode, o.Consolidation.Residence, e.Mode, e.Interval, e.Weight = consolidation.Off, time.Second, consolidation.Act, time.Second, 1
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 2)
	go func() { ended <- a.Run(ctx) }()
	go func() { ended <- app.Run(ctx, o) }()
	b.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				b.Errorf("an agent or the descheduler: %v", err)
			}
		}
	})
}
