package controlplane

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"supercargo.dev/supercargo/lab/playground/process"
)

func TestTheProgramsOfAnotherKubernetesAreInItsDirectory(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for _, d := range []string{dir, other} {
		if err := os.WriteFile(filepath.Join(d, "kube-apiserver"), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(KubernetesEnv, other)
	for _, tc := range []struct{ given, want string }{{"", other}, {dir, dir}} {
		p := &ControlPlane{opts: Options{KubernetesDir: tc.given}}
		if got, err := p.kubernetesProgram("kube-apiserver"); err != nil || got != filepath.Join(tc.want, "kube-apiserver") {
			t.Errorf("directory %q given: kube-apiserver is %q (%v), want that in %s", tc.given, got, err, tc.want)
		}
		if _, err := p.kubernetesProgram("kube-scheduler"); err == nil || !strings.Contains(err.Error(), filepath.Join(tc.want, "kube-scheduler")) {
			t.Errorf("directory %q given: the error about a missing program is %v, want one with its path", tc.given, err)
		}
	}
}

func TestWhatOnlyTheBuiltInControlPlaneCanDoIsRefused(t *testing.T) {
	dir := t.TempDir()
	p := &ControlPlane{opts: Options{KubernetesDir: dir, KubeletsReach: net.IPv4(10, 0, 0, 1)}}
	var input *InputError
	if _, err := p.startOtherAPIServer(nil); !errors.As(err, &input) || input.Option != "KubeletsReach" {
		t.Errorf("an address for kubelets gives %v, want an error about that option", err)
	}
	if err := (&Options{FeatureGates: []string{"GenericWorkload=true"}}).checkBuiltIn(); !errors.As(err, &input) || input.Option != "FeatureGates" {
		t.Errorf("feature gates without programs give %v, want an error about that option", err)
	}
	if _, err := (&ControlPlane{opts: Options{KubernetesDir: dir}, dir: &Directory{dir: dir}, group: &process.Group{}}).startOtherScheduler(t.Context(), "config", []app.Option{nil}); err == nil ||
		!strings.Contains(err.Error(), "plugins can be added") {
		t.Errorf("more plugins give %v, want an error that says that there can be none", err)
	}
}
