//go:build nodes

// Package agent tests node agents on real nodes, with containerd, CRIU and kubelets. The
// tests play the controller and the scheduler, who write the orders.
package agent

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/manifests"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
)

const (
	// patience is how long is waited for what must come, and poll how often it is looked
	// for.
	patience = 2 * time.Minute
	poll     = 50 * time.Millisecond

	agentNamespace = "supercargo-agent"
	agentAccount   = "supercargo-node-agent"
	// workSize is how much memory the agents' dumps may take.
	workSize = "3Gi"
)

// site is a cluster with an agent on each node, as the manifests install it. All tests
// share one.
type site struct {
	*cluster.Cluster
	client.Client
	agents map[string]*cluster.Program
}

// theSite starts the site when the first test needs it.
var theSite = sync.OnceValues(startSite)

var started bool

// TestMain stops the site.
func TestMain(m *testing.M) {
	code := m.Run()
	if started {
		if s, err := theSite(); err == nil {
			if err := s.Down(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = max(code, 1)
			}
		}
	}
	os.Exit(code)
}

func startSite() (*site, error) {
	started = true
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c, err := cluster.Up(ctx, cluster.Config{})
	if err != nil {
		return nil, err
	}
	s := &site{Cluster: c, agents: map[string]*cluster.Program{}}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	if s.Client, err = client.New(c.Config(), client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	if err := s.install(ctx); err != nil {
		return nil, err
	}
	if err := s.allowKubelet(ctx); err != nil {
		return nil, err
	}
	for _, n := range c.Nodes {
		if err := s.addAgent(ctx, n); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// install makes the objects of the manifests, but for the DaemonSet.
func (s *site) install(ctx context.Context) error {
	err := fs.WalkDir(manifests.CRDs, "crd", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := manifests.CRDs.ReadFile(path)
		if err != nil {
			return err
		}
		return s.apply(ctx, text)
	})
	for _, file := range []string{"namespace.yaml", "rbac.yaml", "policy.yaml"} {
		if err != nil {
			return err
		}
		var text []byte
		if text, err = os.ReadFile(filepath.Join("../../../../manifests/agent", file)); err == nil {
			err = s.apply(ctx, text)
		}
	}
	if err != nil {
		return err
	}
	for {
		if err = s.List(ctx, &v1alpha1.MigrationList{}); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(poll):
		}
	}
}

// allowKubelet lets agents ask kubelets for checkpoints.
func (s *site) allowKubelet(ctx context.Context) error {
	return s.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "supercargo-node-agent-kubelet"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "supercargo-node-agent-kubelet"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: agentNamespace, Name: agentAccount}},
	})
}

// apply makes the objects of a file.
func (s *site) apply(ctx context.Context, text []byte) error {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := newObject()
		if err := decoder.Decode(object); err != nil {
			if len(object.Object) == 0 {
				return nil
			}
			return err
		}
		if err := s.Create(ctx, object); err != nil {
			return fmt.Errorf("make %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
}

// addAgent starts the agent of a node, with a token as a pod of the DaemonSet has it.
func (s *site) addAgent(ctx context.Context, n *cluster.Node) error {
	var node corev1.Node
	if err := s.Get(ctx, client.ObjectKey{Name: n.Name}, &node); err != nil {
		return err
	}
	token, err := s.Cluster.Client().CoreV1().ServiceAccounts(agentNamespace).CreateToken(ctx, agentAccount, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: ptr.To[int64](24 * 3600),
			BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: s.Config().Host, CertificateAuthorityData: s.Config().CAData}
	config.AuthInfos["c"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "c"}
	config.CurrentContext = "c"
	file := filepath.Join(n.Dir, "agent.kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return err
	}
	s.agents[n.Name] = n.Program(filepath.Join(binaries(), "node-agent"), "--kubeconfig", file, "--node-name", n.Name,
		"--containerd", n.ContainerdSocket, "--state-dir", filepath.Join(n.Dir, "agent"), "--work-dir", filepath.Join(n.Dir, "agent-work"), "--work-size", workSize,
		"--criu", criu(), "--kubelet-url", "https://"+n.Address+":10250", "--kubelet-authorities", filepath.Join(n.Dir, "pki", "kubelet.crt"),
		"--kubelet-checkpoints", filepath.Join(n.KubeletRoot, "checkpoints"), "-v", "2")
	return s.agents[n.Name].Start()
}
