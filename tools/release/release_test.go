package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// root is the root of the repository.
const root = "../.."

// version is the released version.
const version = "v9.8.7"

// laterScheduler is kube-scheduler for a later version of Kubernetes.
const laterScheduler = "kube-scheduler-kubernetes1.36"

// inClusters lists the programs that have images.
var inClusters = []string{"kube-scheduler", "autoscaler", "descheduler", "metrics-adapter", "node-agent", "runc-supercargo"}

// binaries builds stand-ins for the real binaries, which take long to build: the same small program under
// their names, for several systems.
func binaries(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for platform, names := range map[string][]string{
		"linux/amd64": append([]string{"supercargo", "supercargo-lab", laterScheduler}, inClusters...), "linux/arm64": append([]string{"supercargo", "supercargo-lab", laterScheduler}, inClusters...),
		"darwin/arm64": {"supercargo", "supercargo-lab"},
	} {
		goos, arch, _ := strings.Cut(platform, "/")
		first := filepath.Join(dir, platform, names[0])
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", first, "../images/testdata/hello")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
		}
		content, err := os.ReadFile(first)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names[1:] {
			if err := os.WriteFile(filepath.Join(dir, platform, name), content, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// release makes a release and returns its files by name.
func release(t *testing.T, source, binaries string) map[string][]byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "release")
	if err := run([]string{
		"-version", version, "-revision", "abc", "-created", "1700000000", "-repository", "registry.example/ours", "-source", source, "-binaries", binaries, "-out", out,
	}); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	err := filepath.WalkDir(out, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(out, file)
		if err == nil {
			files[filepath.ToSlash(name)], err = os.ReadFile(file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// unpack reads an archive.
func unpack(t *testing.T, packed []byte) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
}

// copied returns a copy of the source with other times and modes of its files.
func copied(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "manifests"), os.DirFS(filepath.Join(root, "manifests"))); err != nil {
		t.Fatal(err)
	}
	license, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "LICENSE"), license, 0o600)
	}
	if err == nil {
		err = os.Chtimes(filepath.Join(dir, "LICENSE"), time.Time{}, time.Unix(1, 0))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestTwoReleasesAreTheSame compares two releases of the same source, built in different folders.
func TestTwoReleasesAreTheSame(t *testing.T) {
	first, second := release(t, root, binaries(t)), release(t, copied(t), binaries(t))
	if a, b := slices.Sorted(maps.Keys(first)), slices.Sorted(maps.Keys(second)); !slices.Equal(a, b) {
		t.Fatalf("the releases have the files\n%q\n%q", a, b)
	}
	for name, content := range first {
		if !bytes.Equal(content, second[name]) {
			t.Errorf("%s differs", name)
		}
	}
}

func TestAReleaseHoldsWhatItSays(t *testing.T) {
	files := release(t, root, binaries(t))
	digests := map[string]string{}
	for _, name := range inClusters {
		digests[name] = digestOf(t, files, name, version)
	}
	t.Run("sums", func(t *testing.T) { sumsAreOfAllOtherFiles(t, files) })
	for _, name := range inClusters {
		t.Run("image of "+name, func(t *testing.T) { isForTwoArchitectures(t, files, name, version) })
	}
	t.Run("image of the scheduler for a later Kubernetes", func(t *testing.T) {
		isForTwoArchitectures(t, files, "kube-scheduler", version+"-kubernetes1.36")
	})
	t.Run("the chart names the scheduler of each Kubernetes by its digest", func(t *testing.T) { chartNamesSchedulers(t, files) })
	t.Run("manifests name the images by their digests", func(t *testing.T) { manifestsNameDigests(t, files, digests) })
	t.Run("charts name the images by their digests", func(t *testing.T) { chartsNameDigests(t, files, digests) })
	t.Run("the plugin's manifest has the sums of the archives", func(t *testing.T) { pluginHasSums(t, files) })
	t.Run("bills of materials", func(t *testing.T) { billsNameTheProgram(t, files) })
}

func sumsAreOfAllOtherFiles(t *testing.T, files map[string][]byte) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(string(files[sumsFile])), "\n")
	if len(lines) != len(files)-1 {
		t.Errorf("%d sums of %d other files", len(lines), len(files)-1)
	}
	for _, line := range lines {
		want, name, _ := strings.Cut(line, "  ")
		if got := sum(files[name]); got != want {
			t.Errorf("the sum of %q is %s, want %s", name, got, want)
		}
	}
}

