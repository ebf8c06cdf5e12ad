// Package oci writes container images of one program as archives that containerd imports.
package oci

import (
	"archive/tar"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	"github.com/opencontainers/image-spec/specs-go/v1"
)

// Image is an image of one layer with a program.
type Image struct {
	// Name is the name of the image in pods.
	Name string

	// Program is the path of a statically linked program on this machine, which the container runs.
	Program string

	// Path is the path of the program in the image; "" means the root folder.
	Path string

	// Files are the other files of the image: it maps paths in the image to paths on this machine. Links are
	// copied as files.
	Files map[string]string

	// FillerMiB is the size of a second layer: files of 64 KiB that nothing reads, from times in whole seconds, as in
	// most images. 0 means that there is none.
	FillerMiB int
}

// WriteFile writes images to an archive. The same images produce the same bytes.
func WriteFile(path string, images ...Image) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(Write(f, images...), f.Close())
}

// Write writes images as one archive. The same images produce the same bytes.
func Write(w io.Writer, images ...Image) error {
	a := &archive{tar: tar.NewWriter(w)}
	index := v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex}
	for _, image := range images {
		manifest, err := a.image(image)
		if err != nil {
			return fmt.Errorf("write image %s: %w", image.Name, err)
		}
		index.Manifests = append(index.Manifests, manifest)
	}
	layout, err := json.Marshal(v1.ImageLayout{Version: v1.ImageLayoutVersion})
	if err != nil {
		return err
	}
	content, err := json.Marshal(index)
	if err != nil {
		return err
	}
	return errors.Join(a.file(v1.ImageLayoutFile, layout), a.file(v1.ImageIndexFile, content), a.tar.Close())
}

// archive is an archive that is being written.
type archive struct {
	tar *tar.Writer
}

// image writes an image's layer, configuration and manifest, and returns the descriptor of the manifest.
func (a *archive) image(image Image) (v1.Descriptor, error) {
	layer, config, err := a.layer(image)
	if err != nil {
		return v1.Descriptor{}, err
	}
	config.Platform = v1.Platform{Architecture: runtime.GOARCH, OS: "linux"}
	layers := []v1.Descriptor{layer}
	if image.FillerMiB > 0 {
		filler, err := a.filler(image.FillerMiB)
		if err != nil {
			return v1.Descriptor{}, err
		}
		layers = append(layers, filler)
	}
	config.RootFS.Type = "layers"
	for _, l := range layers {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, l.Digest)
	}
	configured, err := a.json(v1.MediaTypeImageConfig, config)
	if err != nil {
		return v1.Descriptor{}, err
	}
	manifest := v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest,
		Config: configured, Layers: layers,
	}
	described, err := a.json(v1.MediaTypeImageManifest, manifest)
	described.Annotations = map[string]string{"io.containerd.image.name": image.Name}
	return described, err
}

// layer writes the one layer of an image.
func (a *archive) layer(image Image) (v1.Descriptor, v1.Image, error) {
	program := cmp.Or(strings.TrimPrefix(image.Path, "/"), filepath.Base(image.Program))
	files := map[string]string{program: image.Program}
	for to, from := range image.Files {
		files[strings.TrimPrefix(to, "/")] = from
	}
	var content bytes.Buffer
	inner := tar.NewWriter(&content)
	for _, to := range slices.Sorted(maps.Keys(files)) {
		file, err := os.ReadFile(files[to])
		if err == nil {
			err = inner.WriteHeader(&tar.Header{Name: to, Mode: 0o755, Size: int64(len(file))})
		}
		if err := errors.Join(err, writeAll(inner, file)); err != nil {
			return v1.Descriptor{}, v1.Image{}, err
		}
	}
	if err := inner.Close(); err != nil {
		return v1.Descriptor{}, v1.Image{}, err
	}
	layer, err := a.blob(v1.MediaTypeImageLayer, content.Bytes())
	return layer, v1.Image{Config: v1.ImageConfig{Entrypoint: []string{"/" + program}}}, err
}

// filler writes a layer that is too large to be kept in memory: it is made twice, and has its digest by then.
func (a *archive) filler(mebibytes int) (v1.Descriptor, error) {
	hash, size := digest.Canonical.Digester(), counter(0)
	if err := fill(io.MultiWriter(hash.Hash(), &size), mebibytes); err != nil {
		return v1.Descriptor{}, err
	}
	d := v1.Descriptor{MediaType: v1.MediaTypeImageLayer, Digest: hash.Digest(), Size: int64(size)}
	if err := a.tar.WriteHeader(&tar.Header{Name: "blobs/sha256/" + d.Digest.Encoded(), Mode: 0o600, Size: d.Size}); err != nil {
		return d, err
	}
	return d, fill(a.tar, mebibytes)
}

// fill writes a layer with files of random bytes.
func fill(w io.Writer, mebibytes int) error {
	const perMiB, perFolder = 16, 256
	random, content := rand.NewChaCha8([32]byte{}), make([]byte, 1<<20/perMiB)
	layer := tar.NewWriter(w)
	for i := range mebibytes * perMiB {
		_, _ = random.Read(content) // never fails
		header := tar.Header{Name: fmt.Sprintf("usr/filler/%d/%d", i/perFolder, i), Mode: 0o644, Size: int64(len(content)), ModTime: time.Unix(1_700_000_000, 0)}
		if err := errors.Join(layer.WriteHeader(&header), writeAll(layer, content)); err != nil {
			return err
		}
	}
	return layer.Close()
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func (a *archive) json(mediaType string, value any) (v1.Descriptor, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return v1.Descriptor{}, err
	}
	return a.blob(mediaType, content)
}

// blob writes content under its digest.
func (a *archive) blob(mediaType string, content []byte) (v1.Descriptor, error) {
	d := digest.FromBytes(content)
	return v1.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(content))}, a.file("blobs/sha256/"+d.Encoded(), content)
}

func (a *archive) file(name string, content []byte) error {
	if err := a.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))}); err != nil {
		return err
	}
	return writeAll(a.tar, content)
}

func writeAll(w io.Writer, content []byte) error {
	_, err := w.Write(content)
	return err
}
