package playground

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KwokEnv names the environment variable that says where the kwok program is.
const KwokEnv = "SUPERCARGO_KWOK"

// kwokConfig says how kwok plays nodes and pods.
//
//go:embed stages.yaml
var kwokConfig []byte

// kwok is the program that plays the nodes.
var kwok = program{name: "kwok", env: KwokEnv, does: "plays the nodes"}

// FindKwok returns the path of the kwok program: path itself when given, else
// the one that SUPERCARGO_KWOK names, else the first found beside the running
// program, in a test in bin/ of the Go module it belongs to, and on PATH.
func FindKwok(path string) (string, error) { return kwok.find(path) }

// startKwok starts kwok as a child process. That it plays the nodes is seen by
// [Playground.waitReady].
func (p *Playground) startKwok(ctx context.Context) error {
	fail := func(err error) error {
		return &componentError{doing: "start", name: "kwok", log: kwokLog, err: err}
	}
	path, err := FindKwok(p.opts.KwokPath)
	if err != nil {
		return fail(err)
	}
	// In a directory that is resumed, the nodes' leases still name the kwok of
	// before, and the new one would wait until they have run out.
	leases := p.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if err := leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fail(fmt.Errorf("delete old node leases: %w", err))
	}
	config := filepath.Join(p.state.dir, "kwok.yaml")
	if err := writeFile(config, kwokConfig); err != nil {
		return fail(err)
	}
	cmd := exec.Command(path,
		"--kubeconfig="+p.state.kubeconfig,
		"--config="+config,
		"--manage-all-nodes=false",
		"--manage-nodes-with-annotation-selector="+kwokAnnotation+"="+kwokFake,
		"--node-port=0", // do not serve a kubelet's API
	)
	cmd.Env = append(os.Environ(), "KWOK_WORKDIR="+p.state.dir) // not the user's own configuration
	return p.startChild(kwok.name, kwokLog, cmd)
}
