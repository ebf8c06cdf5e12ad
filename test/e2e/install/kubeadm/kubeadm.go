//go:build linux

package kubeadm

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"golang.org/x/sync/errgroup"

	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
)

// Services is the IP range of Services.
const Services = "10.96.0.0/16"

// startTimeout bounds the start of a cluster. A start takes a minute; the rest is for machines that are busy
// with something else.
const startTimeout = 15 * time.Minute

//go:embed config.yaml
var configs string

var templates = template.Must(template.New("").Parse(configs))

// Config specifies a cluster.
type Config struct {
	// Workers is the number of nodes besides the control plane node.
	Workers int

	// AuditPolicy is an audit.k8s.io Policy. The API server records the selected requests in
	// [Cluster.AuditLog].
	AuditPolicy []byte

	// Say reports progress.
	Say func(format string, args ...any)
}

// Cluster is a running cluster. Its first node is the control plane node.
type Cluster struct {
	*cluster.Cluster

	Kubeconfig string // of an administrator, as kubeadm makes it
	AuditLog   string // one audit.k8s.io Event per line

	say      func(format string, args ...any)
	kubelets map[string]*cluster.Program
}

// Up makes a cluster and returns when its nodes have joined. They may not be ready yet. If it fails, only the
// logs that the error names are left.
func Up(ctx context.Context, config Config) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	config.Say("starting %d machines with containerd", 1+config.Workers)
	machines, err := cluster.Up(ctx, cluster.Config{Nodes: 1 + config.Workers, Bare: true})
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		Cluster: machines, say: config.Say,
		Kubeconfig: filepath.Join(machines.Dir, "admin.conf"),
		AuditLog:   filepath.Join(machines.Dir, "audit", "audit.log"),
		kubelets:   map[string]*cluster.Program{},
	}
	if err := c.install(ctx, config); err != nil {
		return nil, errors.Join(fmt.Errorf("make a cluster with kubeadm: %w", err), machines.Abandon(context.WithoutCancel(ctx)))
	}
	return c, nil
}

func (c *Cluster) install(ctx context.Context, config Config) error {
	version, err := c.Nodes[0].Run(ctx, "kubeadm", "version", "-o", "short")
	if err != nil {
		return err
	}
	values := map[string]any{
		"Version": strings.TrimSpace(string(version)), "Repository": repository, "Services": Services,
		"DNS": dnsTag, "Etcd": etcdTag, "Audit": filepath.Dir(c.AuditLog),
	}
	if err := write(filepath.Join(filepath.Dir(c.AuditLog), "policy.yaml"), config.AuditPolicy); err != nil {
		return err
	}
	images := filepath.Join(c.Dir, "kubernetes.tar")
	c.say("packing the images of Kubernetes %s", values["Version"])
	if err := writeImages(ctx, images, values["Version"].(string)); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, node := range c.Nodes {
		group.Go(func() error { return errors.Join(node.Import(groupCtx, images), c.Prepare(groupCtx, node)) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := c.initialise(ctx, values); err != nil {
		return err
	}
	return c.join(ctx, values)
}

// Prepare creates what a new or rebooted node lacks: the route to the IP range of Services, and its kubelet,
// which waits for kubeadm to configure it.
func (c *Cluster) Prepare(ctx context.Context, node *cluster.Node) error {
	// kube-proxy rewrites each packet for a Service before it leaves the node, but the kernel looks up a
	// route for it first.
	if _, err := node.Run(ctx, "ip", "route", "replace", Services, "dev", "eth0"); err != nil {
		return err
	}
	resolv := filepath.Join(node.Dir, "resolv.conf")
	// CoreDNS needs an upstream server for names outside the cluster. No server answers at this address.
	if err := write(resolv, []byte("nameserver 192.0.2.1\n")); err != nil {
		return err
	}
	if _, err := node.Run(ctx, "install", "-D", "-m", "644", resolv, "/etc/kubernetes/resolv.conf"); err != nil {
		return err
	}
	if c.Kubelet(node) == nil {
		kubelet := node.Program("/bin/sh", "-c", kubeletScript, "kubelet", cluster.ProgramPath("kubelet"))
		kubelet.Name = "kubelet"
		c.kubelets[node.Name] = kubelet
	}
	return c.Kubelet(node).Start()
}

// StartNode boots a node that was killed. It returns when its kubelet has started.
func (c *Cluster) StartNode(ctx context.Context, node *cluster.Node) error {
	if err := node.Start(ctx); err != nil {
		return err
	}
	return c.Prepare(ctx, node)
}

// kubeletScript does what Kubernetes' systemd unit does: it waits for kubeadm's files.
const kubeletScript = `
flags=/var/lib/kubelet/kubeadm-flags.env
until [ -e $flags ]; do sleep 0.1; done
. $flags
exec "$1" --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf \
	--config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS -v 2
`

// initialise makes the control plane with kubeadm.
func (c *Cluster) initialise(ctx context.Context, values map[string]any) error {
	node := c.Nodes[0]
	c.say("kubeadm init on %s", node.Name)
	if err := c.kubeadm(ctx, node, "init", values); err != nil {
		return err
	}
	kubeconfig, err := node.Run(ctx, "cat", "/etc/kubernetes/admin.conf")
	if err != nil {
		return err
	}
	return write(c.Kubeconfig, kubeconfig)
}

// join joins the other nodes with kubeadm.
func (c *Cluster) join(ctx context.Context, values map[string]any) error {
	out, err := c.Nodes[0].Run(ctx, "kubeadm", "token", "create", "--print-join-command")
	if err != nil {
		return err
	}
	// kubeadm join ADDRESS --token TOKEN --discovery-token-ca-cert-hash HASH, after warnings
	_, command, _ := strings.Cut(string(out), "kubeadm join ")
	words := strings.Fields("kubeadm join " + command)
	if len(words) != 7 {
		return fmt.Errorf("read how to join: kubeadm token create says %q", out)
	}
	values["Endpoint"], values["Token"], values["Hash"] = words[2], words[4], words[6]
	for _, node := range c.Nodes[1:] {
		c.say("kubeadm join on %s", node.Name)
		if err := c.kubeadm(ctx, node, "join", values); err != nil {
			return err
		}
	}
	return nil
}

// kubeadm runs a kubeadm command on a node, with the configuration from the template of that name.
func (c *Cluster) kubeadm(ctx context.Context, node *cluster.Node, verb string, values map[string]any) error {
	values["Node"] = node
	var config bytes.Buffer
	if err := templates.ExecuteTemplate(&config, verb, values); err != nil {
		return err
	}
	path := filepath.Join(node.Dir, "kubeadm-"+verb+".yaml")
	if err := write(path, config.Bytes()); err != nil {
		return err
	}
	out, err := node.Run(ctx, "kubeadm", verb, "--config", path, "-v", "1")
	log := filepath.Join(c.Dir, "logs", node.Name+"-kubeadm.log")
	if err := write(log, out); err != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("kubeadm %s on %s, see %s: %w", verb, node.Name, log, err)
	}
	return nil
}

// Kubelet returns the kubelet of a node.
func (c *Cluster) Kubelet(node *cluster.Node) *cluster.Program { return c.kubelets[node.Name] }

func write(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}
