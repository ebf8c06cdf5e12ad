package simulated

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/descheduler/checkpoint"
)

var container = checkpoint.Container{Node: "n", Namespace: "jobs", Pod: "work", PodUID: "p1", Name: "main"}

func pods(phase corev1.PodPhase) checkpoint.PodReader {
	return func(context.Context, types.NamespacedName) (*corev1.Pod, error) {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: "p1"}, Status: corev1.PodStatus{Phase: phase},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1000")}}}}},
		}, nil
	}
}

func backend(t *testing.T, model Model, dir string, c *testingclock.FakeClock) *Backend {
	t.Helper()
	b, err := New(model, dir, c, pods(corev1.PodRunning))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func wantState(t *testing.T, b *Backend, want checkpoint.State) {
	t.Helper()
	if got, err := b.State(t.Context(), container); err != nil || got != want {
		t.Errorf("the container is %q (%v), want %q", got, err, want)
	}
}

func TestAContainerIsGoneWithItsPod(t *testing.T) {
	b := backend(t, Model{}, t.TempDir(), testingclock.NewFakeClock(time.Unix(0, 0)))
	later := container
	later.PodUID = "p0" // a later pod has its name
	if got, err := b.State(t.Context(), later); err != nil || got != checkpoint.Gone {
		t.Errorf("the container of an earlier pod is %q (%v)", got, err)
	}
	b.pods = pods(corev1.PodSucceeded)
	wantState(t, b, checkpoint.Gone)
	b.pods = func(context.Context, types.NamespacedName) (*corev1.Pod, error) {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), "work")
	}
	wantState(t, b, checkpoint.Gone)
	b.pods = func(context.Context, types.NamespacedName) (*corev1.Pod, error) {
		pod, err := pods(corev1.PodRunning)(t.Context(), types.NamespacedName{})
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
		return pod, err
	}
	wantState(t, b, checkpoint.Gone)
}

func TestStatesOutliveTheProcess(t *testing.T) {
	dir := t.TempDir()
	again := func() *Backend { return backend(t, Model{}, dir, testingclock.NewFakeClock(time.Unix(0, 0))) }
	wantState(t, again(), checkpoint.Running)
	if err := again().Freeze(t.Context(), container); err != nil {
		t.Fatal(err)
	}
	wantState(t, again(), checkpoint.Frozen)
	for range 2 {
		if err := again().Thaw(t.Context(), container); err != nil {
			t.Fatal(err)
		}
	}
	wantState(t, again(), checkpoint.Running)
	if err := errors.Join(again().Freeze(t.Context(), container), again().Kill(t.Context(), container)); err != nil {
		t.Fatal(err)
	}
	wantState(t, again(), checkpoint.Gone)
}

// TestModelTakesItsTime steps a clock: the dump of 2,000 bytes at 500 a second takes four
// seconds, and sending half of that at 100 a second ten.
func TestModelTakesItsTime(t *testing.T) {
	c := testingclock.NewFakeClock(time.Unix(0, 0))
	b := backend(t, Model{MemoryFactor: 2, DumpRate: 500, ShipRate: 100, Compression: 0.5}, t.TempDir(), c)
	dir := t.TempDir()
	after(t, c, 4*time.Second, func() error {
		bytes, err := b.Dump(t.Context(), container, dir)
		if bytes != 2000 {
			t.Errorf("the dump has %d bytes, want 2000", bytes)
		}
		return err
	})
	after(t, c, 10*time.Second, func() error { return b.Archive(t.Context(), container, dir, io.Discard) })
}

// after calls f, which must return once the clock has advanced by d, and not before.
func after(t *testing.T, c *testingclock.FakeClock, d time.Duration, f func() error) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	for !c.HasWaiters() {
		select {
		case err := <-ended:
			t.Fatalf("it took no time: %v", err)
		default:
		}
	}
	c.Step(d - time.Nanosecond)
	if !c.HasWaiters() {
		t.Errorf("it took less than %v", d)
	}
	c.Step(time.Nanosecond)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

type verified struct{ io.Reader }

func (verified) Sum() string { return "sha256:1" }

func TestImagesAreStagedAndRemoved(t *testing.T) {
	b := backend(t, Model{}, t.TempDir(), testingclock.NewFakeClock(time.Unix(0, 0)))
	dir := t.TempDir()
	if _, err := b.Dump(t.Context(), container, dir); err != nil {
		t.Fatal(err)
	}
	var sent bytes.Buffer
	if err := b.Archive(t.Context(), container, dir, &sent); err != nil {
		t.Fatal(err)
	}
	image := checkpoint.Image{Node: "n", Migration: "uid-1"}
	staged, err := b.Stage(t.Context(), image, verified{&sent})
	if err != nil || staged.Bytes != 500 || staged.Digest == "" {
		t.Errorf("staged %+v, %v", staged, err)
	}
	for _, want := range []bool{true, false} {
		if has, err := b.Has(t.Context(), image); err != nil || has != want {
			t.Errorf("the image is there: %v (%v), want %v", has, err, want)
		}
		if err := b.Remove(t.Context(), image); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	b := backend(t, Model{Freeze: time.Hour}, t.TempDir(), testingclock.NewFakeClock(time.Unix(0, 0)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Freeze(ctx, container); !errors.Is(err, context.Canceled) {
		t.Errorf("Freeze gives %v", err)
	}
	wantState(t, b, checkpoint.Running)
}

func TestModelsOutOfRangeAreRefused(t *testing.T) {
	for _, model := range []Model{{MemoryFactor: -1}, {MemoryFactor: 17}, {DumpRate: -1}, {ShipRate: -1}, {Freeze: -1}, {Compression: 2}} {
		if _, err := New(model, t.TempDir(), nil, nil); err == nil {
			t.Errorf("%+v is taken", model)
		}
	}
}
