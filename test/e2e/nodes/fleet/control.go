//go:build linux

package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/lab/playground"
)

// Control is a control plane with the manifests applied, and the programs that run beside it. The nodes can be of
// any kind.
type Control struct {
	// Objects reads and writes all kinds.
	Objects client.Client
	// Descheduler and Evictions, the webhook, are nil if they do not run.
	Descheduler, Evictions *Program

	plane  *playground.Playground
	dir    string
	config Config
}

// NewControl returns a Control that writes kubeconfigs to a folder, and logs to logs/ in it. It applies and starts
// nothing.
func NewControl(plane *playground.Playground, dir string, config Config) (*Control, error) {
	c := &Control{plane: plane, dir: dir, config: config}
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
	if err == nil {
		c.Objects, err = client.New(plane.Config(), client.Options{Scheme: scheme})
	}
	return c, err
}

// Install applies the CRDs, the namespaces and the configured manifests.
func (c *Control) Install(ctx context.Context) error {
	for _, part := range append([]string{"crd", "namespace"}, c.config.Parts...) {
		if err := c.apply(ctx, filepath.Join(manifests, part)); err != nil {
			return err
		}
	}
	return nil
}

// StartPrograms starts the configured programs.
func (c *Control) StartPrograms(ctx context.Context) error {
	if !c.config.Descheduler {
		return nil
	}
	if err := c.startEvictions(ctx); err != nil {
		return err
	}
	return c.startDescheduler(ctx)
}

// StopPrograms stops them.
func (c *Control) StopPrograms(ctx context.Context) error {
	var errs []error
	for _, p := range []*Program{c.Evictions, c.Descheduler} {
		if p != nil {
			errs = append(errs, p.Stop(ctx))
		}
	}
	return errors.Join(errs...)
}

// AgentKubeconfig writes a kubeconfig with the permissions of the agent of a node, and returns its path.
func (c *Control) AgentKubeconfig(ctx context.Context, node string) (string, error) {
	return c.kubeconfig(ctx, agentAccount, node)
}

// apply applies the manifests of a folder except those that run pods: their programs run as processes here.
func (c *Control) apply(ctx context.Context, folder string) error {
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
		if err := c.plane.Apply(ctx, all); err != nil {
			return err
		}
	}
	return nil
}

// kubeconfig writes a kubeconfig with the permissions of an account. With a node, the token is bound to the
// node, like the token of a pod on it.
func (c *Control) kubeconfig(ctx context.Context, who account, node string) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](12 * 3600)}}
	if node != "" {
		n, err := c.plane.Client().CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Node", APIVersion: "v1", Name: node, UID: n.UID}
	}
	answer, err := c.plane.Client().CoreV1().ServiceAccounts(who.namespace).CreateToken(ctx, who.name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("get a token of %v: %w", who, err)
	}
	config, err := clientcmd.LoadFromFile(c.plane.KubeconfigPath())
	if err != nil {
		return "", err
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: answer.Status.Token}
	}
	path := filepath.Join(c.dir, who.name+node+".kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

// Redeschedule stops the descheduler and starts one with other flags.
func (c *Control) Redeschedule(ctx context.Context, flags ...string) error {
	if err := c.Descheduler.Stop(ctx); err != nil {
		return fmt.Errorf("stop the descheduler: %w", err)
	}
	c.config.DeschedulerFlags = flags
	return c.startDescheduler(ctx)
}

// startEvictions starts the webhook, if it is enabled.
func (c *Control) startEvictions(ctx context.Context) error {
	if len(c.config.EvictionFlags) == 0 {
		return nil
	}
	kubeconfig, err := c.kubeconfig(ctx, webhookAccount, "")
	if err != nil {
		return err
	}
	c.Evictions = &Program{
		path: filepath.Join(binaries, "descheduler"), log: filepath.Join(c.dir, "logs", "evictions.log"),
		args: append([]string{
			"evictions", "--kubeconfig", kubeconfig, "--metrics-bind-address", "0", "--health-probe-bind-address", "0", "-v", "2",
		}, c.config.EvictionFlags...),
	}
	return c.Evictions.Start()
}

func (c *Control) startDescheduler(ctx context.Context) error {
	kubeconfig, err := c.kubeconfig(ctx, controllerAccount, "")
	if err != nil {
		return err
	}
	c.Descheduler = &Program{
		path: filepath.Join(binaries, "descheduler"), log: filepath.Join(c.dir, "logs", "descheduler.log"),
		args: append([]string{
			"--kubeconfig", kubeconfig, "--leader-elect=false", "--metrics-bind-address", "0", "--health-probe-bind-address", "0", "-v", "2",
		}, c.config.DeschedulerFlags...),
	}
	return c.Descheduler.Start()
}
