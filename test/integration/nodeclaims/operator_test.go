package nodeclaims

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"supercargo.dev/supercargo/lab/playground"
)

// machine is an instance type of the cloud, of which pods can use all.
type machine struct {
	name       string
	cores, gib int64
}

// The instance types of the cloud, all at the same price: only fleets have prices. The cloud has no instance type ghost.
var small, dear, large = machine{"small", 2, 4}, machine{"dear", 2, 4}, machine{"large", 8, 16}

// operator is a process of Karpenter. It has no state of its own.
type operator struct {
	program, dir, kubeconfig string

	cmd *exec.Cmd
	log *os.File
}

// The programs of Karpenter, and the modules that say which versions they are.
const (
	current, currentModule = "karpenter", "karpenter-live"
	older, olderModule     = "karpenter-older", "karpenter"
)

// newOperator returns a Karpenter that is not started, of a program. Its files are in dir.
func newOperator(name, dir, kubeconfig string) (*operator, error) {
	program, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("%w: run make bin/%s, and add bin to PATH", err, name)
	}
	o := &operator{program: program, dir: dir, kubeconfig: kubeconfig}
	text, err := json.Marshal(instanceTypes([]machine{small, dear, large}))
	if err == nil {
		err = os.WriteFile(o.types(), text, 0o600)
	}
	if err == nil {
		o.log, err = os.Create(filepath.Join(dir, "karpenter.log"))
	}
	return o, err
}

func (o *operator) types() string { return filepath.Join(o.dir, "types.json") }

// start starts the process.
func (o *operator) start() error {
	o.cmd = exec.Command(o.program)
	o.cmd.Stdout, o.cmd.Stderr = o.log, o.log
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	o.cmd.Env = append(os.Environ(), "KUBECONFIG="+o.kubeconfig, "DISABLE_LEADER_ELECTION=true", "INSTANCE_TYPES_FILE_PATH="+o.types(),
		"METRICS_PORT=0", "HEALTH_PROBE_PORT=0")
	return o.cmd.Start()
}

// kill ends the process, if it runs.
func (o *operator) kill() {
	if o.cmd != nil {
		_ = o.cmd.Process.Kill()
		_ = o.cmd.Wait()
		o.cmd = nil
	}
}

// tail returns the end of the log.
func (o *operator) tail() string {
	text, _ := os.ReadFile(o.log.Name())
	return string(text[max(0, len(text)-6000):])
}

// common is the Karpenter of all tests that do not stop it.
var common struct {
	once sync.Once
	*operator
	err error
}

// karpenter runs the common Karpenter, until all tests have ended.
func (b *bench) karpenter() {
	b.Helper()
	common.once.Do(func() {
		var dir string
		if dir, common.err = os.MkdirTemp("", "karpenter"); common.err != nil {
			return
		}
		if common.operator, common.err = newOperator(current, dir, b.Site.KubeconfigPath()); common.err == nil {
			common.err = common.start()
		}
	})
	if common.err != nil {
		b.Fatal(common.err)
	}
	b.showLog(common.operator)
}

// endCommon ends the common Karpenter.
func endCommon() {
	if common.operator != nil {
		common.kill()
		_ = os.RemoveAll(common.dir)
	}
}

// ownKarpenter returns a Karpenter that is not started. No other may run.
func (b *bench) ownKarpenter() *operator {
	b.Helper()
	return b.karpenterOf(current, b.Site.KubeconfigPath())
}

// karpenterOf returns a Karpenter of a program that is not started. No other may run.
func (b *bench) karpenterOf(program, kubeconfig string) *operator {
	b.Helper()
	o, err := newOperator(program, b.TempDir(), kubeconfig)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(o.kill)
	b.showLog(o)
	return o
}

// runs starts a Karpenter.
func (b *bench) runs(o *operator) {
	b.Helper()
	if err := o.start(); err != nil {
		b.Fatal(err)
	}
}

// showLog shows the log of a Karpenter if the test fails.
func (b *bench) showLog(o *operator) {
	b.Cleanup(func() {
		if b.Failed() {
			b.Logf("Karpenter:\n%s", o.tail())
		}
	})
}

// required is what a module says about the version of Karpenter.
var required = regexp.MustCompile(`(?m)^\s*sigs\.k8s\.io/karpenter (v\S+)`)

// installing has tests install the CRDs one after the other: each does, because any may be the first.
var installing sync.Mutex

