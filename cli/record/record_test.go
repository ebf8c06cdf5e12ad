package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/test/kit/testfile"
	"supercargo.dev/supercargo/test/kit/testwait"
)

// unstreamed is a client that cannot send the existing objects as the first events of a watch.
type unstreamed struct{ client.WithWatch }

// IsWatchListSemanticsUnSupported tells informers to list first.
func (unstreamed) IsWatchListSemanticsUnSupported() bool { return true }

func fakeClient(on interceptor.Funcs, objects ...client.Object) client.WithWatch {
	return unstreamed{fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(on).Build()}
}

// eventsIn returns the events of a recording, in the order of the file.
func eventsIn(t *testing.T, path string) (all []string) {
	t.Helper()
	text := testfile.Read(t, path)
	if bytes.Count(text, []byte("\n")) < 2 {
		return nil
	}
	rec, err := trace.ReadRecording(path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rec.Rows {
		all = append(all, strings.TrimSpace(string(r.Event)+" "+r.ID))
	}
	return all
}

// await waits until the last event of a recording is the given one.
func await(t *testing.T, path, last string, meanwhile func()) {
	t.Helper()
	testwait.Until(t, time.Minute, last+" comes", func() string {
		got := eventsIn(t, path)
		if len(got) > 0 && got[len(got)-1] == last {
			return ""
		}
		meanwhile()
		return fmt.Sprintf("%q", got)
	})
}

func TestWhatIsThereIsRecordedAndThenWhatComesAndThatNothingDoes(t *testing.T) {
	client := fakeClient(interceptor.Funcs{}, node("n"), pod("d", daemon, runs("n", 0)), pod("p", runs("n", 0)))
	path := filepath.Join(t.TempDir(), "r.csv")
	file, err := OpenFile(path, false)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, file)
	clock := clocktesting.NewFakeClock(noon)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watching, ended := make(Watching), make(chan error, 1)
	go func() {
		_, err := Run(ctx, Options{
			Client: client, File: file, Clock: clock, Alive: time.Minute, Price: func(*corev1.Node) *int64 { return nil },
			Trouble: func(err error) { t.Errorf("trouble: %v", err) },
		}, watching)
		ended <- err
	}()
	<-watching
	nothing := func() {}
	if err := client.Delete(t.Context(), pod("p")); err != nil {
		t.Fatal(err)
	}
	await(t, path, "end p", nothing)
	// The first tick ends a minute with an event, the next one a minute without.
	await(t, path, "alive", func() {
		if clock.HasWaiters() {
			clock.Step(time.Minute)
		}
	})
	if err := client.Create(t.Context(), pod("late")); err != nil {
		t.Fatal(err)
	}
	await(t, path, "pod late", nothing)
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	got := slices.DeleteFunc(eventsIn(t, path), func(line string) bool { return line == "alive" })
	want := []string{"begin", "node uid-n", "daemon d", "start d", "pod p", "start p", "end p", "pod late", "stop"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhoMayNotListOrWatchIsToldAtOnce(t *testing.T) {
	forbidden := errors.New("forbidden")
	for resource, kind := range map[string]client.ObjectList{"nodes": &corev1.NodeList{}, "pods": &corev1.PodList{}} {
		is := func(list client.ObjectList) bool { return reflect.TypeOf(list) == reflect.TypeOf(kind) }
		for verb, on := range map[string]interceptor.Funcs{
			"list": {List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, o ...client.ListOption) error {
				if is(into) {
					return forbidden
				}
				return c.List(ctx, into, o...)
			}},
			"watch": {Watch: func(ctx context.Context, c client.WithWatch, of client.ObjectList, o ...client.ListOption) (watch.Interface, error) {
				if is(of) {
					return nil, forbidden
				}
				return c.Watch(ctx, of, o...)
			}},
		} {
			file, err := OpenFile(filepath.Join(t.TempDir(), "r.csv"), false)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // it would retry without end
			_, err = Run(ctx, Options{
				Client: fakeClient(on), File: file, Clock: clocktesting.NewFakeClock(noon), Alive: time.Minute,
				Price: func(*corev1.Node) *int64 { return nil }, Trouble: func(error) {},
			}, nil)
			cancel()
			if !errors.Is(err, forbidden) || !strings.Contains(err.Error(), verb+" "+resource) {
				t.Errorf("the error is %v, want that the user may not %s %s", err, verb, resource)
			}
			closed(t, file)
		}
	}
}
