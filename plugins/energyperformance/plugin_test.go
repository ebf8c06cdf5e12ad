package energyperformance_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/plugins/energyperformance"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/scheduling"
)

// configuration enables the plugin with a weight that outvotes the stock ones.
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

// withArgs is the same with arguments.
func withArgs(args string) string {
	return configuration + "  pluginConfig:\n  - {name: EnergyPerformance, args: " + args + "}\n"
}

type known profile.Set

func (k known) Machines() profile.Set { return profile.Set(k) }

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// always is a model that gives one value for requests of up to 4 cores and 8 GiB.
func always(value float64) profile.Model {
	return profile.Model{Terms: []profile.Term{profile.One}, Coefficients: []float64{value},
		Range: profile.Range{Most: profile.Size{MilliCPU: 4000, MemoryBytes: 8 << 30}, LeastValue: value, MostValue: value}}
}

func machine(joules, seconds float64, idle energy.Watts) *profile.Machine {
	return &profile.Machine{Profile: profile.Profile{Energy: always(joules), Runtime: always(seconds)}, Power: energy.Model{Idle: idle, Full: 4 * idle}}
}

// fastAndFrugal are a machine type that is four times as fast and one that uses two fifths of the energy.
var fastAndFrugal = known{"xeon": machine(1000, 50, 60), "arm": machine(400, 200, 3)}

func scheduler(t *testing.T, configuration string, machines energyperformance.Machines) *scheduling.Scheduler {
	t.Helper()
	clk := clocktesting.NewFakePassiveClock(noon)
	return scheduling.NewScheduler(t, configuration, clk, runtime.Registry{energyperformance.Name: energyperformance.New(clk, machines)})
}

// node returns a node of a machine type; an empty one leaves the label out.
func node(name, machineType string) *corev1.Node {
	return fixtures.Node(name, 8000, 32<<30, func(n *corev1.Node) {
		if machineType != "" {
			n.Labels[v1alpha1.LabelMachineType] = machineType
		}
	})
}

func weight(text string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationEnergyWeight] = text }
}

// busy puts a pod on a node.
func busy(t *testing.T, s *scheduling.Scheduler, node string) {
	t.Helper()
	pod := fixtures.Pod("on-"+node, 100, 1<<20)
	pod.Spec.NodeName = node
	if err := s.AddPod(pod); err != nil {
		t.Fatal(err)
	}
}

func TestPodsGoWhereTheirOwnersWish(t *testing.T) {
	tests := []struct {
		name   string
		args   string
		pod    string // its annotation, if any
		want   string
		events int
	}{
		{"energy alone", "{}", "1", "arm", 0},
		{"runtime alone", "{}", "0", "xeon", 0},
		{"both alike: 0.5 against 0.42", "{}", "", "xeon", 0},
		{"as the profile says", "{energyWeight: 1}", "", "arm", 0},
		{"the pod has the last word", "{energyWeight: 1}", "0", "xeon", 0},
		{"a weight that is none is passed over and told", "{energyWeight: 1}", "1.5", "arm", 1},
		{"NaN, too", "{energyWeight: 0}", "NaN", "xeon", 1},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := scheduler(t, withArgs(tc.args), fastAndFrugal)
			for _, n := range []string{"arm", "xeon"} {
				s.AddNode(node(n, n))
				busy(t, s, n)
			}
			s.AddNode(node("a-riddle", "")) // an unknown machine
			pod := fixtures.Pod("p", 500, 1<<30)
			if tc.pod != "" {
				weight(tc.pod)(pod)
			}
			if _, a := s.Place(pod); a.Node != tc.want {
				t.Errorf("the pod is on %q (%v), want %q", a.Node, a.Err, tc.want)
			}
			if len(s.Events) != tc.events {
				t.Errorf("%d events, want %d", len(s.Events), tc.events)
			}
			if tc.events > 0 {
				if e := <-s.Events; !strings.Contains(e, "InvalidAnnotation") || !strings.Contains(e, tc.pod) {
					t.Errorf("event %q, want one that names the annotation and its value", e)
				}
			}
		})
	}
}

