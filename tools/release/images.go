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

// refName is the annotation of an OCI layout that has the tag of an image.
const refName = "org.opencontainers.image.ref.name"

// images writes an OCI layout for each program, images/PROGRAM. It has an index for each variant, whose
// reference is the tag, with one image for each Linux architecture. images returns the digests of the indexes
// by label.
func (o *options) images(programs []program) (map[string]string, error) {
	digests := map[string]string{}
	layouts := map[string]layout.Path{}
	for _, variant := range variants(programs) {
		index, err := o.index(variant)
		if err != nil {
			return nil, err
		}
		first := variant[0]
		to, ok := layouts[first.name]
		if !ok {
			folder := filepath.Join(o.out, "images", first.name)
			if err := os.MkdirAll(folder, 0o755); err != nil {
				return nil, err
			}
			if to, err = layout.Write(folder, empty.Index); err != nil {
				return nil, fmt.Errorf("write the image of %s: %w", first.name, err)
			}
			layouts[first.name] = to
		}
		if err := to.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: first.tag(o.version)})); err != nil {
			return nil, fmt.Errorf("write the image of %s: %w", first.label(), err)
		}
		digest, err := index.Digest()
		if err != nil {
			return nil, fmt.Errorf("digest the image of %s: %w", first.label(), err)
		}
		digests[first.label()] = digest.String()
	}
	return digests, nil
}

// laboratory is the program that runs on people's computers only, and has no image.
const laboratory = "supercargo-lab"

// variants groups the binaries for Linux that have images by label, in their order.
func variants(programs []program) (all [][]program) {
	for _, p := range programs {
		if p.os != "linux" || p.name == laboratory {
			continue
		}
		if n := len(all); n > 0 && all[n-1][0].label() == p.label() {
			all[n-1] = append(all[n-1], p)
			continue
		}
		all = append(all, []program{p})
	}
	return all
}

// index builds the images of a variant.
func (o *options) index(variant []program) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range variant {
		content, err := os.ReadFile(p.file)
		if err != nil {
			return nil, err
		}
		platform := v1.Platform{OS: p.os, Architecture: p.arch}
		made, err := image.Build(image.Spec{Name: p.name, Version: p.tag(o.version), Revision: o.revision, Platform: platform, Created: o.created, OCI: true}, content)
		if err != nil {
			return nil, fmt.Errorf("build the image of %s for %s: %w", p.label(), platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: made, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	return index, nil
}