// layoutOf reads the layout of a program's images, and the entry with a tag.
func layoutOf(t *testing.T, files map[string][]byte, name, tag string) (v1.ImageIndex, v1.Descriptor) {
	t.Helper()
	dir := t.TempDir()
	for file, content := range files {
		if below, ok := strings.CutPrefix(file, "images/"+name+"/"); ok {
			at := filepath.Join(dir, below)
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, content, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	top, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(top.Manifests, func(d v1.Descriptor) bool { return d.Annotations[refName] == tag })
	if i < 0 {
		t.Fatalf("%s has no image with tag %s: %+v", name, tag, top)
	}
	return index, top.Manifests[i]
}

func digestOf(t *testing.T, files map[string][]byte, name, tag string) string {
	t.Helper()
	_, entry := layoutOf(t, files, name, tag)
	return entry.Digest.String()
}

func isForTwoArchitectures(t *testing.T, files map[string][]byte, name, tag string) {
	t.Helper()
	index, entry := layoutOf(t, files, name, tag)
	inner, err := index.ImageIndex(entry.Digest)
	if err != nil {
		t.Fatal(err)
	}
	images, err := inner.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range images.Manifests {
		platforms = append(platforms, m.Platform.String())
		if made, err := inner.Image(m.Digest); err != nil {
			t.Error(err)
		} else if config, err := made.ConfigFile(); err != nil || config.Architecture != m.Platform.Architecture || config.Config.Entrypoint[0] != "/usr/local/bin/"+name {
			t.Errorf("%s for %s is %+v, %v", name, m.Platform, config, err)
		}
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(platforms, want) {
		t.Errorf("%s is for %q, want %q", name, platforms, want)
	}
}

func manifestsNameDigests(t *testing.T, files map[string][]byte, digests map[string]string) {
	t.Helper()
	pinned := map[string]bool{}
	for name, content := range unpack(t, files["manifests_"+version+".tar.gz"]) {
		if named.MatchString(strings.ReplaceAll(content, "registry.example/ours/", "")) {
			t.Errorf("%s names an image by its tag alone", name)
		}
		for program, digest := range digests {
			if strings.Contains(content, "registry.example/ours/"+program+":"+version+"@"+digest) {
				pinned[program] = true
			}
		}
	}
	if len(pinned) != len(inClusters) {
		t.Errorf("only %v are named by their digests", pinned)
	}
}

func chartsNameDigests(t *testing.T, files map[string][]byte, digests map[string]string) {
	t.Helper()
	chart := unpack(t, files["supercargo-9.8.7.tgz"])
	for program, digest := range digests {
		if !strings.Contains(chart["supercargo/values.yaml"], digest) {
			t.Errorf("the values do not name %s by its digest", program)
		}
	}
	if !strings.Contains(chart["supercargo/values.yaml"], "  repository: registry.example/ours ") {
		t.Error("the values name another registry")
	}
	for _, name := range []string{"supercargo", "supercargo-crds"} {
		about := unpack(t, files[name+"-9.8.7.tgz"])[path.Join(name, "Chart.yaml")]
		if !strings.Contains(about, "\nversion: 9.8.7\nappVersion: 9.8.7\n") {
			t.Errorf("chart %s says %s", name, about)
		}
	}
}

func chartNamesSchedulers(t *testing.T, files map[string][]byte) {
	t.Helper()
	want := fmt.Sprintf("  digests: {%q: %q, %q: %q, %q: %q}", "1.35", digestOf(t, files, "kube-scheduler", version),
		"1.36", digestOf(t, files, "kube-scheduler", version+"-kubernetes1.36"), "1.37", "")
	if text := unpack(t, files["supercargo-9.8.7.tgz"])["supercargo/values.yaml"]; !strings.Contains(text, want) {
		t.Errorf("the values have no line %s:\n%s", want, text)
	}
	if inside := unpack(t, files["kube-scheduler-kubernetes1.36_"+version+"_linux_arm64.tar.gz"]); inside["kube-scheduler"] == "" {
		t.Errorf("the archive for Kubernetes 1.36 has no kube-scheduler, but %d files", len(inside))
	}
}

func pluginHasSums(t *testing.T, files map[string][]byte) {
	t.Helper()
	for _, platform := range []string{"linux_amd64", "linux_arm64", "darwin_arm64"} {
		archive := "supercargo_" + version + "_" + platform + ".tar.gz"
		if s := sum(files[archive]); !strings.Contains(string(files["supercargo-krew.yaml"]), "/"+archive+"\n    sha256: "+s+"\n") {
			t.Errorf("%s is not in it with sum %s:\n%s", archive, s, files["supercargo-krew.yaml"])
		}
		if inside := unpack(t, files[archive]); inside["supercargo"] == "" || inside["LICENSE"] == "" || len(inside) != 2 {
			t.Errorf("%s has %d files", archive, len(inside))
		}
	}
}

func billsNameTheProgram(t *testing.T, files map[string][]byte) {
	t.Helper()
	var bom cdx.BOM
	if err := json.Unmarshal(files["sbom/node-agent_linux_arm64.cdx.json"], &bom); err != nil {
		t.Fatal(err)
	}
	if bom.Metadata.Component.Name != "node-agent" || bom.Metadata.Component.Version != version || bom.SerialNumber != "" {
		t.Errorf("%+v of %+v", bom.SerialNumber, bom.Metadata.Component)
	}
}

// TestABillNamesTheModulesOfABinary uses this test's own binary, which has modules in it.
func TestABillNamesTheModulesOfABinary(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := options{version: version, out: t.TempDir(), created: time.Unix(1700000000, 0)}
	if err := o.bills([]program{{name: "test", os: "linux", arch: "amd64", file: self}}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(o.out, "sbom/test_linux_amd64.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"pkg:golang/github.com/google/go-containerregistry@v", "pkg:golang/github.com/CycloneDX/cyclonedx-go@v"} {
		if !strings.Contains(string(text), module) {
			t.Errorf("%s is not in it", module)
		}
	}
}

func TestWhatCannotBeReleasedIsRefused(t *testing.T) {
	there := t.TempDir()
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"no version":               {[]string{"-created", "1", "-binaries", "b", "-out", "o"}, "-version"},
		"a commit for a version":   {[]string{"-version", "1418832-dirty", "-created", "1", "-binaries", "b", "-out", "o"}, "must begin with v"},
		"a folder that is there":   {[]string{"-version", "v1", "-created", "1", "-binaries", "b", "-out", there}, "already exists"},
		"no binaries":              {[]string{"-version", "v1", "-created", "1", "-binaries", there, "-out", filepath.Join(there, "o")}, "such as linux/amd64/PROGRAM"},
		"a time that is not known": {[]string{"-version", "v1", "-created", "0", "-binaries", "b", "-out", "o"}, "-created"},
	} {
		if err := run(tc.args); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want an error that says %q", name, err, tc.says)
		}
	}
}
