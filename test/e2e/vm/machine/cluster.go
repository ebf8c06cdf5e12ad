//go:build linux

package machine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/fleet"
	"supercargo.dev/supercargo/test/e2e/nodes/oci"
)

// Environment variables that vms.sh sets: its directory, its bridge, and the first three bytes of the
// network's addresses.
const (
	dirVariable    = "VMS_DIR"
	bridgeVariable = "VMS_BRIDGE"
	netVariable    = "VMS_NET"

	// logsVariable names the directory for the logs of failed tests.
	logsVariable = "VMS_LOGS"
)

// joinTimeout bounds the time from the boot of a machine until its node is ready for pods.
const joinTimeout = 20 * time.Minute

// Cluster is a control plane with the descheduler, and virtual machines as its nodes.
type Cluster struct {
	*playground.Playground
	*fleet.Control
	Machines []*Machine
	Dir      string // holds the state of all machines

	images []byte // an archive that every node imports
}

// Start starts the control plane. It adds one machine for each named release, called vm-a, vm-b and
// so on, but does not boot them. It removes the state of earlier runs.
func Start(ctx context.Context, config fleet.Config, suites ...string) (*Cluster, error) {
	if os.Getenv(bridgeVariable) == "" || os.Getenv(netVariable) == "" {
		return nil, fmt.Errorf("start machines: %s says no network: run `make e2e-vm`", bridgeVariable)
	}
	if err := os.MkdirAll(filepath.Join(vmsDir(), "run"), 0o700); err != nil {
		return nil, err
	}
	c := &Cluster{Dir: filepath.Join(vmsDir(), "run")}
	old, err := filepath.Glob(filepath.Join(c.Dir, "*")) // left by a run that was killed
	if err != nil {
		return nil, err
	}
	for _, path := range old {
		if err := os.RemoveAll(path); err != nil {
			return nil, err
		}
	}
	for i, suite := range suites {
		c.Machines = append(c.Machines, &Machine{
			Name: fmt.Sprintf("vm-%c", 'a'+i), Suite: suite, Address: fmt.Sprintf("%s.%d", os.Getenv(netVariable), 11+i), cluster: c, index: i,
		})
	}
	if err := c.start(ctx, config); err != nil {
		return nil, errors.Join(fmt.Errorf("start the control plane of machines: %w", err), c.Stop(ctx))
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, config fleet.Config) (err error) {
	if err := os.MkdirAll(filepath.Join(c.Dir, "logs"), 0o700); err != nil {
		return err
	}
	if c.images, err = writeImages(filepath.Join(c.Dir, "images.tar")); err != nil {
		return err
	}
	c.Playground, err = playground.Start(ctx, playground.Options{
		Dir: filepath.Join(c.Dir, "control-plane"), KubeletsReach: net.ParseIP(c.gateway()), NoKwok: true,
	})
	if err != nil {
		return err
	}
	if c.Control, err = fleet.NewControl(c.Playground, c.Dir, config); err != nil {
		return err
	}
	if err := c.Install(ctx); err != nil {
		return err
	}
	return c.StartPrograms(ctx)
}

// writeImages writes an archive of the images that the pods of tests use, and returns its content.
func writeImages(path string) ([]byte, error) {
	images := []oci.Image{{Name: cluster.PauseImage, Program: cluster.ProgramPath("workload/pause")}}
	for _, name := range slices.Sorted(maps.Keys(cluster.Images)) {
		images = append(images, oci.Image{Name: cluster.Images[name], Program: cluster.ProgramPath("workload/" + name)})
	}
	if err := oci.WriteFile(path, images...); err != nil {
		return nil, fmt.Errorf("make images: %w", err)
	}
	return os.ReadFile(path)
}

// Stop powers off all machines, stops the control plane and removes the state of the machines.
func (c *Cluster) Stop(ctx context.Context) error {
	var errs []error
	for _, m := range c.Machines {
		errs = append(errs, m.PowerOff())
	}
	if c.Control != nil {
		errs = append(errs, c.StopPrograms(ctx))
	}
	if c.Playground != nil {
		errs = append(errs, c.Playground.Stop())
	}
	for _, m := range c.Machines {
		errs = append(errs, os.RemoveAll(m.dir()))
	}
	return errors.Join(errs...)
}

// Machine returns the machine with the given name, or nil.
func (c *Cluster) Machine(name string) *Machine {
	for _, m := range c.Machines {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// gateway returns the address of the host in the network of the machines.
func (c *Cluster) gateway() string { return os.Getenv(netVariable) + ".1" }

// Up boots a machine that is off, and joins it to the cluster the first time. It returns when the node
// is ready for pods and its agent has published its capabilities.
func (m *Machine) Up(ctx context.Context) error {
	began := time.Now()
	if err := m.PowerOn(ctx); err != nil {
		return err
	}
	booted := time.Now()
	if !m.joined {
		if err := m.join(ctx); err != nil {
			return fmt.Errorf("have %s join: %w", m.Name, err)
		}
		m.joined = true
	}
	if err := m.ready(ctx, booted); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s (%s): booted in %.0f s, ready after %.0f s\n", m.Name, m.Suite, booted.Sub(began).Seconds(), time.Since(began).Seconds())
	return nil
}

// join writes the credentials, addresses and images of the machine, and starts its kubelet and its
// agent. At later boots systemd starts them.
func (m *Machine) join(ctx context.Context) error {
	api := m.cluster.Config()
	kubelet, err := cluster.KubeletKubeconfig(ctx, api, m.cluster.Client(), m.Name)
	if err != nil {
		return err
	}
	network, err := m.network()
	if err != nil {
		return err
	}
	_, err = m.RunWith(ctx, map[string][]byte{
		"/etc/kubernetes/kubelet.conf":      kubelet,
		"/etc/kubernetes/ca.crt":            api.CAData,
		"/etc/kubernetes/node":              fmt.Appendf(nil, "NODE_NAME=%s\nNODE_IP=%s\n", m.Name, m.Address),
		"/etc/cni/net.d/10-bridge.conflist": network,
		"/root/images.tar":                  m.cluster.images,
	}, "ctr -n k8s.io images import --local /root/images.tar && rm /root/images.tar && systemctl start kubelet && sync")
	if err != nil {
		return err
	}
	err = m.poll(ctx, "its Node is there", func(ctx context.Context) error {
		_, err := m.cluster.Client().CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return err
	}
	path, err := m.cluster.AgentKubeconfig(ctx, m.Name)
	if err != nil {
		return err
	}
	agent, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, err = m.RunWith(ctx, map[string][]byte{"/etc/kubernetes/agent.conf": agent}, "systemctl start node-agent && sync")
	return err
}

// network returns the configuration of the network plugins.
func (m *Machine) network() ([]byte, error) {
	type object = map[string]any
	return json.Marshal(object{"cniVersion": "1.0.0", "name": "pods", "plugins": []object{{
		"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false,
		"ipam": object{"type": "host-local", "ranges": [][]object{{{"subnet": m.PodRange()}}}, "routes": []object{{"dst": "0.0.0.0/0"}}},
	}}})
}

// ready waits until the kubelet has reported the node ready since a time, the node has no taints, and
// its agent has published its capabilities.
func (m *Machine) ready(ctx context.Context, since time.Time) error {
	return m.poll(ctx, "it takes pods", func(ctx context.Context) error {
		node, err := m.cluster.Client().CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if node.Annotations[v1alpha1.AnnotationCapability] == "" {
			return errors.New("its agent has not said what it can restore")
		}
		for _, taint := range node.Spec.Taints {
			return errors.New("it has the taint " + taint.Key)
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type != corev1.NodeReady {
				continue
			}
			if condition.Status != corev1.ConditionTrue || condition.LastHeartbeatTime.Time.Before(since.Truncate(time.Second)) {
				return fmt.Errorf("its kubelet has not reported that it is ready: %s, at %s", condition.Message, condition.LastHeartbeatTime)
			}
			return nil
		}
		return errors.New("it has no condition Ready")
	})
}

func (m *Machine) poll(ctx context.Context, what string, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, joinTimeout, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s until %s: %w", m.Name, what, errors.Join(err, last))
	}
	return nil
}

// KeepLogs copies the journals and CRIU logs of all running machines, all consoles, and the logs of the
// control plane to a directory with the given name, and logs its path.
func (c *Cluster) KeepLogs(tb testing.TB, name string) {
	tb.Helper()
	to := filepath.Join(cmp.Or(os.Getenv(logsVariable), filepath.Join(vmsDir(), "logs")), strings.ReplaceAll(name, "/", "_"))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), joinTimeout)
	defer cancel()
	errs := []error{os.RemoveAll(to), os.MkdirAll(to, 0o700)}
	for from, sub := range map[string]string{filepath.Join(c.Dir, "logs"): "", filepath.Join(c.Playground.Dir(), "logs"): "control-plane"} {
		errs = append(errs, os.CopyFS(filepath.Join(to, sub), os.DirFS(from)))
	}
	for _, m := range c.Machines {
		if console, err := os.ReadFile(m.console()); err == nil {
			errs = append(errs, os.WriteFile(filepath.Join(to, m.Name+"-console.log"), console, 0o600))
		}
		if !m.On() {
			continue
		}
		journal, err := m.Run(ctx, "journalctl -b -o short-precise -u containerd -u kubelet -u node-agent; tail -n 2000 /var/log/criu.log 2>/dev/null; true")
		errs = append(errs, err, os.WriteFile(filepath.Join(to, m.Name+".log"), journal, 0o600))
	}
	if err := errors.Join(errs...); err != nil {
		tb.Errorf("keep logs: %v", err)
	}
	tb.Logf("the logs of the machines are in %s", to)
}

// vmsDir returns the directory of vms.sh.
func vmsDir() string { return cmp.Or(os.Getenv(dirVariable), "/var/tmp/supercargo-vms") }
