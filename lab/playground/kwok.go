package playground

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KwokEnv names the environment variable that says where the kwok program is.
const KwokEnv = "SUPERCARGO_KWOK"

// kwokConfig says how kwok simulates nodes and pods.
//
//go:embed stages.yaml
var kwokConfig []byte

// kwok is the program that plays the nodes.
var kwok = program{name: "kwok", env: KwokEnv, does: "simulates the nodes"}

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
	if err := p.takeOverNodes(ctx); err != nil {
		return fail(err)
	}
	config := filepath.Join(p.state.dir, "kwok.yaml")
	if err := writeFile(config, kwokConfig); err != nil {
		return fail(err)
	}
	command := func() *exec.Cmd {
		cmd := exec.Command(path,
			"--kubeconfig="+p.state.kubeconfig,
			"--config="+config,
			"--manage-all-nodes=false",
			"--manage-nodes-with-annotation-selector="+kwokAnnotation+"="+kwokFake,
			"--node-port=0", // do not serve a kubelet's API
		)
		cmd.Env = append(os.Environ(), "KWOK_WORKDIR="+p.state.dir) // not the user's own configuration
		return cmd
	}
	restarts := 0
	return p.startChild(kwok.name, kwokLog, command, func(ctx context.Context, err error) bool {
		restarts++
		return restarts <= mostRestarts && crashed(err) && p.takeOverNodes(ctx) == nil
	})
}

// mostRestarts is how often kwok is started anew. When the first pods and nodes come
// at the same moment it may write to a map of its expression library from two
// goroutines, which ends a Go program; once it is past that, it does not happen
// again.
const mostRestarts = 3

// crashed reports whether a process has ended as Go programs do that crash.
func crashed(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == 2
}

// takeOverNodes lets a new kwok play the nodes at once. Their leases still name the
// one before, and it would wait until they have run out.
func (p *Playground) takeOverNodes(ctx context.Context) error {
	leases := p.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if err := leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("delete old node leases: %w", err)
	}
	return nil
}
