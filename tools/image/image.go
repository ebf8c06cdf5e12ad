// Package image makes container images of statically linked binaries, based on scratch. The same input
// produces the same bytes.
package image

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"path"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	binDir = "usr/local/bin" // the path in the upstream images, so that a static pod's command is found

	// nonRoot is the user and group of distroless' nonroot images. It is numeric, because the kubelet cannot
	// check runAsNonRoot against a name.
	nonRoot = "65532:65532"
)

// Spec specifies the content of one image.
type Spec struct {
	Name     string // the binary's name, in the image and in the labels
	Version  string
	Revision string // commit
	Platform v1.Platform
	Created  time.Time // of the source, not of the build, so that the same source produces the same bytes
	OCI      bool      // in the format of OCI instead of Docker
}

// Build makes an image that contains only a statically linked binary: no shell, no user database, no CA
// certificates. The program connects to an API server whose CA is in its kubeconfig or its service account.
func Build(s Spec, binary []byte) (v1.Image, error) {
	if err := checkBinary(binary, s.Platform.Architecture); err != nil {
		return nil, err
	}
	files, err := layerTar(s, binary)
	if err != nil {
		return nil, err
	}
	var as []tarball.LayerOption
	base := empty.Image
	if s.OCI {
		as = append(as, tarball.WithMediaType(types.OCILayer))
		base = mutate.ConfigMediaType(mutate.MediaType(base, types.OCIManifestSchema1), types.OCIConfigJSON)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files)), nil
	}, as...)
	if err != nil {
		return nil, fmt.Errorf("create layer: %w", err)
	}
	image, err := mutate.Append(base, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: s.Created}, CreatedBy: "supercargo make images"},
	})
	if err != nil {
		return nil, fmt.Errorf("append layer: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	config = config.DeepCopy()
	config.Created = v1.Time{Time: s.Created}
	config.OS, config.Architecture, config.Variant = s.Platform.OS, s.Platform.Architecture, s.Platform.Variant
	config.Config = v1.Config{
		User:       nonRoot,
		Entrypoint: []string{"/" + path.Join(binDir, s.Name)},
		Env:        []string{"PATH=/" + binDir},
		WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":    s.Name,
			"org.opencontainers.image.version":  s.Version,
			"org.opencontainers.image.revision": s.Revision,
			"org.opencontainers.image.created":  s.Created.UTC().Format(time.RFC3339),
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.vendor":   "Supercargo",
		},
	}
	return mutate.ConfigFile(image, config)
}

// layerTar returns the image's file system. Owner, mode and time are constant, so they do not depend on the
// build machine.
func layerTar(s Spec, binary []byte) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, dir := range []string{"usr/", "usr/local/", binDir + "/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755, ModTime: s.Created}); err != nil {
			return nil, fmt.Errorf("write %s: %w", dir, err)
		}
	}
	file := path.Join(binDir, s.Name)
	header := &tar.Header{Typeflag: tar.TypeReg, Name: file, Mode: 0o755, Size: int64(len(binary)), ModTime: s.Created}
	if err := w.WriteHeader(header); err != nil {
		return nil, fmt.Errorf("write %s: %w", file, err)
	}
	if _, err := w.Write(binary); err != nil {
		return nil, fmt.Errorf("write %s: %w", file, err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("close layer: %w", err)
	}
	return buf.Bytes(), nil
}

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkBinary rejects a binary that could not start on scratch: one for another architecture, or one that
// needs a dynamic loader, which the image does not have.
func checkBinary(binary []byte, arch string) error {
	file, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		return fmt.Errorf("read binary: %w", err)
	}
	want, known := machines[arch]
	if !known {
		return fmt.Errorf("architecture %q must be one of amd64, arm64", arch)
	}
	if file.Machine != want {
		return fmt.Errorf("the binary is for %v, but the image is for %s", file.Machine, arch)
	}
	for _, prog := range file.Progs {
		if prog.Type == elf.PT_INTERP {
			return fmt.Errorf("the binary is dynamically linked: build it with CGO_ENABLED=0")
		}
	}
	return nil
}
