// Command images puts one statically linked binary into a container image based on scratch and writes it as a
// tar that `docker load` and `ctr image import` read. It needs no daemon, no registry and no network, and the
// same input produces the same bytes.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"supercargo.dev/supercargo/tools/image"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("images", flag.ContinueOnError)
	binary := flags.String("binary", "", "statically linked `file` to put into the image")
	tag := flags.String("tag", "", "image `name:tag`")
	version := flags.String("version", "", "version label")
	revision := flags.String("revision", "", "commit label")
	platform := flags.String("platform", "linux/amd64", "`os/arch` of the binary")
	created := flags.Int64("created", 0, "`seconds` since 1970 at which the source was committed")
	out := flags.String("out", "", "tar `file` to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *binary == "" || *tag == "" || *out == "" {
		return fmt.Errorf("-binary, -tag and -out are required")
	}
	target, err := v1.ParsePlatform(*platform)
	if err != nil {
		return fmt.Errorf("parse -platform: %w", err)
	}
	ref, err := name.NewTag(*tag)
	if err != nil {
		return fmt.Errorf("parse -tag: %w", err)
	}
	content, err := os.ReadFile(*binary)
	if err != nil {
		return fmt.Errorf("read -binary: %w", err)
	}
	made, err := image.Build(image.Spec{
		Name:     filepath.Base(*binary),
		Version:  *version,
		Revision: *revision,
		Platform: *target,
		Created:  time.Unix(*created, 0).UTC(),
	}, content)
	if err != nil {
		return fmt.Errorf("build %s: %w", ref, err)
	}
	if err := os.MkdirAll(filepath.Dir(*out), 0o755); err != nil {
		return err
	}
	if err := tarball.WriteToFile(*out, ref, made); err != nil {
		return fmt.Errorf("write %s: %w", *out, err)
	}
	digest, err := made.Digest()
	if err != nil {
		return fmt.Errorf("digest %s: %w", ref, err)
	}
	fmt.Printf("%s  %s@%s\n", *out, ref, digest)
	return nil
}
