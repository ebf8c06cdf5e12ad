//go:build linux

package fleet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
)

// Paths relative to the folder of a test.
const (
	binaries  = "../../../../bin"
	manifests = "../../../../manifests"
)

// workSize is the memory limit of an agent's dumps.
const workSize = "3Gi"

// account is a ServiceAccount of the manifests.
type account struct{ namespace, name string }

var (
	agentAccount      = account{"supercargo-agent", "supercargo-node-agent"}
	controllerAccount = account{"supercargo-system", "supercargo-descheduler"}
	webhookAccount    = account{"supercargo-system", "supercargo-evictions"}
)

// Config specifies a fleet.
type Config struct {
	// Parts are the folders of the manifests that are applied besides the CRDs and namespaces.
	Parts []string
	// Descheduler enables the descheduler, and DeschedulerFlags are additional flags for it.
	Descheduler      bool
	DeschedulerFlags []string
	// EvictionFlags are flags for the webhook that turns evictions into Migrations. Without flags, the
	// webhook does not run.
	EvictionFlags []string
	// AgentFlags are additional flags for the agents.
	AgentFlags []string
}

// Fleet is a cluster of real nodes with the programs that move pods.
type Fleet struct {
	*cluster.Cluster
	*Control
	// Agents maps node names to their agents.
	Agents map[string]*cluster.Program
}

// Start starts a cluster and the programs of the fleet.
func Start(ctx context.Context, config Config) (*Fleet, error) {
	c, err := cluster.Up(ctx, cluster.Config{})
	if err != nil {
		return nil, err
	}
	f := &Fleet{Cluster: c, Agents: map[string]*cluster.Program{}}
	if f.Control, err = NewControl(c.Playground, c.Dir, config); err == nil {
		err = f.start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, f.Stop(ctx))
	}
	return f, nil
}

func (f *Fleet) start(ctx context.Context) error {
	if err := f.Install(ctx); err != nil {
		return err
	}
	for _, node := range f.Nodes {
		if err := f.startAgent(ctx, node); err != nil {
			return err
		}
	}
	return f.StartPrograms(ctx)
}

// Stop ends the programs and the cluster.
func (f *Fleet) Stop(ctx context.Context) error {
	var errs []error
	for _, agent := range f.Agents {
		errs = append(errs, agent.Stop(ctx))
	}
	if f.Control != nil {
		errs = append(errs, f.StopPrograms(ctx))
	}
	return errors.Join(append(errs, f.Down(ctx))...)
}

func (f *Fleet) startAgent(ctx context.Context, node *cluster.Node) error {
	kubeconfig, err := f.AgentKubeconfig(ctx, node.Name)
	if err != nil {
		return err
	}
	path, err := filepath.Abs(filepath.Join(binaries, "node-agent"))
	if err != nil {
		return err
	}
	flags := []string{
		"--node-name", node.Name, "--kubeconfig", kubeconfig,
		"--containerd", node.ContainerdSocket, "--state-dir", filepath.Join(node.Dir, "agent"),
		"--work-dir", filepath.Join(node.Dir, "agent-work"), "--work-size", workSize,
		"--restore-dir", node.RestoreDir,
		"--criu", cluster.ProgramPath("criu"), "-v", "2",
	}
	flags = append(flags, f.config.AgentFlags...)
	agent := node.Program(path, flags...)
	f.Agents[node.Name] = agent
	if err := agent.Start(); err != nil {
		return err
	}
	return f.poll(ctx, "node "+node.Name+" says what it can restore", func(ctx context.Context) error {
		n, err := f.Client().CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
		if err == nil && n.Annotations[v1alpha1.AnnotationCapability] == "" {
			return fmt.Errorf("it has no annotation %s; see %s", v1alpha1.AnnotationCapability, agent.LogPath())
		}
		return err
	})
}

// poll waits until check returns nil.
func (f *Fleet) poll(ctx context.Context, what string, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait until %s: %w", what, last)
	}
	return nil
}

// AgentPeak returns the peak memory usage, in bytes, of the agent of a node since its start.
func (f *Fleet) AgentPeak(ctx context.Context, node *cluster.Node) (int64, error) {
	const script = `for p in /proc/[0-9]*; do [ "$(cat $p/comm)" = node-agent ] && grep VmHWM $p/status; done; true`
	output, err := node.Run(ctx, "sh", "-c", script)
	if err != nil {
		return 0, fmt.Errorf("check the agent of node %s: %w", node.Name, err)
	}
	var kib int64
	if _, err := fmt.Sscanf(string(output), "VmHWM: %d kB", &kib); err != nil {
		return 0, fmt.Errorf("read the peak of the agent's memory on node %s: %w: %s", node.Name, err, output)
	}
	return kib << 10, nil
}
