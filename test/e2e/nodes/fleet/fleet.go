//go:build linux

package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/lab/playground"
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
	// AgentFlags returns additional flags for the agent of a node; it may be nil.
	AgentFlags func(*cluster.Node) []string
	// Descheduler enables the descheduler, and DeschedulerFlags are additional flags for it.
	Descheduler      bool
	DeschedulerFlags []string
	// EvictionFlags are flags for the webhook that turns evictions into Migrations. Without flags, the
	// webhook does not run.
	EvictionFlags []string
}

// Fleet is a cluster of real nodes with the programs that move pods.
type Fleet struct {
	*cluster.Cluster
	// Objects reads and writes all kinds.
	Objects client.Client
	// Agents maps node names to their agents.
	Agents map[string]*cluster.Program
	// Descheduler and Evictions, the webhook, are nil if they do not run.
	Descheduler, Evictions *Program

	config Config
}

// Start starts a cluster and the programs of the fleet.
func Start(ctx context.Context, config Config) (*Fleet, error) {
	c, err := cluster.Up(ctx, cluster.Config{})
	if err != nil {
		return nil, err
	}
	f := &Fleet{Cluster: c, Agents: map[string]*cluster.Program{}, config: config}
	if err := f.start(ctx); err != nil {
		return nil, errors.Join(err, f.Stop(ctx))
	}
	return f, nil
}

func (f *Fleet) start(ctx context.Context) error {
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
	if err == nil {
		f.Objects, err = client.New(f.Config(), client.Options{Scheme: scheme})
	}
	if err != nil {
		return err
	}
	for _, part := range append([]string{"crd", "namespace"}, f.config.Parts...) {
		if err := f.apply(ctx, filepath.Join(manifests, part)); err != nil {
			return err
		}
	}
	for _, node := range f.Nodes {
		if err := f.startAgent(ctx, node); err != nil {
			return err
		}
	}
	if !f.config.Descheduler {
		return nil
	}
	if err := f.startEvictions(ctx); err != nil {
		return err
	}
	return f.startDescheduler(ctx)
}

// Stop ends the programs and the cluster.
func (f *Fleet) Stop(ctx context.Context) error {
	var errs []error
	for _, agent := range f.Agents {
		errs = append(errs, agent.Stop(ctx))
	}
	if f.Evictions != nil {
		errs = append(errs, f.Evictions.Stop(ctx))
	}
	if f.Descheduler != nil {
		errs = append(errs, f.Descheduler.Stop(ctx))
	}
	return errors.Join(append(errs, f.Down(ctx))...)
}

// apply applies the manifests of a folder except those that run pods: their programs run as processes here.
func (f *Fleet) apply(ctx context.Context, folder string) error {
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
		// The scheduler runs as the administrator here, and tests replace the controller.
		// test/integration/agent tests who may write a status.
		all = slices.DeleteFunc(all, func(m playground.Manifest) bool {
			return m.Object.GetKind() == "ValidatingAdmissionPolicyBinding" && m.Object.GetName() == "supercargo-migration-status"
		})
		if err := f.Apply(ctx, all); err != nil {
			return err
		}
	}
	return nil
}

// kubeconfig writes a kubeconfig with the permissions of an account. With a node, the token is bound to the
// node, like the token of a pod on it.
func (f *Fleet) kubeconfig(ctx context.Context, who account, node string) (string, error) {
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

func (f *Fleet) startAgent(ctx context.Context, node *cluster.Node) error {
	kubeconfig, err := f.kubeconfig(ctx, agentAccount, node.Name)
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
		"--criu", cluster.ProgramPath("criu"), "-v", "2",
	}
	if f.config.AgentFlags != nil {
		flags = append(flags, f.config.AgentFlags(node)...)
	}
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

// Redeschedule stops the descheduler and starts one with other flags.
func (f *Fleet) Redeschedule(ctx context.Context, flags ...string) error {
	if err := f.Descheduler.Stop(ctx); err != nil {
		return fmt.Errorf("stop the descheduler: %w", err)
	}
	f.config.DeschedulerFlags = flags
	return f.startDescheduler(ctx)
}

// startEvictions starts the webhook, if it is enabled.
func (f *Fleet) startEvictions(ctx context.Context) error {
	if len(f.config.EvictionFlags) == 0 {
		return nil
	}
	kubeconfig, err := f.kubeconfig(ctx, webhookAccount, "")
	if err != nil {
		return err
	}
	f.Evictions = &Program{
		path: filepath.Join(binaries, "descheduler"), log: filepath.Join(f.Dir, "logs", "evictions.log"),
		args: append([]string{
			"evictions", "--kubeconfig", kubeconfig, "--metrics-bind-address", "0", "--health-probe-bind-address", "0", "-v", "2",
		}, f.config.EvictionFlags...),
	}
	return f.Evictions.Start()
}

func (f *Fleet) startDescheduler(ctx context.Context) error {
	kubeconfig, err := f.kubeconfig(ctx, controllerAccount, "")
	if err != nil {
		return err
	}
	f.Descheduler = &Program{
		path: filepath.Join(binaries, "descheduler"), log: filepath.Join(f.Dir, "logs", "descheduler.log"),
		args: append([]string{
			"--kubeconfig", kubeconfig, "--leader-elect=false", "--metrics-bind-address", "0", "--health-probe-bind-address", "0", "-v", "2",
		}, f.config.DeschedulerFlags...),
	}
	return f.Descheduler.Start()
}

// AgentPeak returns the peak memory usage, in bytes, of the agent of a node since its start.
func (f *Fleet) AgentPeak(ctx context.Context, node *cluster.Node) (int64, error) {
	const script = `for p in /proc/[0-9]*; do [ "$(cat $p/comm)" = node-agent ] && grep VmHWM $p/status; done; true`
	output, err := node.Run(ctx, "sh", "-c", script)
	if err != nil {
		return 0, fmt.Errorf("look at the agent of node %s: %w", node.Name, err)
	}
	var kib int64
	if _, err := fmt.Sscanf(string(output), "VmHWM: %d kB", &kib); err != nil {
		return 0, fmt.Errorf("read the peak of the agent's memory on node %s: %w: %s", node.Name, err, output)
	}
	return kib << 10, nil
}
