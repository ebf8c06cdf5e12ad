package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/plugins"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/scheduling"
)

const gi = int64(1) << 30

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// blended gives the packing plugins the same weight as all others.
const blended = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 100
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled: [{name: PackingSort}, {name: NodeClass}, {name: TimeBin, weight: 1}, {name: BestFit, weight: 1}]
      disabled: [{name: PrioritySort}]
    postFilter:
      enabled: [{name: BestFit}]
`

// withoutTimeBin is strict and packs batch pods by size alone.
var withoutTimeBin = strings.NewReplacer("- {name: TimeBin, weight: 10000}", "", "enabled: [{name: TimeBin}]", "enabled: []").
	Replace(scheduling.StrictConfiguration)

// place schedules a pod and fails the test if it goes to another node than wanted.
func place(t *testing.T, s *scheduling.Scheduler, want string, pod *corev1.Pod) scheduling.Attempt {
	t.Helper()
	_, a := s.Place(pod)
	if a.Node != want {
		t.Errorf("pod %s is on %q (%v), want %q", pod.Name, a.Node, a.Err, want)
	}
	return a
}

func TestServicesGoWhereTheyLeaveLeast(t *testing.T) {
	s := scheduling.NewScheduler(t, scheduling.StrictConfiguration, clock.RealClock{})
	s.AddNode(fixtures.Node("large", 8000, 32*gi))
	s.AddNode(fixtures.Node("small", 2000, 4*gi))
	s.AddNode(fixtures.Node("tight-but-slow", 200, 3*gi))
	place(t, s, "small", fixtures.Pod("a", 500, 2*gi))
	place(t, s, "small", fixtures.Pod("b", 500, 2*gi))
	place(t, s, "tight-but-slow", fixtures.Pod("c", 100, gi))
	place(t, s, "large", fixtures.Pod("d", 500, gi))
}

func TestBestFitPlacesBatchPodsWhereTimeBinIsOff(t *testing.T) {
	s := scheduling.NewScheduler(t, withoutTimeBin, clock.RealClock{})
	s.AddNode(fixtures.Node("large", 8000, 32*gi))
	s.AddNode(fixtures.Node("small", 2000, 4*gi))
	if a := place(t, s, "small", fixtures.Pod("a", 500, gi, fixtures.Batch("5m"))); a.Evaluated != 1 {
		t.Errorf("%d nodes were checked, want 1", a.Evaluated)
	}
	selected := fixtures.Pod("b", 500, gi, fixtures.Batch("5m"))
	selected.Spec.Affinity = &corev1.Affinity{} // not plain: scored among all nodes
	place(t, s, "small", selected)
}

func TestBatchPodsShareANodeThatEndsWhenTheyDo(t *testing.T) {
	clk := clocktesting.NewFakeClock(noon)
	s := scheduling.NewScheduler(t, scheduling.StrictConfiguration, clk)
	ends := func(in time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			fixtures.Batch("1m")(p)
			p.Annotations[v1alpha1.AnnotationExpectedFinish] = runtimes.Format(clk.Now().Add(in))
		}
	}
	for _, n := range []string{"free", "soon", "late"} {
		s.AddNode(fixtures.Node(n, 8000, 32*gi))
	}
	// Pods as if placed by an earlier scheduler: their finish is in their annotation.
	for node, in := range map[string]time.Duration{"soon": 12 * time.Minute, "late": 47 * time.Minute} {
		pod := fixtures.Pod("on-"+node, 100, gi, ends(in))
		pod.Spec.NodeName = node
		if err := s.AddPod(pod); err != nil {
			t.Fatal(err)
		}
	}
	place(t, s, "soon", fixtures.Pod("a", 100, 2*gi, fixtures.Batch("11m")))
	place(t, s, "late", fixtures.Pod("b", 100, gi, fixtures.Batch("46m")))
	place(t, s, "late", fixtures.Pod("c", 100, gi, fixtures.Batch("30m"))) // its own bin is empty: search upward first
	place(t, s, "late", fixtures.Pod("d", 100, gi, fixtures.Batch("99m"))) // nothing above: downward
	clk.Step(40 * time.Minute)
	place(t, s, "late", fixtures.Pod("e", 100, gi, fixtures.Batch("6m"))) // 7 minutes are left there
}

func TestTheReservedFinishCountsBeforeTheBindingComesBack(t *testing.T) {
	clk := clocktesting.NewFakeClock(noon)
	s := scheduling.NewScheduler(t, scheduling.StrictConfiguration, clk)
	s.AddNode(fixtures.Node("a", 8000, 32*gi))
	s.AddNode(fixtures.Node("b", 8000, 10*gi)) // the tighter node for all pods that fit it
	pod := fixtures.Pod("long", 100, 20*gi, fixtures.Batch("2h"))
	a := s.Attempt(pod)
	if status := a.Framework.RunReservePluginsReserve(t.Context(), a.State, pod, a.Node); !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = a.Node
	delete(assumed.Annotations, v1alpha1.AnnotationRuntime) // so that only the reservation knows
	assumed.CreationTimestamp.Time = noon.Add(-24 * time.Hour)
	if err := s.AddPod(assumed); err != nil {
		t.Fatal(err)
	}
	place(t, s, "a", fixtures.Pod("also-long", 100, gi, fixtures.Batch("2h")))
	a.Framework.RunReservePluginsUnreserve(t.Context(), a.State, pod, a.Node)
}

func TestClassesStayOnTheirMachines(t *testing.T) {
	s := scheduling.NewScheduler(t, scheduling.StrictConfiguration, clock.RealClock{})
	s.AddNode(fixtures.Node("batch", 4000, 4*gi, fixtures.NodeClass("batch")))
	s.AddNode(fixtures.Node("service", 4000, 5*gi, fixtures.NodeClass("service")))
	place(t, s, "service", fixtures.Pod("web", 100, gi))
	place(t, s, "batch", fixtures.Pod("job", 100, gi, fixtures.Batch("5m")))
	_, a := s.Place(fixtures.Pod("too-large-a-job", 100, 4*gi, fixtures.Batch("5m")))
	if a.Err == nil || !strings.Contains(fitMessage(a), "took only service pods") {
		t.Errorf("a job fits a service machine: %q, %v", a.Node, fitMessage(a))
	}
	daemon := fixtures.Pod("agent", 100, gi/4, func(p *corev1.Pod) {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", Controller: &yes}}
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "batch"}
	})
	place(t, s, "batch", daemon)
	without := scheduling.NewScheduler(t, strings.Replace(scheduling.StrictConfiguration, "- {name: NodeClass}", "", 1), clock.RealClock{})
	without.AddNode(fixtures.Node("batch", 4000, 4*gi, fixtures.NodeClass("batch")))
	without.AddNode(fixtures.Node("larger", 4000, 8*gi))
	place(t, without, "batch", fixtures.Pod("web", 100, gi)) // without the plugin the label has no effect
	s.AddNode(fixtures.Node("unlabelled", 4000, 6*gi, func(n *corev1.Node) { n.Labels = nil }))
	place(t, s, "unlabelled", fixtures.Pod("large-job", 100, 5*gi, fixtures.Batch("5m")))
}

// TestPodsThatMayNotBeInterruptedStayOffSpotMachines, which fit best here.
func TestPodsThatMayNotBeInterruptedStayOffSpotMachines(t *testing.T) {
	s := scheduling.NewScheduler(t, scheduling.StrictConfiguration, clock.RealClock{})
	s.AddNode(fixtures.Node("spot", 4000, 4*gi, func(n *corev1.Node) { n.Labels["karpenter.sh/capacity-type"] = "spot" }))
	steady := func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationInterruptible: "false"} }
	_, a := s.Place(fixtures.Pod("early", 100, gi, steady))
	if a.Err == nil || !strings.Contains(fitMessage(a), "may be interrupted and the pod must not be") {
		t.Errorf("a pod that must not be interrupted fits a spot machine: %q, %v", a.Node, fitMessage(a))
	}
	place(t, s, "spot", fixtures.Pod("agent", 100, gi/4, steady, func(p *corev1.Pod) { // which is for this node
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", Controller: new(true)}}
	}))
	s.AddNode(fixtures.Node("on-demand", 4000, 8*gi))
	place(t, s, "on-demand", fixtures.Pod("steady", 100, gi, steady))
	place(t, s, "spot", fixtures.Pod("web", 100, gi))
	place(t, s, "spot", fixtures.Pod("odd", 100, gi, func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationInterruptible: "no"} }))
	wantEvents(t, s, `supercargo.dev/interruptible is "no"`)
}

func fitMessage(a scheduling.Attempt) string {
	var fit *framework.FitError
	if errors.As(a.Err, &fit) {
		return fit.Error()
	}
	return fmt.Sprint(a.Err)
}

func TestMalformedLabelsAndAnnotationsGiveAnEventAndTheDefault(t *testing.T) {
	s := scheduling.NewScheduler(t, scheduling.StrictConfiguration, clock.RealClock{})
	s.AddNode(fixtures.Node("a", 4000, 4*gi))
	place(t, s, "a", fixtures.Pod("soon", 100, gi, fixtures.Batch("soon")))
	place(t, s, "a", fixtures.Pod("bach", 100, gi, func(p *corev1.Pod) { p.Labels[v1alpha1.LabelClass] = "bach" }))
	wantEvents(t, s, `supercargo.dev/runtime="soon"`, `supercargo.dev/class="bach"`)
}

func wantEvents(t *testing.T, s *scheduling.Scheduler, wants ...string) {
	t.Helper()
	var got []string
	for len(s.Events) > 0 {
		got = append(got, <-s.Events)
	}
	for _, want := range wants {
		if !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("no Event contains %q: %q", want, got)
		}
	}
}

func TestNodesThatReportNoCapacityAreNeverChosenForBeingTight(t *testing.T) {
	for name, configuration := range map[string]string{"narrowing": scheduling.StrictConfiguration, "all nodes": neverNarrow} {
		t.Run(name, func(t *testing.T) {
			s := scheduling.NewScheduler(t, configuration, clock.RealClock{})
			s.AddNode(fixtures.Node("empty", 0, 0))
			s.AddNode(fixtures.Node("good", 4000, 4*gi))
			s.AddNode(fixtures.Node("larger", 4000, 8*gi))
			place(t, s, "good", fixtures.Pod("asks-for-nothing", 0, 0))
		})
	}
}

// picky is an unknown filter.
type picky struct{}

func (picky) Name() string { return "Picky" }

func (picky) Filter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) *fwk.Status {
	return nil
}

var pickyRegistry = frameworkruntime.Registry{
	"Picky": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return picky{}, nil },
}

func TestWhatIsNarrowed(t *testing.T) {
	plain := fixtures.Pod("p", 100, gi)
	with := func(change func(*corev1.Pod)) *corev1.Pod { return fixtures.Pod("p", 100, gi, change) }
	container := func(change func(*corev1.Container)) *corev1.Pod {
		return with(func(p *corev1.Pod) { change(&p.Spec.Containers[0]) })
	}
	tests := []struct {
		name          string
		configuration string
		pod           *corev1.Pod
		want          bool
	}{
		{"a plain pod in a strict profile", scheduling.StrictConfiguration, plain, true},
		{"a plain batch pod", scheduling.StrictConfiguration, fixtures.Pod("p", 100, gi, fixtures.Batch("3m")), true},
		{"with a service-account token", scheduling.StrictConfiguration, with(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}}
		}), true},
		{"with the tolerations every pod gets", scheduling.StrictConfiguration, with(func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
		}), true},
		{"not in a blended profile", blended, plain, false},
		{"not when the arguments say never", neverNarrow, plain, false},
		{"not when BestFit's PostFilter is not first", strings.Replace(scheduling.StrictConfiguration, "enabled: [{name: BestFit}, ", "enabled: [", 1), plain, false},
		{"not beside a filter that may reject any node", strings.Replace(scheduling.StrictConfiguration, "- {name: NodeClass}", "- {name: NodeClass}\n      - {name: Picky}", 1), plain, false},
		{"not when BestFit looks before the filters have prepared", strings.Replace(scheduling.StrictConfiguration, "    postFilter:", "    preFilter: {enabled: [{name: BestFit}]}\n    postFilter:", 1), plain, false},
		{"with a node selector", scheduling.StrictConfiguration, with(func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "a"} }), true},
		{"with affinity", scheduling.StrictConfiguration, with(func(p *corev1.Pod) { p.Spec.Affinity = &corev1.Affinity{} }), true},
		{"with a hard spread constraint", scheduling.StrictConfiguration, with(spread(corev1.DoNotSchedule)), true},
		{"not with a soft spread constraint among equal nodes", scheduling.StrictConfiguration, with(func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.ScheduleAnyway}}
		}), false},
		{"with a host port", scheduling.StrictConfiguration, container(func(c *corev1.Container) { c.Ports = []corev1.ContainerPort{{HostPort: 80}} }), true},
		{"not with storage of its own", scheduling.StrictConfiguration, with(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}}}}
		}), false},
		{"not with local storage", scheduling.StrictConfiguration, container(func(c *corev1.Container) {
			c.Resources.Requests[corev1.ResourceEphemeralStorage] = c.Resources.Requests[corev1.ResourceMemory]
		}), false},
		{"not when it tolerates a tainted node", scheduling.StrictConfiguration, with(func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}), false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := scheduling.NewScheduler(t, tc.configuration, clock.RealClock{}, pickyRegistry)
			for i := range 5 {
				s.AddNode(fixtures.Node(fmt.Sprint(i), 4000, 4*gi, func(n *corev1.Node) {
					n.Labels["zone"], n.Labels[corev1.LabelTopologyZone] = "a", "a"
					n.Status.Allocatable[corev1.ResourceEphemeralStorage] = n.Status.Allocatable[corev1.ResourceMemory]
				}))
			}
			s.AddNode(fixtures.Node("tainted", 4000, 4*gi, func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
			}))
			_, a := s.Place(tc.pod)
			if a.Err != nil {
				t.Fatal(a.Err)
			}
			if narrowed := a.Evaluated == 1; narrowed != tc.want {
				t.Errorf("%d nodes were checked: narrowed %t, want %t", a.Evaluated, narrowed, tc.want)
			}
		})
	}
}

func TestAStrictProfileOverridesSoftPreferencesAndABlendedOneDoesNot(t *testing.T) {
	for _, tc := range []struct{ name, configuration, want string }{
		{"strict, narrowing", scheduling.StrictConfiguration, "tight"},
		{"strict, all nodes", neverNarrow, "tight"},
		{"blended", blended, "preferred"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := scheduling.NewScheduler(t, tc.configuration, clock.RealClock{})
			s.AddNode(fixtures.Node("tight", 4000, 4*gi, func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectPreferNoSchedule}}
			}))
			s.AddNode(fixtures.Node("preferred", 4000, 5*gi, func(n *corev1.Node) { n.Labels["disk"] = "ssd" }))
			place(t, s, tc.want, fixtures.Pod("p", 100, gi, func(p *corev1.Pod) {
				p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
					{Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpExists}}}}}}}
			}))
		})
	}
}

func TestNominatedPodsKeepTheirRoom(t *testing.T) {
	for _, tc := range []struct {
		name      string
		nominated *corev1.Pod
		slots     int64
		want      string
	}{
		{"the room of a pod of higher priority is taken", withPriority(fixtures.Pod("n", 100, gi), 5), 110, "large"},
		{"of equal priority too", fixtures.Pod("n", 100, gi), 110, "large"},
		{"of lower priority not", withPriority(fixtures.Pod("n", 100, gi), -5), 110, "small"},
		{"a nominated pod that leaves room is no hindrance", fixtures.Pod("n", 100, gi/2), 2, "small"},
		{"one that takes the last slot is", fixtures.Pod("n", 100, gi/2), 1, "large"},
		{"one with constraints that leaves room is no hindrance", fixtures.Pod("n", 100, gi/2, apart(true)), 2, "small"},
		{"its own anti-affinity does not count before it is there, as in kube-scheduler", fixtures.Pod("n", 100, gi/2, func(p *corev1.Pod) {
			apart(true)(p)
			p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector = &metav1.LabelSelector{}
		}), 2, "small"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := scheduling.NewScheduler(t, scheduling.StrictConfiguration, clock.RealClock{})
			s.AddNode(fixtures.Node("small", 4000, 3*gi/2, func(n *corev1.Node) {
				n.Status.Allocatable[corev1.ResourcePods] = *resource.NewQuantity(tc.slots, resource.DecimalSI)
			}))
			s.AddNode(fixtures.Node("large", 4000, 8*gi))
			if err := s.Nominate(tc.nominated, "small"); err != nil {
				t.Fatal(err)
			}
			if a := place(t, s, tc.want, fixtures.Pod("p", 100, gi)); a.Evaluated != 1 {
				t.Errorf("%d nodes were checked, want 1", a.Evaluated)
			}
		})
	}
}

func withPriority(p *corev1.Pod, priority int32) *corev1.Pod {
	p.Spec.Priority = &priority
	return p
}

func TestMalformedArgumentsStopTheStartAndNameTheField(t *testing.T) {
	args := func(plugin, args string) string {
		return scheduling.StrictConfiguration + "  pluginConfig:\n  - {name: " + plugin + ", args: " + args + "}\n"
	}
	tests := []struct{ configuration, want string }{
		{args("TimeBin", "{scalingCycle: 1ms}"), "pluginConfig[TimeBin].args.scalingCycle"},
		{args("TimeBin", "{defaultRuntime: -5m}"), "pluginConfig[TimeBin].args.defaultRuntime"},
		{args("TimeBin", "{narrowing: Sometimes}"), "pluginConfig[TimeBin].args.narrowing"},
		{args("CheckpointStaging", "{timeout: 10ms}"), "pluginConfig[CheckpointStaging].args.timeout"},
		{args("CheckpointStaging", "{deadline: 5m}"), `unknown field "deadline"`},
		{args("BestFit", "{narrowing: 5}"), "narrowing"},
		{args("BestFit", "{narrowing: On}"), "narrowing"},
		{args("BestFit", "{narrow: Never}"), `unknown field "narrow"`},
		{args("PackingSort", "{by: age}"), "PackingSort: the plugin has no arguments"},
		{args("NodeClass", "{default: any}"), "NodeClass: the plugin has no arguments"},
	}
	for _, tc := range tests {
		if _, err := scheduling.TryScheduler(t, tc.configuration, clock.RealClock{}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("error %v, want one with %q", err, tc.want)
		}
	}
}

// TestTheRegistryHoldsOursAndThoseOfSchedulerPlugins ensures that the image is a drop-in replacement. dropped are the
// plugins that do not compile with this Kubernetes version.
func TestTheRegistryHoldsOursAndThoseOfSchedulerPlugins(t *testing.T) {
	want := []string{
		"BestFit", "CapacityScheduling", "CheckpointStaging", "Coscheduling", "EnergyPerformance", "LoadVariationRiskBalancing", "LowRiskOverCommitment",
		"NetworkOverhead", "NodeClass", "NodeResourceTopologyMatch", "NodeResourcesAllocatable", "PackingSort", "Peaks",
		"PodState", "PreemptionToleration", "QOSSort", "SySched", "TargetLoadPacking", "TimeBin", "TopologicalSort",
	}
	want = slices.DeleteFunc(want, func(name string) bool { return slices.Contains(dropped, name) })
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(plugins.Registry(clock.RealClock{})))); diff != "" {
		t.Errorf("registry (-want +got):\n%s", diff)
	}
}
