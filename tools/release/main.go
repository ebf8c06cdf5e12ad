// Command release creates all files of a release from existing binaries: their archives, multi-arch images as
// OCI layouts, charts and manifests that name the images by digest, a bill of materials for each program, the
// manifest of the krew plugin, and the checksums of all files. It needs no daemon, no registry and no
// network, and the same input produces the same bytes.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// options specifies a release.
type options struct {
	version, revision, repository, archives, homepage string
	created                                           time.Time
	// source is the root of the repository, binaries contains OS/ARCH/PROGRAM, and out is the output folder.
	source, binaries, out string
}

func run(args []string) error {
	var o options
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&o.version, "version", "", "`version`, such as v0.1.0")
	flags.StringVar(&o.revision, "revision", "", "commit")
	created := flags.Int64("created", 0, "`seconds` since 1970 at which the source was committed")
	flags.StringVar(&o.repository, "repository", "supercargo", "`registry/path` of the images, to which the program's name is appended")
	flags.StringVar(&o.archives, "archives", "https://supercargo.dev/releases", "`URL` of the folder of the archives")
	flags.StringVar(&o.homepage, "homepage", "https://supercargo.dev", "`URL` of the project")
	flags.StringVar(&o.source, "source", ".", "root `folder` of the repository")
	flags.StringVar(&o.binaries, "binaries", "", "`folder` with OS/ARCH/PROGRAM")
	flags.StringVar(&o.out, "out", "", "`folder` to create, with all published files")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.version == "" || o.binaries == "" || o.out == "" || *created <= 0 {
		return errors.New("-version, -created, -binaries and -out are required")
	}
	if !strings.HasPrefix(o.version, "v") {
		return fmt.Errorf("-version=%s: must begin with v, as the tags of images do", o.version)
	}
	o.created = time.Unix(*created, 0).UTC()
	return o.make()
}

// make creates all files in a folder that must not exist yet, so that it contains nothing of an earlier
// release.
func (o *options) make() error {
	if _, err := os.Stat(o.out); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("-out=%s: already exists: remove it first", o.out)
	}
	programs, err := o.find()
	if err != nil {
		return err
	}
	digests, err := o.images(programs)
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return o.bills(programs) },
		func() error { return o.archive(programs) },
		func() error { return o.charts(digests) },
		func() error { return o.manifests(digests) },
		func() error { return o.krew(programs) },
		o.sums,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// program is one binary.
type program struct {
	name string
	// variant tells builds of the same program apart, such as kube-scheduler for several versions of Kubernetes:
	// kubernetes1.36. It is empty for the usual build.
	variant        string
	os, arch, file string
}

// label returns the name with the variant, for names of files.
func (p program) label() string { return strings.TrimSuffix(p.name+"-"+p.variant, "-") }

// tag returns the tag of the program's image.
func (p program) tag(version string) string { return strings.TrimSuffix(version+"-"+p.variant, "-") }

// find lists the binaries, sorted by label, system and architecture. A file PROGRAM-kubernetesVERSION is a variant of
// PROGRAM.
func (o *options) find() ([]program, error) {
	files, err := filepath.Glob(filepath.Join(o.binaries, "*", "*", "*"))
	if err != nil {
		return nil, err
	}
	var found []program
	for _, file := range files {
		arch := filepath.Dir(file)
		p := program{name: filepath.Base(file), os: filepath.Base(filepath.Dir(arch)), arch: filepath.Base(arch), file: file}
		if name, version, ok := strings.Cut(p.name, "-kubernetes"); ok {
			p.name, p.variant = name, "kubernetes"+version
		}
		found = append(found, p)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("-binaries=%s: must contain files such as linux/amd64/PROGRAM", o.binaries)
	}
	slices.SortFunc(found, func(a, b program) int {
		return strings.Compare(a.label()+"/"+a.os+"/"+a.arch, b.label()+"/"+b.os+"/"+b.arch)
	})
	return found, nil
}

// write writes a file below the output folder.
func (o *options) write(name string, content []byte) error {
	file := filepath.Join(o.out, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

// sumsFile contains the checksums of all other files, in the format of sha256sum --check.
const sumsFile = "SHA256SUMS"

func (o *options) sums() error {
	var lines bytes.Buffer
	// WalkDir visits files in lexical order.
	err := filepath.WalkDir(o.out, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(o.out, file)
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s  %s\n", sum(content), filepath.ToSlash(name))
		return nil
	})
	if err != nil {
		return fmt.Errorf("compute the checksums: %w", err)
	}
	return o.write(sumsFile, lines.Bytes())
}

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}
