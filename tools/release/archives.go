package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"text/template"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name    string
	content []byte
	mode    int64
}

// pack makes a compressed tar of files, sorted by name. Owner and time are constant, so equal files produce
// equal archives.
func pack(files []entry, at time.Time) ([]byte, error) {
	slices.SortFunc(files, func(a, b entry) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression) // its header contains no name and no time
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(compressed)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: at, Format: tar.FormatUSTAR}); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// tree reads the files of a folder, and prefixes their names with under.
func tree(folder, under string, change func(name string, content []byte) []byte) ([]entry, error) {
	var files []entry
	err := filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		files = append(files, entry{path.Join(under, name), change(name, content), 0o644})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", folder, err)
	}
	return files, nil
}

// archiveName returns the file name of the archive of a binary.
func (o *options) archiveName(p program) string {
	return fmt.Sprintf("%s_%s_%s_%s.tar.gz", p.label(), o.version, p.os, p.arch)
}

// archive packs each binary with the license.
func (o *options) archive(programs []program) error {
	license, err := os.ReadFile(filepath.Join(o.source, "LICENSE"))
	if err != nil {
		return err
	}
	for _, p := range programs {
		binary, err := os.ReadFile(p.file)
		if err != nil {
			return err
		}
		packed, err := pack([]entry{{p.name, binary, 0o755}, {"LICENSE", license, 0o644}}, o.created)
		if err != nil {
			return err
		}
		if err := o.write(o.archiveName(p), packed); err != nil {
			return err
		}
	}
	return nil
}

// krew fills in the manifest of the krew plugin, if the command line is among the programs.
func (o *options) krew(programs []program) error {
	type platform struct{ OS, Arch, SHA256 string }
	var platforms []platform
	for _, p := range programs {
		if p.name != "supercargo" {
			continue
		}
		packed, err := os.ReadFile(filepath.Join(o.out, o.archiveName(p)))
		if err != nil {
			return err
		}
		platforms = append(platforms, platform{p.os, p.arch, sum(packed)})
	}
	if len(platforms) == 0 {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(o.source, "manifests", "krew", "*"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("find the template of the plugin's manifest: %d files, %w", len(files), err)
	}
	parsed, err := template.ParseFiles(files[0])
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, map[string]any{"Version": o.version, "Homepage": o.homepage, "Archives": o.archives, "Platforms": platforms}); err != nil {
		return fmt.Errorf("render the plugin's manifest: %w", err)
	}
	return o.write("supercargo-krew.yaml", out.Bytes())
}
