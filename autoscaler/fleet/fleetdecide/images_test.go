package fleetdecide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
)

func linuxHost(arch string) *constraint.Host {
	return &constraint.Host{Labels: map[string]string{corev1.LabelOSStable: "linux", corev1.LabelArchStable: arch}}
}

// mixed is a scene with small amd64 machines and cheaper arm64 ones, arm, both of size four.
func mixed() *scene {
	s := newScene()
	s.State.Flavors, s.Flavors = s.State.Flavors[1:], s.Flavors[1:]
	s.State.Flavors[0].Host = linuxHost("amd64")
	cheap := flavor("arm", 4, 30)
	cheap.Arch, cheap.Host = "arm64", linuxHost("arm64")
	s.State.Flavors = append([]cluster.Flavor{cheap}, s.State.Flavors...)
	s.Flavors = append([]Flavor{s.Flavors[0]}, s.Flavors...)
	s.Flavors[0].Name, s.Flavors[0].MicroDollarsPerHour = "arm", 30
	return s
}

var ofImages = constraint.NewCompiler(nil)

// using returns a pod of the namespace shop with these images.
func using(t *testing.T, p cluster.Pod, images ...string) cluster.Pod {
	t.Helper()
	var err error
	p.Namespace, p.Images = "shop", images
	p.Demands, err = ofImages.Compile(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: p.Name}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// lacking is a misfit at midnight: a pod on a node shows that an image has no variant.
func lacking(image, arch string) cluster.Misfit {
	return cluster.Misfit{Platform: cluster.Platform{Image: image, Arch: arch}, Namespace: "shop", Pod: "shop/old", Node: "n", At: midnight}
}

func crashing(image, arch string) cluster.Misfit {
	m := lacking(image, arch)
	m.Crashed = true
	return m
}

func TestAPodIsNotGivenMachinesOfAnArchitectureThatItsImageLacksThoughTheyAreCheaper(t *testing.T) {
	all := func(m ...cluster.Misfit) []cluster.Misfit { return m }
	other := func(p cluster.Pod) cluster.Pod { p.Namespace = "bank"; return p }
	old := func(m cluster.Misfit, ago time.Duration) cluster.Misfit { m.At = midnight.Add(-ago); return m }
	runs := map[cluster.Platform]bool{{Image: "a", Arch: "arm64"}: true}
	for name, tc := range map[string]struct {
		misfits []cluster.Misfit
		runs    map[cluster.Platform]bool
		pods    []cluster.Pod
		want    []string
	}{
		"nothing is known":                           {nil, nil, podsOf(using(t, job("p", 4, time.Hour), "a")), []string{"order arm 0 to 1"}},
		"its image lacks it":                         {all(lacking("a", "arm64")), nil, podsOf(using(t, job("p", 4, time.Hour), "a")), []string{"order small 0 to 1"}},
		"one of its images lacks it":                 {all(lacking("b", "arm64")), nil, podsOf(using(t, job("p", 4, time.Hour), "a", "b")), []string{"order small 0 to 1"}},
		"another image lacks it":                     {all(lacking("b", "arm64")), nil, podsOf(using(t, job("p", 4, time.Hour), "a")), []string{"order arm 0 to 1"}},
		"its image lacks another":                    {all(lacking("a", "amd64")), nil, podsOf(using(t, job("p", 4, time.Hour), "a")), []string{"order arm 0 to 1"}},
		"only its image lacks it, not that of other": {all(lacking("a", "arm64")), nil, podsOf(using(t, job("p", 4, time.Hour), "a"), using(t, job("q", 4, time.Hour), "b")), []string{"order arm 0 to 1", "order small 0 to 1"}},
		"it is in another namespace":                 {all(lacking("a", "arm64")), nil, podsOf(other(using(t, job("p", 4, time.Hour), "a"))), []string{"order small 0 to 1"}},
		"others run an image that was pulled before": {all(lacking("a", "arm64")), runs, podsOf(using(t, job("p", 4, time.Hour), "a")), []string{"order small 0 to 1"}},
		"its image crashes":                          {all(crashing("a", "arm64")), nil, podsOf(using(t, job("p", 4, time.Hour), "a")), []string{"order small 0 to 1"}},
		"its image crashes in another namespace":     {all(crashing("a", "arm64")), nil, podsOf(other(using(t, job("p", 4, time.Hour), "a"))), []string{"order arm 0 to 1"}},
		"its image crashes in one pod alone":         {all(crashing("a", "arm64")), runs, podsOf(using(t, job("p", 4, time.Hour), "a")), []string{"order arm 0 to 1"}},
		"its image crashed 59 minutes ago":           {all(old(crashing("a", "arm64"), 59*minute)), nil, podsOf(using(t, job("p", 4, time.Hour), "a")), []string{"order small 0 to 1"}},
		"its image crashed an hour ago":              {all(old(crashing("a", "arm64"), 60*minute)), nil, podsOf(using(t, job("p", 4, time.Hour), "a")), []string{"order arm 0 to 1"}},
		"nobody knows what it demands":               {all(lacking("a", "arm64")), nil, podsOf(job("p", 4, time.Hour)), []string{"order arm 0 to 1"}},
		"it lacks both":                              {all(lacking("a", "arm64"), lacking("a", "amd64")), nil, podsOf(using(t, job("p", 4, time.Hour), "a")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := mixed()
			s.Misfits, s.Runs = tc.misfits, tc.runs
			s.pending(tc.pods...)
			before := fmt.Sprint(s.State)
			check(t, s.round(), tc.want...)
			if after := fmt.Sprint(s.State); after != before {
				t.Errorf("the observation was\n%s\nand became\n%s", before, after)
			}
		})
	}
}

func TestAPodWhoseImageLacksAllArchitecturesFitsNothingForThatReason(t *testing.T) {
	s := mixed()
	s.Misfits = []cluster.Misfit{lacking("reg/a:1", "arm64"), crashing("reg/b:1", "amd64")}
	s.pending(using(t, job("p", 4, time.Hour), "reg/a:1", "reg/b:1"))
	d := s.round().Fleet
	const want = `0 of 2 flavors: 1 not admitted: image "reg/a:1" has no variant for arm64, 1 not admitted: image "reg/b:1" does not run on amd64 (exec format error)`
	if len(d.Plan.Unplaceable) != 1 || d.Plan.Unplaceable[0].Reason != want {
		t.Errorf("without a machine are %+v, want one: %s", d.Plan.Unplaceable, want)
	}
}

func TestRoomOnAnArchitectureThatAnImageLacksIsNoRoom(t *testing.T) {
	room := func(misfits ...cluster.Misfit) Actions {
		s := mixed()
		s.ready("a", "arm", using(t, service("x", 1), "b"))
		s.node("a").Arch, s.node("a").Host = "arm64", linuxHost("arm64")
		s.Misfits = misfits
		s.pending(using(t, job("p", 3, time.Hour), "a"))
		return s.round()
	}
	check(t, room())
	check(t, room(lacking("a", "arm64")), "order small 0 to 1")
}

func TestAPodThatRunsIsNotMovedToAnArchitectureThatItsImageLacks(t *testing.T) {
	move := func(misfits ...cluster.Misfit) Actions {
		s := mixed()
		s.c.MoveServices, s.c.PodResidence = true, minute
		moved := using(t, service("p", 1), "a")
		moved.Resided = time.Hour
		s.ready("a", "small", moved)
		s.node("a").Host, s.node("a").MicroDollarsPerHour = linuxHost("amd64"), 40
		s.ready("b", "arm", using(t, service("q", 3), "b"))
		s.node("b").Arch, s.node("b").Host, s.node("b").MicroDollarsPerHour = "arm64", linuxHost("arm64"), 30
		s.Misfits = misfits
		did := s.round()
		if s.node("a").Pods[0].Demands != moved.Demands {
			t.Error("the observation has changed")
		}
		return did
	}
	check(t, move(), "cordon a")
	check(t, move(lacking("a", "arm64")))
}

// TestMachinesHaveRoomForPodsThatAreExpectedWithTheSameImage has small machines that cost less than a large one for one
// pod. Expected pods that could run on arm would be no reason to buy the large one.
func TestMachinesHaveRoomForPodsThatAreExpectedWithTheSameImage(t *testing.T) {
	s := mixed()
	l := flavor("large", 10, 75)
	l.Host = linuxHost("amd64")
	s.State.Flavors = append(s.State.Flavors, l)
	s.Flavors = append(s.Flavors, s.Flavors[1])
	s.Flavors[2].Name, s.Flavors[2].MicroDollarsPerHour = "large", 75
	p := using(t, service("p", 4), "a")
	s.State.Recent, s.State.Observed = often(p, 8), 7*minute
	s.Misfits = []cluster.Misfit{lacking("a", "arm64")}
	s.pending(p)
	check(t, s.round(), "order large 0 to 1")
}

func TestAnImageIsTriedAgainAnHourAfterItFailedLast(t *testing.T) {
	s := mixed()
	s.pending(using(t, job("p", 4, time.Hour), "a"))
	var told []time.Duration
	evaluate := func(at time.Duration, shown bool) string {
		now := midnight.Add(at)
		s.Misfits = nil
		if shown {
			m := lacking("a", "arm64")
			m.At = now
			s.Misfits = []cluster.Misfit{m}
		}
		a := Round(&s.Observation, s.m, s.c, now)
		for _, e := range a.Events {
			if e.Reason == "ImageDoesNotRun" {
				told = append(told, at)
			}
		}
		if at == 90*minute-time.Nanosecond && a.Wake > time.Nanosecond {
			t.Errorf("the next evaluation is in %v, after the lesson has ended", a.Wake)
		}
		return strings.Join(does(&a), ", ")
	}
	for _, step := range []struct {
		at    time.Duration
		shown bool
		want  string
	}{
		{0, false, "order arm 0 to 1"},
		{minute, true, "order small 0 to 1"},
		{30 * minute, true, "order small 0 to 1"},                  // it still fails
		{31 * minute, false, "order small 0 to 1"},                 // the pod is gone
		{90*minute - time.Nanosecond, false, "order small 0 to 1"}, // an hour after the last failure
		{90 * minute, false, "order arm 0 to 1"},
		{91 * minute, true, "order small 0 to 1"}, // no better
	} {
		if got := evaluate(step.at, step.shown); got != step.want {
			t.Errorf("after %v it does %q, want %q", step.at, got, step.want)
		}
	}
	if want := []time.Duration{minute, 91 * minute}; fmt.Sprint(told) != fmt.Sprint(want) {
		t.Errorf("people are told after %v, want %v", told, want)
	}
}

func TestACrashIsForgottenWhenTheImageRuns(t *testing.T) {
	s := mixed()
	s.pending(using(t, job("p", 4, time.Hour), "a"))
	s.Misfits = []cluster.Misfit{crashing("a", "arm64")}
	check(t, s.round(), "order small 0 to 1")
	s.Misfits, s.Runs = nil, map[cluster.Platform]bool{{Image: "a", Arch: "arm64"}: true}
	check(t, s.round(), "order arm 0 to 1")
}

func TestPeopleAreToldOnceWhichImageDoesNotRunWhere(t *testing.T) {
	s := mixed()
	told := func(misfits ...cluster.Misfit) []string {
		s.Misfits = misfits
		all := []string{}
		for _, e := range s.round().Events {
			if e.Reason == "ImageDoesNotRun" {
				all = append(all, e.Message)
			}
		}
		return all
	}
	for _, tc := range []struct {
		misfits []cluster.Misfit
		want    []string
	}{
		{[]cluster.Misfit{lacking("a", "riscv64")}, nil}, // the fleet has no such machines
		{[]cluster.Misfit{lacking("a", "arm64")}, []string{
			`Image "a" has no variant for arm64: no arm64 machines are bought for pods that use it for the next 1h0m0s; pod shop/old stays on node n until it is deleted`}},
		{[]cluster.Misfit{lacking("a", "arm64")}, nil},
		{[]cluster.Misfit{crashing("b", "amd64"), crashing("b", "amd64"), crashing("c", "amd64")}, []string{
			`Image "b" does not run on amd64, exec format error: no amd64 machines are bought for pods of namespace shop that use it for the next 1h0m0s; ` +
				`pod shop/old stays on node n until it is deleted (and 1 more)`}},
	} {
		if diff := cmp.Diff(append([]string{}, tc.want...), told(tc.misfits...)); diff != "" {
			t.Errorf("of %v is told (-want +got):\n%s", tc.misfits, diff)
		}
	}
}

func TestWhatIsKnownOfImagesIsBounded(t *testing.T) {
	s := mixed()
	for i := range mostMisfits + 1 {
		m := lacking(fmt.Sprint("image-", i), "arm64")
		m.At = midnight.Add(-time.Duration((i+500)%(mostMisfits+1)) * time.Second)
		s.Misfits = append(s.Misfits, m)
	}
	s.round()
	if n := len(s.m.images); n != mostMisfits {
		t.Errorf("%d images are remembered, want %d", n, mostMisfits)
	}
	// Image 500 failed first: (500 + 500) seconds before midnight.
	for image, want := range map[string]bool{"image-500": false, "image-499": true, "image-501": true} {
		if _, is := s.m.images[imageOn{Platform: cluster.Platform{Image: image, Arch: "arm64"}}]; is != want {
			t.Errorf("%s is remembered: %v, want %v", image, is, want)
		}
	}
}