// TestWakingAMachineCosts: 400 J on the frugal machine, plus 200 s of its idle power if it is idle.
func TestWakingAMachineCosts(t *testing.T) {
	hungry := known{"xeon": machine(1000, 50, 60), "arm": machine(400, 200, 20)}
	tests := []struct {
		name, args string
		busy       []string
		want       string
	}{
		{"both idle: 1000 + 50·60 J against 400 + 200·20 J", "{energyWeight: 1}", nil, "xeon"},
		{"the frugal one is awake: 400 J", "{energyWeight: 1}", []string{"arm"}, "arm"},
		{"the fast one is: 1000 J", "{energyWeight: 1}", []string{"xeon"}, "xeon"},
		{"both are", "{energyWeight: 1}", []string{"arm", "xeon"}, "arm"},
		{"idle machines stay on anyhow", "{energyWeight: 1, idlePower: Ignore}", []string{"xeon"}, "arm"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := scheduler(t, withArgs(tc.args), hungry)
			s.AddNode(node("arm", "arm"))
			s.AddNode(node("xeon", "xeon"))
			for _, n := range []string{"arm", "xeon"} { // pods that run on every node do not make it busy
				agent := fixtures.Pod("agent-"+n, 10, 1<<20, func(p *corev1.Pod) { p.OwnerReferences = ownedBy("DaemonSet") })
				agent.Spec.NodeName = n
				if err := s.AddPod(agent); err != nil {
					t.Fatal(err)
				}
			}
			for _, n := range tc.busy {
				busy(t, s, n)
			}
			if _, a := s.Place(fixtures.Pod("p", 500, 1<<30)); a.Node != tc.want {
				t.Errorf("the pod is on %q (%v), want %q", a.Node, a.Err, tc.want)
			}
		})
	}
}

// TestNoPodIsStuck: all pods are placed, whatever is known; without profiles they are placed as without the plugin. If
// no machine is known, one Event says so, however many pods there are.
func TestNoPodIsStuck(t *testing.T) {
	odd := machine(1000, 50, 60)
	odd.Profile.Energy.Quality.Spread = 3
	odd.Profile.Runtime.Quality.Spread = 3
	nan := machine(math.NaN(), math.Inf(1), energy.Watts(math.NaN())) // validation prevents this
	ancient := machine(1, 1, 60)
	ancient.Learned = noon.AddDate(-1, 0, 0)
	tests := []struct {
		name     string
		machines energyperformance.Machines
		types    []string
		says     string // the Event, if any
	}{
		{"no profiles", known{}, []string{"arm", "xeon"}, "no MachineProfile has models"},
		{"no API server to read them from", nil, []string{"arm", "xeon"}, "no API server"},
		{"nodes without a type", fastAndFrugal, []string{"", ""}, "of nodes without a machine type: all"},
		{"types that nobody knows", fastAndFrugal, []string{"sparc", "power"}, `machine type "power", machine type "sparc": all`},
		{"more of them than fit into an Event", fastAndFrugal, strings.Split("abcdefgh", ""), `machine type "e", 3 more: all`},
		{"one type only", fastAndFrugal, []string{"arm", "arm"}, ""},
		{"one known, one not", fastAndFrugal, []string{"sparc", "arm"}, ""},
		{"models that are not to be trusted", known{"arm": odd, "xeon": odd}, []string{"arm", "xeon"}, ""},
		{"no power is stated", known{"arm": machine(400, 200, 0), "xeon": machine(1000, 50, 0)}, []string{"arm", "xeon"}, ""},
		{"coefficients that are no numbers", known{"arm": nan, "xeon": nan}, []string{"arm", "xeon"}, ""},
		{"and beside sound ones", known{"arm": nan, "xeon": machine(1000, 50, 60)}, []string{"arm", "xeon"}, ""},
		{"models that are old", known{"arm": ancient, "xeon": ancient}, []string{"arm", "xeon"}, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := scheduler(t, configuration, tc.machines)
			for i, machineType := range tc.types {
				s.AddNode(node(fmt.Sprintf("node-%d", i), machineType))
			}
			for i := range 10 {
				pod := fixtures.Pod(fmt.Sprintf("p-%d", i), int64(i)*300, int64(i)<<30)
				if _, a := s.Place(pod); a.Err != nil {
					t.Errorf("pod %d of 10: %v", i, a.Err)
				}
			}
			if tc.says != "" {
				if len(s.Events) == 0 {
					t.Fatal("nothing is said")
				}
				if e := <-s.Events; !strings.Contains(e, "Warning MachinesUnknown") || !strings.Contains(e, tc.says) {
					t.Errorf("event %q, want one that says %q", e, tc.says)
				}
			}
			if len(s.Events) != 0 {
				t.Errorf("%q is said besides", <-s.Events)
			}
		})
	}
}

