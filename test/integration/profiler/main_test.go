// Package profiler tests the probing and learning of machine types on a real API server, with the real
// scheduler and the real descheduler, which has only the permissions in its manifests. kwok simulates nodes
// and pods. The tests write the results of probes.
package profiler

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cmd/supercargo/cli"
	"supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/descheduler/consolidation"
	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/probe"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/profiler"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
)

// configuration enables the plugin that reads profiles, with a weight that outvotes the stock plugins.
const configuration = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 100
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled: [{name: EnergyPerformance, weight: 10000}]
`

var sites = kit.NewSites(playground.Options{SchedulerConfig: []byte(configuration)})

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "supercargo-tariff-")
	if err != nil {
		panic(err) // no test can run
	}
	defer func() { _ = os.RemoveAll(folder) }() // a leftover is in the folder of temporary files
	setBare(folder)
	return kit.Main(m, "2", sites, bare)
}

const (
	home     = "supercargo-system"
	account  = "supercargo-descheduler"
	probing  = "supercargo-probing"
	work     = "work"
	hardware = "0123456789abcdef"
)

// bench is a cluster with a descheduler.
type bench struct {
	*kit.Bench
	requests kit.Ledger
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{Bench: sites.Bench(t, work)}
	b.Site.Install(t, "../../../manifests/namespace/namespace.yaml", "../../../manifests/meter/namespace.yaml", "../../../manifests/meter/rbac.yaml", "../../../manifests/descheduler/rbac.yaml")
	return b
}

// deschedule starts a descheduler, and returns a function that stops it.
func (b *bench) deschedule(mode profiler.Mode) (stop func()) {
	o := app.Defaults()
	o.Options = b.Options("descheduler")
	o.Config.QPS, o.Config.Burst = 200, 400
	o.Config.Impersonate = kit.ServiceAccount(home, account)
	o.Config.Wrap(b.requests.Wrap)
	o.Actions = []string{app.ActProbing}
	o.LeaderElection, o.LeaderElectionNamespace = true, home
	o.Consolidation.Mode, o.Probing.Mode, o.Probing.Backoff = consolidation.Off, mode, time.Second
	return b.StartSound("the descheduler", func(ctx context.Context) error { return app.Run(ctx, o) })
}

// node creates a node of a machine type with its hardware annotation.
func (b *bench) node(name, machineType string) {
	b.Helper()
	err := playground.CreateNodes(b.Context(), b.Site.Playground.Client(), []playground.NodeSpec{{
		Name: name, CPU: "4", Memory: "8Gi", MachineType: machineType,
		Annotations: map[string]string{v1alpha1.AnnotationHardware: fmt.Sprintf(`{"fingerprint":%q,"architecture":"amd64","cpuModel":"Made up","threads":4}`, hardware)},
	}})
	if err != nil {
		b.Fatal(err)
	}
}

// pod creates a pod for a machine type, or for any type if machineType is "".
func (b *bench) pod(name, machineType, cpu string, annotations map[string]string) {
	b.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: work, Name: name, Annotations: annotations},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{{Name: "main", Image: "work:1", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("128Mi")},
			}}},
		},
	}
	if machineType != "" {
		p.Spec.NodeSelector = map[string]string{v1alpha1.LabelMachineType: machineType}
	}
	b.Make(p)
}

func (b *bench) runs(name string) (node string) {
	b.Helper()
	b.Eventually("pod "+name+" runs", func() string {
		var p corev1.Pod
		if err := b.Get(b.Context(), types.NamespacedName{Namespace: work, Name: name}, &p); err != nil {
			return err.Error()
		}
		node = p.Spec.NodeName
		if p.Status.Phase != corev1.PodRunning {
			return string(p.Status.Phase)
		}
		return ""
	})
	return node
}

func (b *bench) jobs() []batchv1.Job {
	b.Helper()
	var list batchv1.JobList
	if err := b.List(b.Context(), &list, client.InNamespace(probing)); err != nil {
		b.Fatal(err)
	}
	return list.Items
}

// probe waits until the pod of a type's probe runs, and returns it.
func (b *bench) probe(machineType string) *corev1.Pod {
	b.Helper()
	var found *corev1.Pod
	b.Eventually("machine type "+machineType+" is being probed", func() string {
		var list corev1.PodList
		if err := b.List(b.Context(), &list, client.InNamespace(probing), client.MatchingLabels{v1alpha1.LabelProbe: machineType}); err != nil {
			return err.Error()
		}
		for i := range list.Items {
			if p := &list.Items[i]; p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
				found = p
				return ""
			}
		}
		return fmt.Sprintf("%d pods and %d Jobs", len(list.Items), len(b.jobs()))
	})
	return found
}

// reserved returns the nodes that are reserved for probes.
func (b *bench) reserved() (names []string) {
	b.Helper()
	var list corev1.NodeList
	if err := b.List(b.Context(), &list); err != nil {
		b.Fatal(err)
	}
	for _, n := range list.Items {
		if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintProbing }) {
			names = append(names, n.Name)
		}
	}
	return names
}

// say ends the pod of a probe with its termination message.
func (b *bench) say(p *corev1.Pod, phase corev1.PodPhase, words string) {
	b.Helper()
	before := p.DeepCopy()
	now := metav1.Now()
	code := int32(0)
	if phase == corev1.PodFailed {
		code = 1
	}
	p.Status.Phase = phase
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "probe", Image: "x", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, StartedAt: now, FinishedAt: now, Message: words},
	}}}
	if err := b.Status().Patch(b.Context(), p, client.MergeFrom(before)); err != nil {
		b.Fatal(err)
	}
}

// report returns the report of a machine of a speed, which has 10 W without load and wattsPerCPU more for
// each busy CPU, as measured by its meter.
func report(t testing.TB, speed, wattsPerCPU float64) string {
	t.Helper()
	r := probe.Report{Complete: true, Home: "performance", Idle: []probe.Idle{{Governor: "performance", For: time.Minute, Machine: 600, Measured: true}}}
	sizes, err := probe.SizesFor(profile.Size{MilliCPU: 4000, MemoryBytes: 8 << 30})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range sizes.Points() {
		cpu := float64(size.MilliCPU) / 1000
		seconds := 5 / speed / cpu
		for _, task := range probe.Tasks() {
			r.Runs = append(r.Runs, probe.Run{
				Task: task, Size: size, Governor: r.Home, Runtime: time.Duration(seconds * float64(time.Second)), CPU: time.Duration(5 / speed * float64(time.Second)),
				Machine: energy.Joules(10*seconds + wattsPerCPU*cpu*seconds), Measured: true,
			})
		}
	}
	text, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (b *bench) profile(name string) *v1alpha1.MachineProfile {
	b.Helper()
	p := &v1alpha1.MachineProfile{}
	if err := b.Get(b.Context(), types.NamespacedName{Name: name}, p); client.IgnoreNotFound(err) != nil {
		b.Fatal(err)
	}
	return p
}

// learned waits until a profile has models, and logs them.
func (b *bench) learned(name string) *v1alpha1.MachineProfile {
	b.Helper()
	var p *v1alpha1.MachineProfile
	b.Eventually("machine type "+name+" is learned", func() string {
		p = b.profile(name)
		for _, c := range []string{v1alpha1.ProfileReady, v1alpha1.ProfileLearned, v1alpha1.ProfileProbed} {
			if !meta.IsStatusConditionTrue(p.Status.Conditions, c) {
				return fmt.Sprintf("%+v", p.Status.Conditions)
			}
		}
		return ""
	})
	return p
}

// predicted returns the prediction of a profile for a size.
func (b *bench) predicted(p *v1alpha1.MachineProfile, size profile.Size) (seconds, joules float64) {
	b.Helper()
	m, err := profile.FromObject(p)
	if err != nil {
		b.Fatal(err)
	}
	return m.Profile.Runtime.Predict(size, 0).Value, m.Profile.Energy.Predict(size, 0).Value
}

func (b *bench) event(reason, about string) {
	b.Helper()
	b.Eventually("there is an Event "+reason, func() string {
		var list eventsv1.EventList
		if err := b.List(b.Context(), &list); err != nil {
			return err.Error()
		}
		var others []string
		for _, e := range list.Items {
			if e.Reason == reason && e.Regarding.Name == about {
				return ""
			}
			if e.ReportingController == account {
				others = append(others, e.Reason+" "+e.Regarding.Name)
			}
		}
		return strings.Join(others, ", ")
	})
}

// supercargo runs the command as a user does.
func (b *bench) supercargo(args ...string) string {
	b.Helper()
	var out, errs bytes.Buffer
	if code := cli.Main(append(append([]string{"supercargo"}, args...), "--kubeconfig", b.Site.KubeconfigPath()), strings.NewReader(""), &out, &errs); code != 0 {
		b.Fatalf("supercargo %q ends with %d: %s", args, code, errs.String())
	}
	return out.String()
}
