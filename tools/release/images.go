package main

import (
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"supercargo.dev/supercargo/tools/image"
)

// images writes an OCI layout for each program, images/PROGRAM, with one image for each Linux architecture,
// and returns the digests of their indexes.
func (o *options) images(programs []program) (map[string]string, error) {
	indexes := map[string]v1.ImageIndex{}
	for _, p := range programs {
		if p.os != "linux" {
			continue
		}
		content, err := os.ReadFile(p.file)
		if err != nil {
			return nil, err
		}
		platform := v1.Platform{OS: p.os, Architecture: p.arch}
		made, err := image.Build(image.Spec{Name: p.name, Version: o.version, Revision: o.revision, Platform: platform, Created: o.created, OCI: true}, content)
		if err != nil {
			return nil, fmt.Errorf("build the image of %s for %s: %w", p.name, platform, err)
		}
		index, ok := indexes[p.name]
		if !ok {
			index = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
		}
		indexes[p.name] = mutate.AppendManifests(index, mutate.IndexAddendum{Add: made, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	digests := map[string]string{}
	for name, index := range indexes {
		folder := filepath.Join(o.out, "images", name)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
		to, err := layout.Write(folder, empty.Index)
		if err == nil {
			err = to.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": o.version}))
		}
		if err != nil {
			return nil, fmt.Errorf("write the image of %s: %w", name, err)
		}
		digest, err := index.Digest()
		if err != nil {
			return nil, fmt.Errorf("digest the image of %s: %w", name, err)
		}
		digests[name] = digest.String()
	}
	return digests, nil
}
