//go:build linux

package cluster

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"supercargo.dev/supercargo/test/e2e/nodes/oci"
)

// PauseImage is the image of the containers that hold the namespaces of pods. Every node has it.
const PauseImage = "localhost/pause:1"

//go:embed containerd.toml
var containerdConfig string

//go:embed cni.json
var networkConfig string

var templates = template.Must(template.Must(template.New("containerd").Parse(containerdConfig)).New("cni").Parse(networkConfig))

// writeRuntimeConfig writes the configuration of containerd and the network plugins.
func (n *Node) writeRuntimeConfig() error {
	values := map[string]any{
		"Node": n, "Pause": PauseImage, "Bin": binDir(), "PodRange": n.cluster.slot.podRange(n.index),
		"Restrict": !may(unix.CAP_SYS_RESOURCE),
		"Root":     filepath.Join(n.Dir, "root"), "State": filepath.Dir(n.ContainerdSocket),
	}
	if n.cluster.bare {
		values["Root"], values["State"] = "/var/lib/containerd", "/run/containerd"
	}
	for name, file := range map[string]string{
		"containerd": filepath.Join(n.Dir, "containerd.toml"),
		"cni":        filepath.Join(n.Dir, "cni", "10-bridge.conflist"),
	} {
		var out bytes.Buffer
		if err := templates.ExecuteTemplate(&out, name, values); err != nil {
			return fmt.Errorf("configure %s of node %s: %w", name, n.Name, err)
		}
		if err := writeFile(file, out.Bytes()); err != nil {
			return fmt.Errorf("configure %s of node %s: %w", name, n.Name, err)
		}
	}
	return nil
}

// installRuntime installs the program that restores containers, with its configuration.
func (n *Node) installRuntime() error {
	text, err := os.ReadFile(program(filepath.Base(n.Runtime)))
	if err != nil {
		return fmt.Errorf("install the runtime of node %s: %w", n.Name, err)
	}
	settings := map[string]string{"runc": program("runc"), "folder": n.RestoreDir}
	if n.cluster.bare {
		delete(settings, "folder") // the manifests have the default
	}
	config, err := json.Marshal(settings)
	if err == nil {
		err = writeFile(n.Runtime+".json", config)
	}
	if err == nil {
		err = writeFile(n.Runtime, text)
	}
	if err == nil {
		err = os.Chmod(n.Runtime, 0o700)
	}
	if err != nil {
		return fmt.Errorf("install the runtime of node %s: %w", n.Name, err)
	}
	return nil
}

// may reports whether this process has a capability. Root may lack some.
func may(capability int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[capability/32].Effective&(1<<(capability%32)) != 0
}

func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// CRI connects to the interface of the node's containerd that its kubelet uses. The caller closes the
// connection, which also serves containerd's own interfaces.
func (n *Node) CRI() (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("unix://"+n.ContainerdSocket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("connect to containerd of node %s: %w", n.Name, err)
	}
	return conn, nil
}

// maxMessage is the message limit of containerd and kubelets, in bytes.
const maxMessage = 16 << 20

// waitContainerd waits until containerd and its network plugins are ready.
func (n *Node) waitContainerd(ctx context.Context) error {
	conn, err := n.CRI()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // no data is lost after the last answer
	client := runtimeapi.NewRuntimeServiceClient(conn)
	return n.poll(ctx, n.containerd, func(ctx context.Context) error {
		status, err := client.Status(ctx, &runtimeapi.StatusRequest{})
		if err != nil {
			return err
		}
		for _, condition := range status.GetStatus().GetConditions() {
			// Other conditions report optional settings of containerd.
			required := condition.GetType() == runtimeapi.RuntimeReady || condition.GetType() == runtimeapi.NetworkReady
			if required && !condition.GetStatus() {
				return errors.New(condition.GetType() + ": " + condition.GetMessage())
			}
		}
		return nil
	})
}

// Import imports images into the node's containerd, for pods to name: OCI archives, as [oci.Image.Write]
// makes them.
func (n *Node) Import(ctx context.Context, archive string) error {
	_, err := n.Run(ctx,
		"ctr", "--address", n.ContainerdSocket, "--namespace", "k8s.io", "images", "import", "--local", archive)
	if err != nil {
		return fmt.Errorf("import %s into node %s: %w", archive, n.Name, err)
	}
	return nil
}

// ImportOnlyHere imports an image of a program that no other node has: a byte after the program's end tells it from
// the image of [Images].
func (n *Node) ImportOnlyHere(ctx context.Context, image, program string) (err error) {
	dir, err := os.MkdirTemp(n.Dir, "image")
	if err != nil {
		return fmt.Errorf("make image %s: %w", image, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	text, err := os.ReadFile(ProgramPath("workload/" + program))
	if err != nil {
		return fmt.Errorf("make image %s: %w", image, err)
	}
	changed, archive := filepath.Join(dir, program), filepath.Join(dir, "image.tar")
	if err := os.WriteFile(changed, append(text, 0), 0o700); err != nil {
		return fmt.Errorf("make image %s: %w", image, err)
	}
	if err := oci.WriteFile(archive, oci.Image{Name: image, Program: changed}); err != nil {
		return fmt.Errorf("make image %s: %w", image, err)
	}
	return n.Import(ctx, archive)
}
