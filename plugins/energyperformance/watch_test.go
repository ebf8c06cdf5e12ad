package energyperformance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/score"
	"supercargo.dev/supercargo/internal/platform/self"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/testfile"
	"supercargo.dev/supercargo/test/kit/testwait"
)

// server is an API server for MachineProfiles.
type server struct {
	mu       sync.Mutex
	status   int // the status of the response to a list; 0 for success
	profiles []v1alpha1.MachineProfile
	changes  chan watch.Event
}

func (s *server) answer(status int, profiles ...v1alpha1.MachineProfile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.profiles = status, profiles
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	status, profiles := s.status, s.profiles
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	reply := func(code int, body any) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(body) // the reader may be gone
	}
	switch {
	case r.URL.Path != "/apis/supercargo.dev/v1alpha1/machineprofiles":
		reply(http.StatusNotFound, metav1.Status{Status: "Failure", Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound})
	case status == http.StatusNotFound:
		reply(status, metav1.Status{Status: "Failure", Code: int32(status), Reason: metav1.StatusReasonNotFound})
	case status == http.StatusForbidden:
		reply(status, metav1.Status{Status: "Failure", Code: int32(status), Reason: metav1.StatusReasonForbidden})
	case r.URL.Query().Get("sendInitialEvents") == "true": // the client then falls back to a list
		reply(http.StatusUnprocessableEntity, metav1.Status{Status: "Failure", Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid})
	case r.URL.Query().Get("watch") != "":
		s.watch(w, r)
	default:
		reply(http.StatusOK, v1alpha1.MachineProfileList{TypeMeta: metav1.TypeMeta{APIVersion: "supercargo.dev/v1alpha1", Kind: "MachineProfileList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: profiles})
	}
}

func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case e := <-s.changes:
			_ = json.NewEncoder(w).Encode(map[string]any{"type": e.Type, "object": e.Object}) // as above
			w.(http.Flusher).Flush()
		}
	}
}

type connected struct {
	handle
	config *rest.Config
}

func (c connected) KubeConfig() *rest.Config { return c.config }

// start returns a server, a watcher of it, and the Events that it emits.
func start(t *testing.T, status int, profiles ...v1alpha1.MachineProfile) (*server, *watcher, chan string) {
	t.Helper()
	s := &server{changes: make(chan watch.Event)}
	s.answer(status, profiles...)
	serving := httptest.NewServer(s)
	t.Cleanup(serving.Close)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel) // before the server closes, which waits for watches to end
	recorder := events.NewFakeRecorder(10)
	w, err := watched(ctx, connected{handle{recorder: recorder}, &rest.Config{Host: serving.URL}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s, w, recorder.Events
}

func read(t *testing.T, change ...func(*v1alpha1.MachineProfile)) v1alpha1.MachineProfile {
	t.Helper()
	text := testfile.Read(t, "../../manifests/samples/machineprofile.yaml")
	var o v1alpha1.MachineProfile
	testfile.StrictYAML(t, text, &o)
	o.ResourceVersion = "1"
	for _, c := range change {
		c(&o)
	}
	return o
}

// eventually waits until the set satisfies the condition.
func eventually(t *testing.T, w *watcher, what string, is func(profile.Set) bool) {
	t.Helper()
	testwait.Until(t, time.Minute, what, func() string {
		if m := w.Machines(); !is(m) {
			return fmt.Sprint(m)
		}
		return ""
	})
}

func TestProfilesAreFollowed(t *testing.T) {
	s, w, emitted := start(t, 0, read(t))
	eventually(t, w, "the first profile", func(m profile.Set) bool { return m["xeon-8"] != nil })

	changed := read(t, func(o *v1alpha1.MachineProfile) {
		o.ResourceVersion, o.Spec.Models.Energy.Terms[0].Coefficient = "2", "500"
	})
	s.changes <- watch.Event{Type: watch.Modified, Object: &changed}
	eventually(t, w, "the change", func(m profile.Set) bool { return m["xeon-8"].Profile.Energy.Coefficients[0] == 500 })
	if len(emitted) != 0 {
		t.Errorf("event %q about a sound profile", <-emitted)
	}

	invalid := read(t, func(o *v1alpha1.MachineProfile) {
		o.ResourceVersion, o.Spec.Models.Energy.Terms[0].Coefficient = "3", "NaN"
	})
	s.changes <- watch.Event{Type: watch.Modified, Object: &invalid}
	eventually(t, w, "the invalid profile to be dropped", func(m profile.Set) bool { return len(m) == 0 })
	if e := <-emitted; !strings.Contains(e, "Warning InvalidMachineProfile") || !strings.Contains(e, "spec.models.energy.terms[0]") {
		t.Errorf("event %q, want one that names the field", e)
	}

	changed.ResourceVersion = "4"
	s.changes <- watch.Event{Type: watch.Modified, Object: &changed}
	eventually(t, w, "the repair", func(m profile.Set) bool { return len(m) == 1 })
	s.changes <- watch.Event{Type: watch.Deleted, Object: &changed}
	eventually(t, w, "the profile to go", func(m profile.Set) bool { return len(m) == 0 })
}

// TestWhatWasWrongFromTheStartIsToldOnceEventsAreTaken: Events are not recorded earlier, and not for profiles that have
// been repaired or deleted by then.
func TestWhatWasWrongFromTheStartIsToldOnceEventsAreTaken(t *testing.T) {
	told := &recorder{}
	w := &watcher{handle: recording{told: told}, early: map[string]fault{}}
	invalid := func(name string) *v1alpha1.MachineProfile {
		o := read(t, func(o *v1alpha1.MachineProfile) {
			o.Name, o.Spec.MachineType, o.Spec.Models.Energy.Terms[0].Coefficient = name, name, "NaN"
		})
		return &o
	}
	for _, name := range []string{"c", "b", "repaired", "gone"} {
		w.put(invalid(name))
	}
	repaired := read(t, func(o *v1alpha1.MachineProfile) { o.Name = "repaired" })
	w.put(&repaired)
	w.drop("gone")
	if len(told.all) != 0 {
		t.Errorf("%q is told when nobody hears it", told.all)
	}
	w.begin()
	if len(told.all) != 2 || !strings.HasPrefix(told.all[0], "MachineProfile b Warning InvalidMachineProfile") || !strings.HasPrefix(told.all[1], "MachineProfile c ") {
		t.Errorf("%q is told, want what is wrong with b and c", told.all)
	}
	w.put(invalid("late"))
	if len(told.all) != 3 {
		t.Errorf("%q is told, want a fault of later told at once", told.all)
	}
}

// TestAKindThatIsNotInstalledIsNoFault: no machine is known until the kind is installed, and then after the retry delay
// of the client.
func TestAKindThatIsNotInstalledIsNoFault(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusForbidden} {
		s, w, emitted := start(t, status)
		if m := w.Machines(); len(m) != 0 {
			t.Errorf("status %d: %v is known", status, m)
		}
		s.answer(0, read(t))
		eventually(t, w, "the kind to be installed", func(m profile.Set) bool { return len(m) == 1 })
		if len(emitted) != 0 {
			t.Errorf("status %d: event %q", status, <-emitted)
		}
	}
}

