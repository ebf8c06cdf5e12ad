//go:build nodes

package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc/metadata"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/oci"
	"supercargo.dev/supercargo/test/e2e/nodes/site"
	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

// containerID returns the ID of a container in containerd.
func containerID(pod *corev1.Pod) string {
	return strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "containerd://")
}

// inPods selects containerd's namespace of pods.
func inPods(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io")
}

// frozen is a paused container with a checkpoint.
type frozen struct {
	node *cluster.Node
	id   string
}

// freeze pauses a pod's container. Otherwise it would run past its checkpoint.
func (s *bench) freeze(node *cluster.Node, pod *corev1.Pod) frozen {
	s.Helper()
	f := frozen{node, containerID(pod)}
	if err := pause(s.Context(), f.node, f.id); err != nil {
		s.Fatal(err)
	}
	return f
}

func pause(ctx context.Context, node *cluster.Node, id string) error {
	conn, err := node.CRI()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // no data is lost after the last answer
	_, err = tasks.NewTasksClient(conn).Pause(inPods(ctx), &tasks.PauseTaskRequest{ContainerID: id})
	return err
}

// end kills a frozen container. runc thaws it for this signal.
func (s *bench) end(f frozen) {
	s.Helper()
	conn, err := f.node.CRI()
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // no data is lost after the last answer
	if _, err := tasks.NewTasksClient(conn).Kill(inPods(s.Context()), &tasks.KillRequest{ContainerID: f.id, Signal: 9}); err != nil {
		s.Fatal(err)
	}
}

// stage imports a checkpoint as an image of a node.
func (s *bench) stage(node *cluster.Node, name, checkpoint string) {
	s.Helper()
	archive := filepath.Join(s.TempDir(), "image.tar")
	if err := oci.WriteFile(archive, oci.Image{Name: name, Checkpoint: checkpoint, Container: "main"}); err != nil {
		s.Fatal(err)
	}
	if err := node.Import(s.Context(), archive); err != nil {
		s.Fatal(err)
	}
}

// continues waits until a restored counter has printed some values, and checks that they follow those of the
// original container. It returns all values.
func (s *bench) continues(pod string, before []workload.Tick) []workload.Tick {
	s.Helper()
	const enough = 10
	var all []workload.Tick
	s.Eventually("the counter continues in pod "+pod, func(ctx context.Context) error {
		ticks, err := s.ticks(ctx, pod)
		// The output of the original container ends at the checkpoint.
		all = workload.Join(before, ticks)
		if err == nil && len(all) < len(before)+enough {
			err = fmt.Errorf("it has printed %d values more", len(all)-len(before))
		}
		return err
	})
	if err := workload.CheckTicks(all, 1); err != nil {
		s.Errorf("from one node to the other: %v", err)
	}
	return all
}

// TestACounterMovesToAnotherNodeAndBackAndLosesNothing tests the simplest form of what all Migrations need.
func TestACounterMovesToAnotherNodeAndBackAndLosesNothing(t *testing.T) {
	for _, megabytes := range []int{0, 64} {
		t.Run(strconv.Itoa(megabytes)+"MiB", func(t *testing.T) {
			s := newBench(t)
			env := corev1.EnvVar{Name: "MB", Value: strconv.Itoa(megabytes)}
			s.Create(site.On(s.Nodes[0], s.Pod("counter-0", cluster.Images["counter"], env)))
			s.Running("counter-0")
			ticks := s.printed("counter-0", 5)
			for hop := range 3 {
				ticks = s.hop(hop, ticks, env)
			}
			pause, after := workload.LongestPause(ticks)
			t.Logf("%d MiB: %d values, longest pause %v, after value %d", megabytes, len(ticks), pause.Round(time.Millisecond), after)
		})
	}
}

// hop moves the counter to the other node, after number earlier moves. It takes and returns all values that
// the counter has printed.
func (s *bench) hop(number int, ticks []workload.Tick, env corev1.EnvVar) []workload.Tick {
	s.Helper()
	source, target := s.Nodes[number%2], s.Nodes[(number+1)%2]
	from, to := fmt.Sprintf("counter-%d", number), fmt.Sprintf("counter-%d", number+1)
	image := "localhost/" + s.Namespace + "/" + to + ":1"
	f := s.freeze(source, s.Get(from))
	s.stage(target, image, s.checkpoint(source, f))
	ticks = workload.Join(ticks, s.printed(from, len(ticks)))
	s.Create(site.On(target, s.Pod(to, image, env)))
	s.Running(to)
	s.end(f)
	if err := s.Client().CoreV1().Pods(s.Namespace).Delete(s.Context(), from,
		metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](1)}); err != nil {
		s.Fatal(err)
	}
	s.Gone(from)
	return s.continues(to, ticks)
}

// checkpoint makes containerd write the checkpoint of a container, and returns its path.
func (s *bench) checkpoint(node *cluster.Node, f frozen) string {
	s.Helper()
	conn, err := node.CRI()
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // no data is lost after the last answer
	path := filepath.Join(node.Dir, "checkpoint-"+f.id+".tar")
	_, err = runtimeapi.NewRuntimeServiceClient(conn).CheckpointContainer(s.Context(),
		&runtimeapi.CheckpointContainerRequest{ContainerId: f.id, Location: path, Timeout: 60})
	if err != nil {
		s.Fatal(err)
	}
	return path
}

func TestTheKubeletTakesCheckpointsToo(t *testing.T) {
	s := newBench(t)
	source, target := s.Nodes[0], s.Nodes[1]
	s.Create(site.On(source, s.Pod("counter", cluster.Images["counter"])))
	f := s.freeze(source, s.Running("counter"))
	answer, err := s.Client().CoreV1().RESTClient().Post().
		AbsPath("/api/v1/nodes", source.Name, "proxy/checkpoint", s.Namespace, "counter", "main").
		Param("timeout", "60").DoRaw(s.Context())
	if err != nil {
		t.Fatal(err)
	}
	var made struct{ Items []string }
	if err := json.Unmarshal(answer, &made); err != nil || len(made.Items) != 1 {
		t.Fatalf("the kubelet answered %s, %v, want one file", answer, err)
	}
	if dir := filepath.Join(source.KubeletRoot, "checkpoints"); filepath.Dir(made.Items[0]) != dir {
		t.Errorf("the checkpoint is %s, want it in %s", made.Items[0], dir)
	}
	image := "localhost/" + s.Namespace + "/restored:1"
	s.stage(target, image, made.Items[0])
	before := s.printed("counter", 1)
	s.Create(site.On(target, s.Pod("restored", image)))
	s.Running("restored")
	s.continues("restored", before)
	s.end(f)
}