// install installs CRDs, by default those of Karpenter.
func (b *bench) install(definitions ...playground.Manifest) {
	b.Helper()
	installing.Lock()
	defer installing.Unlock()
	if len(definitions) == 0 {
		definitions = b.definitions(currentModule)
	}
	if err := b.Site.InstallDefinitions(b.Context(), definitions); err != nil {
		b.Fatal(err)
	}
	b.Eventually("the kinds are served", func() string { // discovery lags behind
		for _, d := range definitions {
			group, _, _ := unstructured.NestedString(d.Object.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(d.Object.Object, "spec", "names", "kind")
			if _, err := b.RESTMapper().RESTMapping(schema.GroupKind{Group: group, Kind: kind}); err != nil {
				return err.Error()
			}
		}
		return ""
	})
}

// version returns the version of Karpenter that a module requires.
func (b *bench) version(module string) string {
	b.Helper()
	file := filepath.Join("../../peers", module, "go.mod")
	text, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	version := required.FindSubmatch(text)
	if version == nil {
		b.Fatalf("%s does not require Karpenter", file)
	}
	return string(version[1])
}

// source returns the folder with the source of the Karpenter that a module requires.
func (b *bench) source(module string) string {
	b.Helper()
	cache, err := exec.CommandContext(b.Context(), "go", "env", "GOMODCACHE").Output()
	if err != nil {
		b.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(cache)), "sigs.k8s.io/karpenter@"+b.version(module))
}

// definitions reads the CRDs of the Karpenter that a module requires, and of its cloud provider.
func (b *bench) definitions(module string) (all []playground.Manifest) {
	b.Helper()
	source := b.source(module)
	for _, pattern := range []string{"pkg/apis/crds/*.yaml", "kwok/apis/crds/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(source, pattern))
		if err != nil || len(files) == 0 {
			b.Fatal(errors.Join(err, fmt.Errorf("no %s in %s: run make bin/karpenter", pattern, source)))
		}
		for _, file := range files {
			all = append(all, b.manifests(file)...)
		}
	}
	return all
}

// ofVersion returns the definition of NodeClaims as if Karpenter served them in another version only.
func (b *bench) ofVersion(version string) []playground.Manifest {
	b.Helper()
	return b.withVersions(func(known map[string]any) []any {
		known["name"] = version
		return []any{known}
	})
}

// servingOnly returns the definition of NodeClaims as if Karpenter served them in another version only, and existing ones
// are stored in the known one.
func (b *bench) servingOnly(version string) []playground.Manifest {
	b.Helper()
	return b.withVersions(func(known map[string]any) []any {
		other := runtime.DeepCopyJSON(known)
		known["served"], other["name"], other["storage"] = false, version, false
		return []any{known, other}
	})
}

// withVersions returns the definition of NodeClaims with other versions than its own.
func (b *bench) withVersions(of func(own map[string]any) []any) []playground.Manifest {
	b.Helper()
	for _, m := range b.definitions(currentModule) {
		if m.Object.GetName() != "nodeclaims.karpenter.sh" {
			continue
		}
		versions, _, err := unstructured.NestedSlice(m.Object.Object, "spec", "versions")
		if err != nil || len(versions) != 1 {
			b.Fatalf("%d versions, %v", len(versions), err)
		}
		if err := unstructured.SetNestedSlice(m.Object.Object, of(versions[0].(map[string]any)), "spec", "versions"); err != nil {
			b.Fatal(err)
		}
		return []playground.Manifest{m}
	}
	b.Fatal("there is no definition of NodeClaims")
	return nil
}

// manifests reads the objects in a file.
func (b *bench) manifests(file string) []playground.Manifest {
	b.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	found, err := playground.ParseManifests(file, bytes.NewReader(text))
	if err != nil {
		b.Fatal(err)
	}
	return found
}

// instanceTypes returns instance types in the format of the cloud provider, which reserves a part of each.
func instanceTypes(types []machine) (all []any) {
	in := func(key string, values ...string) any {
		return map[string]any{"key": key, "operator": "In", "values": values}
	}
	for _, m := range types {
		var offerings []any
		for _, zone := range []string{"a", "b"} {
			for _, capacity := range []string{"on-demand", "spot"} {
				offerings = append(offerings, map[string]any{
					"Price": 1, "Available": true, "Requirements": []any{in("karpenter.sh/capacity-type", capacity), in(corev1.LabelTopologyZone, zone)},
				})
			}
		}
		all = append(all, map[string]any{
			"name": m.name, "architecture": "amd64", "operatingSystems": []string{"linux"}, "offerings": offerings,
			"resources": map[string]any{"cpu": fmt.Sprintf("%dm", m.cores*1000+100), "memory": fmt.Sprintf("%dMi", m.gib<<10+10), "pods": "110"},
		})
	}
	return all
}
