package oci

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go/v1"
)

// write writes images and returns the archive and the files in it.
func write(t *testing.T, images ...Image) ([]byte, map[string][]byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "images.tar")
	if err := WriteFile(path, images...); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content, untar(t, content)
}

func untar(t *testing.T, content []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// read reads the blob of a descriptor, and checks its digest and size.
func read(t *testing.T, files map[string][]byte, d v1.Descriptor, into any) []byte {
	t.Helper()
	content, ok := files["blobs/sha256/"+d.Digest.Encoded()]
	if !ok {
		t.Fatalf("there is no blob %s", d.Digest)
	}
	if got := digest.FromBytes(content); got != d.Digest || int64(len(content)) != d.Size {
		t.Errorf("the blob %s is %d bytes with digest %s, want %d bytes", d.Digest, len(content), got, d.Size)
	}
	if into != nil {
		if err := json.Unmarshal(content, into); err != nil {
			t.Fatal(err)
		}
	}
	return content
}

// first reads the manifest and the configuration of the first image.
func first(t *testing.T, files map[string][]byte) (index v1.Index, manifest v1.Manifest, config v1.Image, layer []byte) {
	t.Helper()
	if err := json.Unmarshal(files[v1.ImageIndexFile], &index); err != nil {
		t.Fatal(err)
	}
	read(t, files, index.Manifests[0], &manifest)
	read(t, files, manifest.Config, &config)
	return index, manifest, config, read(t, files, manifest.Layers[0], nil)
}

func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAnImageOfAProgramRunsIt(t *testing.T) {
	_, files := write(t, Image{Name: "localhost/hello:1", Program: file(t, "hello", "a program")})
	index, manifest, config, layer := first(t, files)
	if got := index.Manifests[0].Annotations["io.containerd.image.name"]; got != "localhost/hello:1" {
		t.Errorf("the image's name is %q", got)
	}
	if len(manifest.Annotations) != 0 {
		t.Errorf("an image of a program is annotated %v", manifest.Annotations)
	}
	if len(config.Config.Entrypoint) != 1 || config.Config.Entrypoint[0] != "/hello" {
		t.Errorf("the image runs %v", config.Config.Entrypoint)
	}
	if config.RootFS.DiffIDs[0] != manifest.Layers[0].Digest {
		t.Error("the layer is not that of the configuration")
	}
	if got := untar(t, layer)["hello"]; string(got) != "a program" {
		t.Errorf("the program in the image is %q", got)
	}
}

func TestAnImageHoldsFilesBesideItsProgram(t *testing.T) {
	_, files := write(t, Image{
		Name: "localhost/hello:1", Program: file(t, "hello", "a program"), Path: "/usr/local/bin/hello",
		Files: map[string]string{"/usr/sbin/helper": file(t, "other", "its helper")},
	})
	_, _, config, layer := first(t, files)
	if len(config.Config.Entrypoint) != 1 || config.Config.Entrypoint[0] != "/usr/local/bin/hello" {
		t.Errorf("the image runs %v", config.Config.Entrypoint)
	}
	content := untar(t, layer)
	if program, helper := string(content["usr/local/bin/hello"]), string(content["usr/sbin/helper"]); len(content) != 2 || program != "a program" || helper != "its helper" {
		t.Errorf("the image has the program %q and the helper %q, of %d files", program, helper, len(content))
	}
}

func TestTheSameImagesGiveTheSameBytes(t *testing.T) {
	images := []Image{
		{Name: "a", Program: file(t, "a", "program a")},
		{Name: "b", Program: file(t, "b", "program b")},
	}
	one, _ := write(t, images...)
	two, _ := write(t, images...)
	if !bytes.Equal(one, two) {
		t.Error("two archives of the same images differ")
	}
}

func TestAMissingFileIsNamedWithItsImage(t *testing.T) {
	err := Write(io.Discard, Image{Name: "localhost/none:1", Program: filepath.Join(t.TempDir(), "none")})
	if !errors.Is(err, fs.ErrNotExist) || !bytes.Contains([]byte(err.Error()), []byte("localhost/none:1")) {
		t.Errorf("err = %v, want one that names the image and the file", err)
	}
}

func TestALayerOfFillerHasItsSizeAndDigest(t *testing.T) {
	program := filepath.Join(t.TempDir(), "run")
	if err := os.WriteFile(program, []byte("#!"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, files := write(t, Image{Name: "localhost/large:1", Program: program, FillerMiB: 2})
	var index v1.Index
	if err := json.Unmarshal(files[v1.ImageIndexFile], &index); err != nil {
		t.Fatal(err)
	}
	var manifest v1.Manifest
	read(t, files, index.Manifests[0], &manifest)
	if len(manifest.Layers) != 2 {
		t.Fatalf("it has %d layers, want 2", len(manifest.Layers))
	}
	size := 0
	for name, content := range untar(t, read(t, files, manifest.Layers[1], nil)) {
		size += len(content)
		if len(content) != 64<<10 {
			t.Errorf("%s has %d bytes", name, len(content))
		}
	}
	if size != 2<<20 {
		t.Errorf("the files have %d bytes, want 2 MiB", size)
	}
}
