package record

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/test/fixtures"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// after returns a time after the recording began.
func after(d time.Duration) time.Time { return noon.Add(d) }

func plain(name string) string { return name }

func tracker(before *trace.Recording) *Tracker {
	price := int64(100_000)
	t := NewTracker(plain, func(*corev1.Node) *int64 { return &price }, before)
	t.Begin(noon, false)
	return t
}

func node(name string, change ...func(*corev1.Node)) *corev1.Node {
	return fixtures.Node(name, 4000, 16<<30, append([]func(*corev1.Node){func(n *corev1.Node) {
		n.UID, n.CreationTimestamp = types.UID("uid-"+name), metav1.NewTime(after(-time.Hour))
		n.Labels[corev1.LabelInstanceTypeStable] = "m5.xlarge"
	}}, change...)...)
}

func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	return fixtures.Pod(name, 500, 1<<30, append([]func(*corev1.Pod){func(p *corev1.Pod) {
		p.CreationTimestamp = metav1.NewTime(after(-time.Minute))
	}}, change...)...)
}

func runs(on string, since time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Phase, p.Status.StartTime = on, corev1.PodRunning, new(metav1.NewTime(after(since)))
	}
}

func succeeded(at time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodSucceeded
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(after(at))}}}}
	}
}

func daemon(p *corev1.Pod) {
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "logs", UID: "logs", Controller: new(true)}}
}

// short formats rows as "EVENT ID SECONDS [NODE]".
func short(rows []trace.Row) (all []string) {
	for i := range rows {
		r := &rows[i]
		parts := []string{string(r.Event), r.ID, (r.Time - since1970(noon)).String()}
		if r.Node != "" {
			parts = append(parts, r.Node)
		}
		all = append(all, strings.Join(parts, " "))
	}
	return all
}

