package migration

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/cmd/supercargo/cli"
	"supercargo.dev/supercargo/test/kit"
)

// supercargo runs a command line against the site.
func (b *bench) supercargo(args ...string) (code int, stdout, stderr string) {
	b.Helper()
	var out, errs bytes.Buffer
	args = append(append([]string{"supercargo"}, args...), "--kubeconfig", b.Site.KubeconfigPath(), "-n", b.Space)
	code = cli.Main(args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestTheCommandMovesAPodAndSaysHowItWent(t *testing.T) {
	t.Parallel()
	b := newBench(t, "command", 2)
	b.deschedule()
	b.job(1, batchv1.NonIndexedCompletion)
	old := b.Pods()[0]
	b.dryRunSays("Pod "+old.Name+" can be moved from node "+old.Spec.NodeName, "new name")

	code, stdout, stderr := b.supercargo("migrate", old.Name, "-o", "json")
	var got struct {
		Migration, Pod, NewPod, From, To, Phase string

		FrozenSeconds, DumpSeconds, ShipSeconds, RestoreSeconds, TotalSeconds *float64

		CheckpointBytes int64
	}
	if err := json.Unmarshal([]byte(stdout), &got); code != 0 || err != nil || stderr != "" {
		t.Fatalf("exit %d, %v: %s%s", code, err, stdout, stderr)
	}
	if got.Phase != "Succeeded" || got.Pod != old.Name || got.From != old.Spec.NodeName || got.To == got.From || got.CheckpointBytes != 32<<20 {
		t.Errorf("it says %s", stdout)
	}
	for _, measured := range []*float64{got.FrozenSeconds, got.DumpSeconds, got.ShipSeconds, got.RestoreSeconds, got.TotalSeconds} {
		if measured == nil {
			t.Errorf("it does not say how long it took: %s", stdout)
		}
	}
	if moved := b.healthy("work", 1)[0]; moved.Name != got.NewPod {
		t.Errorf("pod %s runs, and it says %s", moved.Name, got.NewPod)
	}

	code, stdout, stderr = b.supercargo("explain", "migration/"+got.Migration)
	for _, want := range []string{"Migration " + got.Migration + " of pod " + old.Name + ", Succeeded", "Eligible: True", "Finished: True (Succeeded)", "No copy ran for", "33554432 bytes"} {
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("exit %d, does not say %q: %s%s", code, want, stdout, stderr)
		}
	}
}

// dryRunSays checks the output of a dry run for the bench's only pod, and that it changes nothing.
func (b *bench) dryRunSays(words ...string) {
	b.Helper()
	code, stdout, stderr := b.supercargo("migrate", b.Pods()[0].Name, "--dry-run")
	for _, word := range words {
		if code != 0 || !strings.Contains(stdout, word) {
			b.Errorf("exit %d, does not say %q: %s%s", code, word, stdout, stderr)
		}
	}
	if n := len(b.Migrations()); n != 0 {
		b.Errorf("a dry run has made %d Migrations", n)
	}
}

func TestTheCommandSaysWhyAPodCannotBeMoved(t *testing.T) {
	t.Parallel()
	b := newBench(t, "cannot", 2)
	b.deschedule()
	b.bare(func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/data", SubPath: "part"}}
	})
	for _, args := range [][]string{{"migrate", "work"}, {"migrate", "work", "--dry-run"}} {
		code, stdout, stderr := b.supercargo(args...)
		if code != 1 || !strings.Contains(stdout+stderr, "EmptyDirUnsupported") && !strings.Contains(stdout+stderr, "emptyDir") {
			t.Errorf("%v: exit %d: %s%s", args, code, stdout, stderr)
		}
	}
	code, stdout, _ := b.supercargo("migrate", "work", "--dry-run", "-o", "json")
	var got struct {
		Movable  bool
		Refusals []struct{ Reason, Message string }
	}
	if err := json.Unmarshal([]byte(stdout), &got); code != 1 || err != nil || got.Movable || len(got.Refusals) != 1 || got.Refusals[0].Reason != "EmptyDirUnsupported" {
		t.Errorf("exit %d, %v: %s", code, err, stdout)
	}
	if code, _, stderr := b.supercargo("migrate", "nobody"); code != 1 || !strings.Contains(stderr, "nobody") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if code, _, stderr := b.supercargo("migrate", "work", "--deadline", "1s"); code != 2 || !strings.Contains(stderr, "--deadline 1s: must be from 10s to 24h") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func TestTheCommandNeedNotWait(t *testing.T) {
	t.Parallel()
	b := newBench(t, "nowait", 2)
	b.bare()
	code, stdout, stderr := b.supercargo("migrate", "work", "--no-wait", "--to", b.Node(1))
	if code != 0 || !strings.Contains(stdout, " created") {
		t.Fatalf("exit %d: %s%s", code, stdout, stderr)
	}
	m := b.Migrations()
	if len(m) != 1 || m[0].Spec.TargetNode != b.Node(1) || m[0].Spec.PodUID != string(b.Pods()[0].UID) {
		t.Errorf("made %+v", m)
	}
}

func TestTheSampleIsTaken(t *testing.T) {
	t.Parallel()
	b := newBench(t, "sample", 0)
	for _, object := range kit.Objects(t, "../../../manifests/samples/migration.yaml") {
		object.SetNamespace(b.Space)
		b.Make(object)
	}
}
