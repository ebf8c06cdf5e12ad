//go:build nodes

package migration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/playground"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
)

// Where things are, from this folder.
const (
	binaries  = "../../../../bin"
	manifests = "../../../../manifests"
)

// account is a ServiceAccount of the manifests: the programs have no more rights here
// than anywhere else.
type account struct{ namespace, name string }

var (
	agentAccount      = account{"supercargo-agent", "supercargo-node-agent"}
	controllerAccount = account{"supercargo-system", "supercargo-descheduler"}
)

// startFleet starts a cluster, and on it the descheduler and an agent a node.
func startFleet(ctx context.Context) (*fleet, error) {
	c, err := cluster.Up(ctx, cluster.Config{})
	if err != nil {
		return nil, err
	}
	f := &fleet{Cluster: c, agents: map[string]*cluster.Program{}}
	if err := f.start(ctx); err != nil {
		return nil, errors.Join(err, f.stop(ctx))
	}
	return f, nil
}

func (f *fleet) start(ctx context.Context) error {
	scheme := runtime.NewScheme()
	err := v1alpha1.AddToScheme(scheme)
	if err == nil {
		f.kinds, err = client.New(f.Config(), client.Options{Scheme: scheme})
	}
	if err != nil {
		return err
	}
	for _, part := range []string{"crd", "agent", "descheduler"} {
		if err := f.apply(ctx, filepath.Join(manifests, part)); err != nil {
			return err
		}
	}
	for _, node := range f.Nodes {
		if err := f.startAgent(ctx, node); err != nil {
			return err
		}
	}
	return f.startController(ctx)
}

// apply applies the manifests of a folder that do not run pods: their programs run as
// processes here.
func (f *fleet) apply(ctx context.Context, folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range files {
		switch filepath.Base(file) {
		case "kustomization.yaml", "daemonset.yaml", "deployment.yaml":
			continue
		}
		text, err := os.Open(file)
		if err != nil {
			return err
		}
		all, err := playground.ParseManifests(file, text)
		if err := errors.Join(err, text.Close()); err != nil {
			return err
		}
		if err := f.Apply(ctx, all); err != nil {
			return err
		}
	}
	return nil
}

// kubeconfig writes one with the rights of an account. A node binds the token to it, as
// that of a pod on the node is.
func (f *fleet) kubeconfig(ctx context.Context, who account, node string) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](12 * 3600)}}
	if node != "" {
		n, err := f.Client().CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Node", APIVersion: "v1", Name: node, UID: n.UID}
	}
	answer, err := f.Client().CoreV1().ServiceAccounts(who.namespace).CreateToken(ctx, who.name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("get a token of %v: %w", who, err)
	}
	config, err := clientcmd.LoadFromFile(f.KubeconfigPath())
	if err != nil {
		return "", err
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: answer.Status.Token}
	}
	path := filepath.Join(f.Dir, who.name+node+".kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

func (f *fleet) startAgent(ctx context.Context, node *cluster.Node) error {
	kubeconfig, err := f.kubeconfig(ctx, agentAccount, node.Name)
	if err != nil {
		return err
	}
	path, err := filepath.Abs(filepath.Join(binaries, "node-agent"))
	if err != nil {
		return err
	}
	agent := node.Program(path, "--node-name", node.Name, "--kubeconfig", kubeconfig,
		"--containerd", node.ContainerdSocket, "--state-dir", filepath.Join(node.Dir, "agent"),
		"--work-dir", filepath.Join(node.Dir, "agent-work"), "--work-size", "3Gi",
		"--criu", cluster.ProgramPath("criu"), "-v", "2")
	f.agents[node.Name] = agent
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
func (f *fleet) poll(ctx context.Context, what string, check func(context.Context) error) error {
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

// program is one that runs beside this process.
type program struct {
	path, log string
	args      []string
	cmd       *exec.Cmd
	ended     chan struct{}
}

func (f *fleet) startController(ctx context.Context) error {
	kubeconfig, err := f.kubeconfig(ctx, controllerAccount, "")
	if err != nil {
		return err
	}
	f.controller = &program{
		path: filepath.Join(binaries, "descheduler"), log: filepath.Join(f.Dir, "logs", "descheduler.log"),
		args: []string{
			"--kubeconfig", kubeconfig, "--leader-elect=false", "--metrics-bind-address", "0", "--health-probe-bind-address", "0",
			"--max-migrations-per-node", "4", "-v", "2",
		},
	}
	return f.controller.start()
}

// start starts the program. It ends with this process.
func (p *program) start() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command(p.path, p.args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait() // how it ended is no concern of who ended it
		close(ended)
	}(p.cmd, p.ended)
	return nil
}

func (p *program) kill(ctx context.Context) error { return p.signal(ctx, syscall.SIGKILL) }

func (p *program) stop(ctx context.Context) error { return p.signal(ctx, syscall.SIGTERM) }

func (p *program) signal(ctx context.Context, s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
