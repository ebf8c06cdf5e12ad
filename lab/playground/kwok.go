package playground

import (
	"context"
	_ "embed"
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"supercargo.dev/supercargo/lab/playground/controlplane"
	"supercargo.dev/supercargo/lab/playground/process"
)

// KwokEnv is the environment variable with the path of the kwok program.
const KwokEnv = "SUPERCARGO_KWOK"

// kwokConfig configures how kwok simulates nodes and pods.
//
//go:embed stages.yaml
var kwokConfig []byte

// kwok is the program that simulates the nodes.
var kwok = process.Program{Name: "kwok", Env: KwokEnv, Does: "simulates the nodes"}

// FindKwok returns the path of the kwok program: path itself if it is set, else the value of
// SUPERCARGO_KWOK, else the first one found next to the running program, in a test in bin/ of its
// Go module, and on PATH.
func FindKwok(path string) (string, error) { return kwok.Find(path) }

// startKwok starts kwok as a child process. [Playground.waitReady] waits until it simulates the
// nodes.
func (p *Playground) startKwok(ctx context.Context) error {
	fail := func(err error) error {
		return &process.Error{Doing: "start", Name: "kwok", Log: process.KwokLog, Err: err}
	}
	path, err := FindKwok(p.opts.KwokPath)
	if err != nil {
		return fail(err)
	}
	if err := p.workload.takeOverNodes(ctx); err != nil {
		return fail(err)
	}
	config := filepath.Join(p.dir.Path(), "kwok.yaml")
	if err := controlplane.WriteFile(config, kwokConfig); err != nil {
		return fail(err)
	}
	command := func() *exec.Cmd {
		cmd := exec.Command(path,
			"--kubeconfig="+p.workload.path,
			"--config="+config,
			"--manage-all-nodes=false",
			"--manage-nodes-with-annotation-selector="+kwokAnnotation+"="+kwokFake,
			"--node-port=0", // do not serve a kubelet's API
		)
		cmd.Env = append(os.Environ(), "KWOK_WORKDIR="+p.dir.Path()) // not the user's own configuration
		return cmd
	}
	restarts := 0
	return p.group.StartChild(kwok.Name, process.KwokLog, command, func(ctx context.Context, err error) bool {
		restarts++
		return restarts <= mostRestarts && crashed(err) && p.workload.takeOverNodes(ctx) == nil
	})
}

// mostRestarts is the maximum number of restarts of kwok. When the first pods and nodes arrive at
// the same moment, two of its goroutines may write to a map of its expression library, which
// crashes the process. After that phase it does not happen again.
const mostRestarts = 3

// crashed reports whether a process exited like a crashed Go program.
func crashed(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == 2
}