func TestWhatIsSeenBecomesRows(t *testing.T) {
	for _, tc := range []struct {
		name string
		see  func(*Tracker) []trace.Row
		want []string
	}{
		{"a pod that was made, started and ended before anybody looked is told at once", func(t *Tracker) []trace.Row {
			return t.Pod(pod("p", runs("n", -time.Second), succeeded(time.Second)), after(2*time.Second))
		}, []string{"pod p -1m0s", "start p -1s", "end p 1s"}},
		{"one that ended before the recording began is not", func(t *Tracker) []trace.Row {
			return t.Pod(pod("p", runs("n", -time.Minute), succeeded(-time.Second)), after(0))
		}, nil},
		{"each step is told once", func(t *Tracker) (all []trace.Row) {
			for _, p := range []*corev1.Pod{pod("p"), pod("p"), pod("p", runs("n", time.Second)), pod("p", runs("n", time.Second)), pod("p", runs("n", time.Second), succeeded(5*time.Second)), pod("p", runs("n", time.Second), succeeded(5*time.Second))} {
				all = append(all, t.Pod(p, after(6*time.Second))...)
			}
			return append(all, t.PodGone(pod("p", runs("n", time.Second), succeeded(5*time.Second)), after(9*time.Second))...)
		}, []string{"pod p -1m0s", "start p 1s", "end p 5s"}},
		{"a pod that is deleted has ended", func(t *Tracker) []trace.Row {
			t.Pod(pod("p", runs("n", 0)), after(0))
			return t.PodGone(pod("p", runs("n", 0)), after(7*time.Second))
		}, []string{"end p 7s"}},
		{"a node, what it has become, and that it has gone", func(t *Tracker) (all []trace.Row) {
			all = append(all, t.Node(node("n"), after(0))...)
			all = append(all, t.Node(node("n", func(n *corev1.Node) { n.Labels["other"] = "label" }), after(time.Second))...)
			all = append(all, t.Node(node("n", func(n *corev1.Node) { n.Status.Allocatable = fixtures.Node("x", 3000, 16<<30).Status.Allocatable }), after(2*time.Second))...)
			all = append(all, t.NodeGone(node("n"), after(3*time.Second))...)
			return append(all, t.NodeGone(node("n"), after(4*time.Second))...)
		}, []string{"node uid-n -1h0m0s", "node uid-n 2s", "gone uid-n 3s"}},
		{"a node whose kubelet has not spoken is not there yet", func(t *Tracker) []trace.Row {
			return t.Node(node("n", func(n *corev1.Node) { n.Status.Allocatable = nil }), after(0))
		}, nil},
		{"a pod of a DaemonSet is told with its node, once that is known", func(t *Tracker) (all []trace.Row) {
			d := pod("d", daemon, runs("n", 0))
			all = append(all, t.Pod(d, after(0))...)
			all = append(all, t.Node(node("n"), after(1*time.Second))...)
			return append(all, t.Pod(d, after(2*time.Second))...)
		}, []string{"node uid-n -1h0m0s", "daemon d -1m0s uid-n", "start d 0s uid-n"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, short(tc.see(tracker(nil)))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A node is priced when its kubelet has reported, so that nobody is told before that its price is missing.
func TestANodeWhoseKubeletHasNotReportedIsNotPriced(t *testing.T) {
	asked := 0
	tr := NewTracker(plain, func(*corev1.Node) *int64 { asked++; return nil }, nil)
	tr.Begin(noon, false)
	for _, allocatable := range []corev1.ResourceList{nil, {corev1.ResourcePods: resource.MustParse("110")}} {
		if rows := tr.Node(node("n", func(n *corev1.Node) { n.Status.Allocatable = allocatable }), after(0)); len(rows) > 0 || asked > 0 {
			t.Errorf("with %v: rows %v, and its price was asked for %d times", allocatable, rows, asked)
		}
	}
	if rows := tr.Node(node("n"), after(time.Second)); len(rows) != 1 || asked != 1 {
		t.Errorf("rows %v, and its price was asked for %d times", rows, asked)
	}
}

func TestARowHasWhatThePodSays(t *testing.T) {
	p := pod("p", fixtures.Batch("25m"), func(p *corev1.Pod) {
		p.Annotations[v1alpha1.AnnotationCategory], p.Annotations[v1alpha1.AnnotationMigration], p.Annotations[v1alpha1.AnnotationEnergyWeight] = "render", "restart", "0.8"
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"arm64"}}}}},
		}}}
	})
	h := 0.8
	want := []trace.Row{{
		Time: since1970(after(-time.Minute)), Event: trace.EventPod, ID: "p", Namespace: "default", Name: "p", MilliCPU: 500, MemoryBytes: 1 << 30, Class: class.Batch,
		Category: "render", Migration: "restart", Arch: "arm64", Runtime: 25 * time.Minute, EnergyWeight: &h,
	}}
	if diff := cmp.Diff(want, tracker(nil).Pod(p, noon)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	price := int64(100_000)
	wantNode := []trace.Row{{
		Time: since1970(after(-time.Hour)), Event: trace.EventNode, ID: "uid-n", Name: "n", MilliCPU: 4000, MemoryBytes: 16 << 30, Flavor: "m5.xlarge", MicroDollarsPerHour: &price, MaxPods: 110,
	}}
	if diff := cmp.Diff(wantNode, tracker(nil).Node(node("n"), noon)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := FlavorOf(node("n", func(n *corev1.Node) { delete(n.Labels, corev1.LabelInstanceTypeStable) })); got != "cpu-4-memory-16gi" {
		t.Errorf("a node without an instance type is of flavor %q", got)
	}
}

// TestWhatIsWrittenIsReadWhateverTheAnnotationsOfAPod: an annotation can have any text, and a week of a cluster must
// not become unreadable because of one.
func TestWhatIsWrittenIsReadWhateverTheAnnotationsOfAPod(t *testing.T) {
	for category, want := range map[string]string{
		"render": "render", `a, "b"`: `a, "b"`, "two\nlines": "", "a\tb": "", "bad \xff": "", strings.Repeat("x", 253): strings.Repeat("x", 253), strings.Repeat("x", 254): "",
	} {
		rows := tracker(nil).Pod(pod("p", fixtures.Batch("25m"), func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationCategory] = category }), noon)
		rec, err := trace.ReadRecording("r.csv", bytes.NewReader(rows[0].Append([]byte(trace.RecordingHeader))))
		if err != nil || rec.Rows[0].Category != want {
			t.Errorf("category %.20q: %v, %v; want %.20q", category, rec, err, want)
		}
	}
}

