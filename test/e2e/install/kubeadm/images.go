//go:build linux

package kubeadm

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/oci"
)

// repository is the registry in the names of the control plane's images. It does not exist, because no image
// is pulled.
const repository = "localhost/kubernetes"

// Versions of what kubeadm installs besides Kubernetes. They are only image tags. The versions of the
// programs in the images are in hack/nodes/runtime and tools/go.mod.
const (
	etcdTag = "3.6.8-0"
	dnsTag  = "v1.13.1"
)

// writeImages writes an archive of the images that kubeadm needs.
func writeImages(ctx context.Context, path, version string) error {
	iptables, err := iptables(ctx)
	if err != nil {
		return fmt.Errorf("make an image of kube-proxy: %w", err)
	}
	images := []oci.Image{
		{Name: repository + "/pause:3.10.1", Program: cluster.ProgramPath("workload/pause")},
		image("etcd", etcdTag, nil),
		image("coredns", dnsTag, nil),
		image("kube-proxy", version, iptables),
	}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		images = append(images, image(name, version, nil))
	}
	if err := oci.WriteFile(path, images...); err != nil {
		return fmt.Errorf("make the images of Kubernetes: %w", err)
	}
	return nil
}

// image returns an image with the program at the path where the released images have it.
func image(name, tag string, files map[string]string) oci.Image {
	return oci.Image{
		Name: repository + "/" + name + ":" + tag, Program: cluster.ProgramPath(name),
		Path: "/usr/local/bin/" + name, Files: files,
	}
}

// iptables returns the machine's iptables files, which kube-proxy runs, by their path in its image: the
// program under all its names, its libraries and its extensions.
func iptables(ctx context.Context) (map[string]string, error) {
	const program = "/usr/sbin/xtables-nft-multi"
	files := map[string]string{}
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, verb := range []string{"", "-save", "-restore"} {
			files["/usr/sbin/"+family+verb] = program
		}
	}
	extensions, err := filepath.Glob("/usr/lib/*/xtables/*.so")
	if err != nil {
		return nil, err
	}
	if len(extensions) == 0 {
		return nil, errors.New("iptables has no extensions in /usr/lib/*/xtables; install Debian's iptables")
	}
	for _, extension := range extensions {
		files[extension] = extension
	}
	out, err := exec.CommandContext(ctx, "ldd", append(extensions, program)...).Output()
	if err != nil {
		return nil, fmt.Errorf("list the libraries of iptables: %w", err)
	}
	for word := range strings.FieldsSeq(string(out)) {
		// Lines that end in a colon name the file whose libraries follow.
		if strings.HasPrefix(word, "/") && !strings.HasSuffix(word, ":") {
			files[word] = word
		}
	}
	return files, nil
}