func TestArgumentsThatAreWrongStopTheStart(t *testing.T) {
	for args, says := range map[string]string{
		"{energyWeight: 1.1}":   "pluginConfig[EnergyPerformance].args.energyWeight",
		"{energyWeight: -1}":    "pluginConfig[EnergyPerformance].args.energyWeight",
		"{idlePower: Sometime}": "pluginConfig[EnergyPerformance].args.idlePower",
		"{energyWeigth: 1}":     "energyWeigth",
		"{energyWeight: much}":  "energyWeight",
	} {
		if _, err := scheduling.TryScheduler(t, withArgs(args), clock.RealClock{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v, want one that names %s", args, err, says)
		}
	}
}

// TestItWorksBesidePacking: in a strict profile it decides between nodes only if packing is tied.
func TestItWorksBesidePacking(t *testing.T) {
	strict := strings.Replace(scheduling.StrictConfiguration, "- {name: TimeBin, weight: 10000}",
		"- {name: EnergyPerformance, weight: 20}\n      - {name: TimeBin, weight: 10000}", 1)
	s := scheduler(t, strict, fastAndFrugal)
	s.AddNode(fixtures.Node("tight", 1000, 2<<30, func(n *corev1.Node) { n.Labels[v1alpha1.LabelMachineType] = "xeon" }))
	s.AddNode(node("wide", "arm"))
	if _, a := s.Place(fixtures.Pod("p", 500, 1<<30, weight("1"))); a.Node != "tight" {
		t.Errorf("the pod is on %q (%v), want the node that it fits best", a.Node, a.Err)
	}
}

func ownedBy(kind string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{Kind: kind, Name: "owner", Controller: &yes}}
}

// TestNodesAreKnownByTheirGovernor: machines of one type differ by their CPU governor, if it was measured.
func TestNodesAreKnownByTheirGovernor(t *testing.T) {
	both := machine(1000, 50, 60)
	both.Governor = "performance"
	both.Others = []profile.Governed{{Governor: "powersave", Profile: profile.Profile{Energy: always(400), Runtime: always(200)}}}
	tests := []struct {
		name, weight, a, b, want string
	}{
		{"energy alone", "1", "performance", "powersave", "b"},
		{"runtime alone", "0", "performance", "powersave", "a"},
		{"the nearest to what was probed", "0", "powersave", "schedutil", "b"},
		{"nothing is said: as when it was probed", "1", "", "powersave", "b"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := scheduler(t, withArgs("{}"), known{"xeon": both})
			for name, governor := range map[string]string{"a": tc.a, "b": tc.b} {
				n := node(name, "xeon")
				if governor != "" {
					n.Annotations = map[string]string{v1alpha1.AnnotationGovernor: governor}
				}
				s.AddNode(n)
				busy(t, s, name)
			}
			if _, a := s.Place(fixtures.Pod("p", 500, 1<<30, weight(tc.weight))); a.Node != tc.want {
				t.Errorf("the pod is on %q (%v), want %q", a.Node, a.Err, tc.want)
			}
		})
	}
}
