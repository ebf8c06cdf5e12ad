package main

import (
	"cmp"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// suite is the import path that the overlay gives the suite.
const suite = module + "/" + virtualDir + "/" + suiteDir

//go:embed differences.yaml
var committed []byte

func main() {
	var r runner
	packages := flag.String("packages", ".", "regular expression of the suite's packages to run, relative to it")
	flag.StringVar(&r.only, "run", "", "regular expression of the tests to run; listed differences that did not come are then no fault")
	flag.StringVar(&r.dir, "out", "dist/conformance", "folder for the overlay, test programs and logs")
	flag.StringVar(&r.ldflags, "ldflags", "-s -w", "flags for the linker of the test programs")
	flag.BoolVar(&r.reuse, "reuse", false, "keep test programs in -out, and do not build those that are there")
	flag.DurationVar(&r.timeout, "timeout", 40*time.Minute, "the longest that one package may take")
	prefix := flag.String("exec", "", "a command that runs the test programs, as of go test -exec")
	flag.Parse()
	r.exec = strings.Fields(*prefix)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := r.run(ctx, *packages)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// runner builds and runs the suite's packages, one after the other.
type runner struct {
	only    string // regular expression of tests, or ""
	dir     string
	ldflags string
	reuse   bool
	exec    []string
	timeout time.Duration

	sources []string // environment with which test programs find their sources; see sourcesEnv
	overlay string   // path of go's overlay file
	modfile string   // path of a go.mod that the go command may change
	list    *list
}

// testPackage is a package of the suite that has tests.
type testPackage struct {
	name string // relative to the suite: "preemption/misc"; "." is the suite itself
	path string // its import path
	dir  string // where its sources are, and where its tests run
}

// fileName returns the package's name as used in file names.
func (p testPackage) fileName() string {
	return strings.NewReplacer("/", "-", ".", "suite").Replace(p.name)
}

// run returns whether Supercargo differs from the stock scheduler exactly where the list says so.
func (r *runner) run(ctx context.Context, packages string) (bool, error) {
	wanted, err := regexp.Compile(packages)
	if err != nil {
		return false, fmt.Errorf("read -packages: %w", err)
	}
	if r.list, err = readList(committed); err != nil {
		return false, err
	}
	if _, err := exec.LookPath("etcd"); err != nil {
		return false, fmt.Errorf("find etcd, which Kubernetes' tests start: %w; build it with make bin/tools/etcd and put that folder on PATH", err)
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return false, err
	}
	found, err := goCommand(ctx, "list", "-m", "-f", "{{.Version}} {{.Dir}}", kubernetes)
	if err != nil {
		return false, fmt.Errorf("find Kubernetes' sources: %w", err)
	}
	version, sources, _ := strings.Cut(strings.TrimSpace(found), " ")
	root, err := goCommand(ctx, "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return false, fmt.Errorf("find the root of this module: %w", err)
	}
	cache, err := goCommand(ctx, "env", "GOMODCACHE")
	if err != nil {
		return false, fmt.Errorf("find the module cache: %w", err)
	}
	r.sources = sourcesEnv(strings.TrimSpace(cache))
	if r.dir, err = filepath.Abs(r.dir); err != nil {
		return false, err
	}
	root = strings.TrimSpace(root)
	if r.overlay, err = writeOverlay(sources, root, filepath.Join(r.dir, "overlay")); err != nil {
		return false, err
	}
	if r.modfile, err = copyModule(root, r.dir); err != nil {
		return false, err
	}
	all, err := r.testPackages(ctx, sources)
	if err != nil {
		return false, err
	}
	fmt.Printf("Kubernetes %s: scheduler integration suite, Supercargo's default profile against the stock one\n", version)
	var report report
	for _, p := range all {
		if !wanted.MatchString(p.name) {
			continue
		}
		if err := r.runPackage(ctx, p, &report); err != nil {
			return false, err
		}
	}
	report.judge(r.list, r.only == "")
	report.print(os.Stdout)
	return report.ok(), nil
}

// sourcesEnv returns the environment with which Kubernetes' tests find files beside their sources. Programs are built
// with -trimpath, so they know their sources relative to the module cache. The variables are Bazel's.
func sourcesEnv(moduleCache string) []string {
	return []string{"TEST_SRCDIR=" + filepath.Dir(moduleCache), "TEST_WORKSPACE=" + filepath.Base(moduleCache)}
}

// testPackages returns the suite's packages that have tests, sorted by name.
func (r *runner) testPackages(ctx context.Context, sources string) ([]testPackage, error) {
	text, err := goCommand(ctx, "list", "-mod=mod", "-modfile", r.modfile, "-overlay", r.overlay, "-f", "{{if .TestGoFiles}}{{.ImportPath}}{{end}}", suite+"/...")
	if err != nil {
		return nil, fmt.Errorf("list the suite's packages: %w", err)
	}
	var all []testPackage
	for line := range strings.Lines(text) {
		path := strings.TrimSpace(line)
		if path == "" {
			continue
		}
		name := strings.TrimPrefix(strings.TrimPrefix(path, suite), "/")
		all = append(all, testPackage{name: cmp.Or(name, "."), path: path, dir: filepath.Join(sources, suiteDir, filepath.FromSlash(name))})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("list the suite's packages: there is none below %s", suite)
	}
	return all, nil
}

// runPackage runs a package's tests with Supercargo. It then runs the failed ones once more, and with the
// stock scheduler.
func (r *runner) runPackage(ctx context.Context, p testPackage, report *report) error {
	skipped, whole := r.list.excluded(p.name)
	if whole {
		fmt.Printf("%-32s excluded\n", p.name)
		return nil
	}
	program, err := r.build(ctx, p)
	if err != nil {
		return err
	}
	if !r.reuse {
		defer func() { _ = os.Remove(program) }() // some hundred MB each; a leftover is overwritten by the next run
	}
	begin := time.Now()
	first, err := r.test(ctx, p, program, testRun{scheduler: schedulerSupercargo, log: "first", run: r.only, skip: skipped})
	if err != nil {
		return err
	}
	fmt.Printf("%-32s %3d passed, %d failed, %v\n", p.name, first.passed(), len(first.failed()), time.Since(begin).Round(time.Second))
	if len(first.failed()) == 0 {
		report.add(p.name, first, nil, nil)
		return nil
	}
	again := testRun{run: topLevel(first.failed(), r.only), skip: skipped}
	again.scheduler, again.log = schedulerSupercargo, "second"
	second, err := r.test(ctx, p, program, again)
	if err != nil {
		return err
	}
	again.scheduler, again.log = schedulerStock, "stock"
	stock, err := r.test(ctx, p, program, again)
	if err != nil {
		return err
	}
	fmt.Printf("%-32s of these once more: %d failed with Supercargo, %d with the stock scheduler\n", "", len(second.failed()), len(stock.failed()))
	report.add(p.name, first, second, stock)
	return nil
}

func (r *runner) build(ctx context.Context, p testPackage) (string, error) {
	program := filepath.Join(r.dir, p.fileName()+".test")
	if _, err := os.Stat(program); r.reuse && err == nil {
		return program, nil
	}
	fmt.Printf("%-32s building\n", p.name)
	_, err := goCommand(ctx, "test", "-c", "-trimpath", "-vet=off", "-mod=mod", "-modfile", r.modfile, "-overlay", r.overlay, "-ldflags", r.ldflags, "-o", program, p.path)
	if err != nil {
		return "", fmt.Errorf("build the tests of %s: %w", p.path, err)
	}
	return program, nil
}

// copyModule copies this module's go.mod and go.sum into dir, and returns the path of the copied go.mod. The
// suite imports directly what this module needs only indirectly. The go command first writes this into
// go.mod.
func copyModule(root, dir string) (string, error) {
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "go.mod"), nil
}

// goCommand runs the go command and returns its output. Its errors include the standard error.
func goCommand(ctx context.Context, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "go", args...)
	var complaints strings.Builder
	c.Stderr = &complaints
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, complaints.String())
	}
	return string(out), nil
}
