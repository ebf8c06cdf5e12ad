package containerd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	"github.com/containerd/containerd/api/types/task"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/anypb"

	"supercargo.dev/supercargo/descheduler/checkpoint/archive"
	"supercargo.dev/supercargo/descheduler/checkpoint/restoreapi"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// TestVolumesGoFromOneNodeToTheOther has a frozen container with shared memory and an emptyDir, from its specification to
// what the runtime of the other node is given.
func TestVolumesGoFromOneNodeToTheOther(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string // of the process
		want  []string          // the destinations
	}{
		"with files":            {map[string]string{"dev/shm/sem": "1", "moved dir/file": "2"}, []string{"/dev/shm", "/moved dir"}},
		"without shared memory": {map[string]string{"moved dir/file": "2"}, []string{"/moved dir"}},
	} {
		t.Run(name, func(t *testing.T) {
			k, h := container, &host{state: task.Status_PAUSED, images: []string{"i"}}
			c := cgrouped(t, &Client{tasks: hostTasks{host: h}, runtime: hostRuntime{host: h}}, version1, nil)
			root := filepath.Join(process(t, c.Proc, 42), "root")
			for _, dir := range []string{"dev/shm", "moved dir"} {
				if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for file, text := range tc.files {
				testfile.Write(t, filepath.Join(root, file), text)
			}
			spec := `{"mounts":[{"destination":"/dev/shm","type":"bind","source":"/run/sandboxes/s/shm"},
				{"destination":"/moved dir","type":"bind","source":"/pods/` + k.PodUID + `/volumes/kubernetes.io~empty-dir/v"}]}`
			var n notes
			if err := c.collectVolumes(t.Context(), k, &containersapi.Container{Spec: &anypb.Any{Value: []byte(spec)}}, &n); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			a := archive.NewWriter(&out)
			for _, part := range []string{archive.Config, archive.Spec, archive.Status, archive.Checkpoint + "/core.img"} {
				if err := a.Bytes(part, nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.archiveVolumes(t.Context(), k, a, n); err != nil {
				t.Fatal(err)
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			staged := t.TempDir()
			extracted(t, &out, staged)
			var want []restoreapi.Volume
			for i, destination := range tc.want {
				want = append(want, restoreapi.Volume{Destination: destination, Files: filepath.Join(staged, fmt.Sprintf("volumes/%d.tar", i))})
			}
			got, err := stagedVolumes(staged)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Fatalf("the runtime is given others (%v, -want +got):\n%s", err, diff)
			}
			for _, v := range got {
				if text := string(testfile.Read(t, v.Files)); len(text) == 0 {
					t.Errorf("%s has no files", v.Destination)
				}
			}
		})
	}
	if got, err := stagedVolumes(t.TempDir()); err != nil || got != nil {
		t.Errorf("a checkpoint without volumes has %v (%v)", got, err)
	}
}