func TestAPodThatRequiresNoArchitectureOfThisWorldIsRecordedAsOne(t *testing.T) {
	for arch, want := range map[string]string{"x86_64": "x86_64", "two\nlines": "invalid"} {
		rows := tracker(nil).Pod(pod("p", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelArchStable: arch} }), noon)
		rec, err := trace.ReadRecording("r.csv", bytes.NewReader(rows[0].Append([]byte(trace.RecordingHeader))))
		if err != nil || rec.Rows[0].Arch != want {
			t.Errorf("%q: %v, %v; want %q", arch, rec, err, want)
		}
	}
}

func TestAPodThatMustNotBeDisruptedIsNeverMoved(t *testing.T) {
	for value, want := range map[string]string{"true": "never", "false": "checkpoint", "5m": "checkpoint", "": "checkpoint"} {
		p := pod("p", func(p *corev1.Pod) {
			p.Annotations = map[string]string{v1alpha1.AnnotationMigration: "checkpoint", annotationDoNotDisrupt: value}
		})
		if rows := tracker(nil).Pod(p, noon); rows[0].Migration != want {
			t.Errorf("with value %q its migration is %q, want %q", value, rows[0].Migration, want)
		}
	}
}

// TestWhatTheRecordingLacksOfPodsIsSaidWithTheirNumber has each limit to the nodes of a pod, and near ones that the file holds or
// that are none.
func TestWhatTheRecordingLacksOfPodsIsSaidWithTheirNumber(t *testing.T) {
	selects := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
	}
	requires := func(terms ...corev1.NodeSelectorTerm) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
		}
	}
	term := func(key string, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}}}
	}
	near := func(required bool) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			one := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname}
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: one}}}}
			if required {
				p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{one}}
			}
		}
	}
	apart := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{}}}}
	}
	spreads := func(when corev1.UnsatisfiableConstraintAction) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{WhenUnsatisfiable: when}}
		}
	}
	port := func(host int32) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: host}} }
	}
	mounts := func(source corev1.VolumeSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{VolumeSource: source}} }
	}
	const selectors, others = "node selectors or node affinity", "requests of resources other than CPU and memory"
	for _, tc := range []struct {
		name string
		pod  func(*corev1.Pod)
		want string
	}{
		{"nothing", func(*corev1.Pod) {}, ""},
		{"a selector", selects("disk", "ssd"), selectors},
		{"a selector of the architecture", selects(corev1.LabelArchStable, "arm64"), ""},
		{"a selector of Linux", selects(corev1.LabelOSStable, "linux"), ""},
		{"a selector of another system", selects(corev1.LabelOSStable, "windows"), selectors},
		{"node affinity", requires(term("disk", "ssd")), selectors},
		{"node affinity to an architecture", requires(term(corev1.LabelArchStable, "arm64")), ""},
		{"to one of two", requires(term(corev1.LabelArchStable, "arm64", "amd64")), selectors},
		{"in two terms", requires(term(corev1.LabelArchStable, "arm64"), term(corev1.LabelArchStable, "amd64")), selectors},
		{"and to a disk", requires(corev1.NodeSelectorTerm{MatchExpressions: append(term(corev1.LabelArchStable, "arm64").MatchExpressions, term("disk", "ssd").MatchExpressions...)}), selectors},
		{"to a name", requires(corev1.NodeSelectorTerm{MatchExpressions: term(corev1.LabelArchStable, "arm64").MatchExpressions, MatchFields: term("metadata.name", "n").MatchExpressions}), selectors},
		{"to another architecture than the selector", func(p *corev1.Pod) {
			selects(corev1.LabelArchStable, "arm64")(p)
			requires(term(corev1.LabelArchStable, "amd64"))(p)
		}, selectors},
		{"pod affinity", near(true), "pod affinity or anti-affinity"},
		{"anti-affinity", apart, "pod affinity or anti-affinity"},
		{"preferred anti-affinity", near(false), ""},
		{"topology spread", spreads(corev1.DoNotSchedule), "topology spread"},
		{"preferred topology spread", spreads(corev1.ScheduleAnyway), ""},
		{"a host port", port(80), "host ports"},
		{"a port", port(0), ""},
		{"a GPU", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
		}, others},
		{"a claim", mounts(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}), "volume claims"},
		{"an ephemeral volume", mounts(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}), "volume claims"},
		{"an empty directory", mounts(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}), ""},
		{"a resource claim", func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{}} }, "resource claims"},
		{"a gang", fixtures.Gang("g"), "gangs"},
		{"a selector of a pod of a DaemonSet", func(p *corev1.Pod) { daemon(p); runs("n", 0)(p); selects("disk", "ssd")(p) }, ""},
	} {
		tr := tracker(nil)
		tr.Node(node("n"), noon)
		tr.Pod(pod("p", tc.pod), noon)
		tr.Pod(pod("p", tc.pod, runs("n", time.Second)), after(time.Second)) // it is counted once
		want := ""
		if tc.want != "" {
			want = "Of 1 pod added to it, the recording lacks what it cannot hold: " + tc.want + " of 1 pod. The simulation may place such pods on nodes that the cluster would not."
		}
		if got := tr.Lacks(); got != want {
			t.Errorf("%s: it says %q, want %q", tc.name, got, want)
		}
	}
	tr := tracker(nil)
	for name, change := range map[string]func(*corev1.Pod){"a": apart, "b": apart, "c": port(80), "d": port(0)} {
		tr.Pod(pod(name, change), noon)
	}
	if got, want := tr.Lacks(), "Of 4 pods added to it, the recording lacks what it cannot hold: pod affinity or anti-affinity of 2 pods, host ports of 1 pod. "; !strings.HasPrefix(got, want) {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// TestARecordingContinuesWhereItWasInterrupted records in two parts. In between one pod ends, one is
// deleted, one is created, and a node is deleted.
func TestARecordingContinuesWhereItWasInterrupted(t *testing.T) {
	first := tracker(nil)
	rec := &trace.Recording{Rows: []trace.Row{{Time: since1970(noon), Event: trace.EventBegin}}}
	add := func(rows []trace.Row) { rec.Rows = append(rec.Rows, rows...) }
	for _, name := range []string{"n", "m"} {
		add(first.Node(node(name), noon))
	}
	for _, name := range []string{"stays", "ends", "deleted"} {
		add(first.Pod(pod(name, runs("n", 0)), after(0)))
	}
	add([]trace.Row{first.Alive(after(time.Minute))})

	second := NewTracker(plain, first.Price, rec)
	if got := second.Interrupted() - since1970(noon); got != time.Minute {
		t.Errorf("it was interrupted after %v, want a minute", got)
	}
	interrupted := second.Interrupted()
	now := after(time.Hour)
	second.Begin(now, false)
	var got []trace.Row
	got = append(got, second.Node(node("n"), now)...)
	got = append(got, second.Pod(pod("stays", runs("n", 0)), now)...)
	got = append(got, second.Pod(pod("ends", runs("n", 0), succeeded(30*time.Minute)), now)...)
	got = append(got, second.Pod(pod("new", runs("n", 40*time.Minute)), now)...)
	got = append(got, second.Missing([]string{"uid-n"}, interrupted)...)
	want := []string{"end ends 30m0s", "pod new -1m0s", "start new 40m0s uid-n", "gone uid-m 1m0s", "end deleted 1m0s"}
	if diff := cmp.Diff(want, short(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