func TestProfilesOfOneSchedulerShareAWatch(t *testing.T) {
	config := &rest.Config{Host: "http://127.0.0.1:1"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a, err := watched(ctx, connected{config: config}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := watched(ctx, connected{config: config}, time.Hour); err != nil || a != b {
		t.Errorf("two profiles have two watches (%v)", err)
	}
}

// TestAnEditedProfileIsToldAndItsNodesAreNeutral goes from the object in the API server to the score: for any invalid
// edit of a profile, an Event names the field, and nodes of the type score as without it.
func TestAnEditedProfileIsToldAndItsNodesAreNeutral(t *testing.T) {
	governed := func(o *v1alpha1.MachineProfile) *v1alpha1.GovernorModels {
		o.Spec.Models.Governors = []v1alpha1.GovernorModels{{Governor: "powersave", Energy: o.Spec.Models.Energy, Runtime: *o.Spec.Models.Runtime.DeepCopy()}}
		return &o.Spec.Models.Governors[0]
	}
	for field, edit := range map[string]func(*v1alpha1.MachineProfile){
		"spec.models.energy.terms[0]":               func(o *v1alpha1.MachineProfile) { o.Spec.Models.Energy.Terms[0].Coefficient = "NaN" },
		"spec.models.runtime.terms[0]":              func(o *v1alpha1.MachineProfile) { o.Spec.Models.Runtime.Terms[0].Coefficient = "-Inf" },
		"spec.models.energy.":                       func(o *v1alpha1.MachineProfile) { o.Spec.Models.Energy = v1alpha1.MachineModel{} }, // only runtime is known
		"spec.models.energy.terms:":                 func(o *v1alpha1.MachineProfile) { o.Spec.Models.Energy.Terms = nil },
		"spec.models.energy.range: CPU":             func(o *v1alpha1.MachineProfile) { o.Spec.Models.Energy.CPU.Least = apiresource.MustParse("500") },
		"spec.models.runtime.range: value":          func(o *v1alpha1.MachineProfile) { o.Spec.Models.Runtime.Value = v1alpha1.ModelRange{} },
		"spec.models.energy.spread":                 func(o *v1alpha1.MachineProfile) { o.Spec.Models.Energy.SpreadPermille = -1 },
		"spec.power":                                func(o *v1alpha1.MachineProfile) { o.Spec.Power.IdleWatts = apiresource.MustParse("-5") },
		"spec.models.governors[0].governor":         func(o *v1alpha1.MachineProfile) { governed(o).Governor = "" },
		"spec.models.governors[0].runtime.terms[0]": func(o *v1alpha1.MachineProfile) { governed(o).Runtime.Terms[0].Coefficient = "NaN" },
		"spec.models.fingerprint": func(o *v1alpha1.MachineProfile) {
			o.Spec.Hardware, o.Spec.Models.Fingerprint = &v1alpha1.MachineHardware{Fingerprint: "0123456789abcdef"}, "0000000000000000"
		},
	} {
		t.Run(field, func(t *testing.T) {
			_, w, emitted := start(t, 0, read(t, edit))
			if e := <-emitted; !strings.Contains(e, "Warning InvalidMachineProfile") || !strings.Contains(e, field) {
				t.Errorf("event %q, want one that names %s", e, field)
			}
			p, pod := plugin(nil), fixtures.Pod("p", 500, 2<<30)
			p.machines = w
			info := framework.NewNodeInfo()
			info.SetNode(fixtures.Node("n", 8000, 32<<30, typed("xeon-8")))
			if status := p.PreScore(t.Context(), framework.NewCycleState(), pod, []fwk.NodeInfo{info}); !status.IsSkip() {
				t.Errorf("%v, want no scores", status)
			}
			sound := framework.NewNodeInfo()
			sound.SetNode(fixtures.Node("m", 8000, 32<<30, typed("arm")))
			set := profile.Set{"arm": model(400, 200)}
			for machineType, m := range w.Machines() {
				set[machineType] = m
			}
			p.machines = fixed(set)
			state := framework.NewCycleState()
			if status := p.PreScore(t.Context(), state, pod, []fwk.NodeInfo{info, sound}); !status.IsSuccess() {
				t.Fatal(status)
			}
			edited, _ := p.Score(t.Context(), state, pod, info)
			known, _ := p.Score(t.Context(), state, pod, sound)
			if edited >= known || edited < known-1-score.Best/2 {
				t.Errorf("it scores %d beside %d of a sound one, want the mean and not the best", edited, known)
			}
		})
	}
}

// idleOf returns nodes of a machine type, as the scheduler's cache has them.
func idleOf(machineType string, names ...string) (infos []fwk.NodeInfo) {
	for _, name := range names {
		info := framework.NewNodeInfo()
		info.SetNode(fixtures.Node(name, 8000, 32<<30, typed(machineType)))
		infos = append(infos, info)
	}
	return infos
}

// TestWithoutMetersNodesAreNeutral: without meters, profiles have no models or none of energy, or there are no
// profiles. Nodes then score alike, one Event on the scheduler's pod says why, however many pods there are, and another
// one that it is over.
func TestWithoutMetersNodesAreNeutral(t *testing.T) {
	bare := func(o *v1alpha1.MachineProfile) { o.Spec.Models = nil } // as the descheduler writes it before it has learned anything
	timed := func(o *v1alpha1.MachineProfile) { o.Spec.Models.Energy = v1alpha1.MachineModel{} }
	other := func(o *v1alpha1.MachineProfile) { o.Spec.MachineType = "sparc" }
	tests := []struct {
		name     string
		status   int
		profiles []v1alpha1.MachineProfile
		says     string
	}{
		{"no profile", 0, nil, "no MachineProfile has models"},
		{"nothing was learned", 0, []v1alpha1.MachineProfile{read(t, bare)}, "no MachineProfile has models"},
		{"only runtime was learned", 0, []v1alpha1.MachineProfile{read(t, timed)}, "no MachineProfile has models"},
		{"other machines", 0, []v1alpha1.MachineProfile{read(t, other)}, `machine type "xeon-8"`},
		{"the kind is not installed", http.StatusNotFound, nil, "install the CustomResourceDefinition"},
		{"profiles may not be read", http.StatusForbidden, nil, "allow the scheduler"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv(self.EnvName, "scheduler-1")
			t.Setenv(self.EnvNamespace, "kube-system")
			s, w, _ := start(t, tc.status, tc.profiles...)
			told := &recorder{}
			p := plugin(nil)
			p.handle, p.machines, p.reading = recording{told: told}, w, w.reading
			eventually(t, w, "an answer about the profiles", func(profile.Set) bool {
				_, done := w.reading()
				return done
			})
			infos, pod := idleOf("xeon-8", "a", "b"), fixtures.Pod("p", 500, 2<<30)
			for range 3 {
				if status := p.PreScore(t.Context(), framework.NewCycleState(), pod, infos); !status.IsSkip() {
					t.Fatalf("%v, want no scores", status)
				}
			}
			if len(told.all) != 1 || !strings.Contains(told.all[0], "Pod kube-system/scheduler-1 Warning MachinesUnknown") || !strings.Contains(told.all[0], tc.says) {
				t.Errorf("%q is told, want once and about the scheduler's pod that %q", told.all, tc.says)
			}

			sound := read(t, func(o *v1alpha1.MachineProfile) { o.Name, o.ResourceVersion = "xeon", "9" })
			if tc.status == 0 {
				s.changes <- watch.Event{Type: watch.Added, Object: &sound}
			} else {
				s.answer(0, sound)
			}
			eventually(t, w, "a sound profile", func(m profile.Set) bool { return m["xeon-8"] != nil })
			for range 3 {
				if status := p.PreScore(t.Context(), framework.NewCycleState(), pod, infos); !status.IsSuccess() {
					t.Fatalf("%v, want scores", status)
				}
			}
			if len(told.all) != 2 || !strings.Contains(told.all[1], "Normal MachinesKnown") {
				t.Errorf("%q is told, want that machines are known again, once", told.all)
			}
		})
	}
}

// TestWhatIsMissingIsSaidAgainWhenItIsSomethingElse: after the kind is installed, an Event says that there are no
// profiles; after one is created for other machines, an Event says that these are still unknown.
func TestWhatIsMissingIsSaidAgainWhenItIsSomethingElse(t *testing.T) {
	s, w, _ := start(t, http.StatusNotFound)
	told := &recorder{}
	p := plugin(nil)
	p.handle, p.machines, p.reading = recording{told: told}, w, w.reading
	infos, pod := idleOf("xeon-8", "a", "b"), fixtures.Pod("p", 500, 2<<30)
	says := func(want ...string) {
		t.Helper()
		for range 3 {
			if status := p.PreScore(t.Context(), framework.NewCycleState(), pod, infos); !status.IsSkip() {
				t.Fatalf("%v, want no scores", status)
			}
		}
		if len(told.all) != len(want) || !strings.Contains(told.all[len(want)-1], want[len(want)-1]) {
			t.Fatalf("%q is told, want %q", told.all, want)
		}
	}
	readIs := func(what string, is func() bool) {
		t.Helper()
		eventually(t, w, what, func(profile.Set) bool { return is() })
	}

	readIs("that they cannot be read", func() bool { _, done := w.reading(); return done })
	says("install the CustomResourceDefinition")
	s.answer(0)
	readIs("all profiles", func() bool { return w.synced() })
	says("install", "no MachineProfile has models")
	other := read(t, func(o *v1alpha1.MachineProfile) {
		o.Name, o.ResourceVersion, o.Spec.MachineType = "other", "9", "sparc"
	})
	s.changes <- watch.Event{Type: watch.Added, Object: &other}
	readIs("the other profile", func() bool { return len(w.Machines()) == 1 })
	says("install", "no MachineProfile has models", `no MachineProfile has models of machine type "xeon-8"`)
}

// TestNothingIsSaidOfWhatMayYetBeKnown covers the time before the profiles have been read, and unknown nodes next to
// known ones.
func TestNothingIsSaidOfWhatMayYetBeKnown(t *testing.T) {
	told := &recorder{}
	p := plugin(profile.Set{"xeon": model(1, 1)})
	p.handle = recording{told: told}
	unknown, pod := idleOf("sparc", "a", "b"), fixtures.Pod("p", 1, 1)
	place := func(infos []fwk.NodeInfo) { p.PreScore(t.Context(), framework.NewCycleState(), pod, infos) }
	p.reading = func() (string, bool) { return "", false }
	place(unknown)
	p.reading = func() (string, bool) { return "", true }
	place(append(idleOf("xeon", "c"), unknown...))
	place(unknown) // the only feasible node of this pod
	if len(told.all) != 0 {
		t.Errorf("%q is told", told.all)
	}
}

// recorder stores Events with their objects.
type recorder struct{ all []string }

func (r *recorder) Eventf(about, _ apiruntime.Object, kind, reason, _, note string, args ...any) {
	name := ""
	switch o := about.(type) {
	case *corev1.ObjectReference:
		name = fmt.Sprintf("%s %s/%s", o.Kind, o.Namespace, o.Name)
	case *v1alpha1.MachineProfile:
		name = o.Kind + " " + o.Name
	}
	r.all = append(r.all, fmt.Sprintf("%s %s %s %s", name, kind, reason, fmt.Sprintf(note, args...)))
}

func (r *recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }

// recording is a framework with such a recorder.
type recording struct {
	fwk.Handle
	told *recorder
}

func (r recording) EventRecorder() fixtures.EventRecorder { return r.told }
