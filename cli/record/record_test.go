package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/test/kit/testfile"
	"supercargo.dev/supercargo/test/kit/testwait"
)

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
	client := fake.NewClientset(node("n"), pod("d", daemon, runs("n", 0)), pod("p", runs("n", 0)))
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
	if err := client.CoreV1().Pods("default").Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, path, "end p", nothing)
	// The first tick ends a minute with an event, the next one a minute without.
	await(t, path, "alive", func() {
		if clock.HasWaiters() {
			clock.Step(time.Minute)
		}
	})
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod("late"), metav1.CreateOptions{}); err != nil {
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

func TestWhoMayNotListIsToldAtOnce(t *testing.T) {
	for _, resource := range []string{"nodes", "pods"} {
		client := fake.NewClientset()
		client.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("forbidden")
		})
		file, err := OpenFile(filepath.Join(t.TempDir(), "r.csv"), false)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Run(t.Context(), Options{Client: client, File: file, Clock: clocktesting.NewFakeClock(noon), Alive: time.Minute}, nil)
		if err == nil || !strings.Contains(err.Error(), "list "+resource) {
			t.Errorf("the error is %v, want that %s cannot be listed", err, resource)
		}
		closed(t, file)
	}
}
