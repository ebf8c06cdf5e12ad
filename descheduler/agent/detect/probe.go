// Package detect finds out what a node can do for containers that are moved with their state.
package detect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	securejoin "github.com/cyphar/filepath-securejoin"
)

// criuTimeout bounds how long CRIU may take to say its version, or to check the kernel.
const criuTimeout = 20 * time.Second

// Host locates the node's files, as the agent sees them.
type Host struct {
	// Root is the node's root folder; "/" if the agent does not run in a container.
	Root string
	// CRIU is the program. It is searched in Path unless it is an absolute path.
	CRIU string
	// Path is a list of folders of the node, separated by colons.
	Path string
}

// CPUFeatures reads /proc/cpuinfo and returns the features that programs can use on every CPU of
// the node, sorted.
func (h Host) CPUFeatures() ([]string, error) {
	f, err := os.Open(filepath.Join(h.Root, "proc/cpuinfo"))
	if err != nil {
		return nil, fmt.Errorf("read the features of the CPUs: %w", err)
	}
	defer f.Close()
	return parseCPUInfo(f)
}

// parseCPUInfo returns the features that all CPUs have. Linux calls the line "flags" on
// x86 and "Features" on ARM.
func parseCPUInfo(r io.Reader) ([]string, error) {
	var common []string
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for first := true; lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if name = strings.TrimSpace(name); name != "flags" && name != "Features" {
			continue
		}
		features := slices.DeleteFunc(strings.Fields(value), func(f string) bool { return !usable.MatchString(f) })
		slices.Sort(features)
		if first {
			common, first = slices.Compact(features), false
			continue
		}
		common = slices.DeleteFunc(common, func(f string) bool { _, has := slices.BinarySearch(features, f); return !has })
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the features of the CPUs: %w", err)
	}
	return common, nil
}

// usable matches features that a program can detect and use: instructions, and the size of the
// registers that are saved for it. The other x86 flags describe the kernel, the hypervisor and
// bugs, and differ between equivalent machines. On ARM all features are instructions.
var usable = func() *regexp.Regexp {
	if runtime.GOARCH != "amd64" {
		return regexp.MustCompile(`.`)
	}
	return regexp.MustCompile(`^(cx8|cx16|cmov|mmx|mmxext|fxsr|fxsr_opt|sse|sse2|pni|ssse3|sse4_1|sse4_2|sse4a|3dnow|3dnowext|3dnowprefetch|` +
		`pclmulqdq|vpclmulqdq|fma|fma4|movbe|popcnt|aes|vaes|gfni|sha_ni|sha512|sm3|sm4|xsave|xsaveopt|xsavec|xgetbv1|xsaves|avx|avx2|avx_.*|avx512.*|avx10.*|amx_.*|` +
		`f16c|rdrand|rdseed|rdpid|rdtscp|lahf_lm|abm|bmi1|bmi2|erms|fsrm|fzrm|fsrs|fsrc|adx|rtm|hle|clflush|clflushopt|clwb|clzero|cldemote|movdiri|movdir64b|` +
		`fsgsbase|pku|ospke|waitpkg|serialize|user_shstk|mpx|xop|tbm|lwp|mwaitx|tsc|enqcmd|uintr|cmpccxadd|raoint|prefetchi|apx)$`)
}()

// CRIUVersion returns the version of the node's CRIU, such as "4.2.1"; empty if the node has
// none.
func (h Host) CRIUVersion(ctx context.Context) (string, error) {
	program := h.find(h.CRIU)
	if program == "" {
		return "", nil
	}
	output, err := h.run(ctx, program, "--version")
	if err != nil {
		return "", fmt.Errorf("get the version of %s: %w", program, err)
	}
	version := parseCRIUVersion(string(output))
	if version == "" {
		return "", fmt.Errorf("get the version of %s: unknown output %.100q", program, output)
	}
	return version, nil
}

// CheckCRIU runs `criu check`, which tests whether the kernel has all that CRIU needs.
func (h Host) CheckCRIU(ctx context.Context) error {
	output, err := h.run(ctx, h.find(h.CRIU), "check")
	if err != nil && scarce.Match(output) {
		return fmt.Errorf("criu check: %w: %.200s", errScarce, strings.TrimSpace(string(output)))
	}
	if err != nil {
		return fmt.Errorf("criu check: %w: %.200s", err, strings.TrimSpace(string(output)))
	}
	return nil
}

// scarce matches what CRIU prints if the node lacks a resource at the moment, such as instances of
// inotify, which all programs of a user share.
var scarce = regexp.MustCompile(`Too many open files|Cannot allocate memory|Resource temporarily unavailable|No space left on device`)

// errScarce means that a program failed for lack of a resource.
var errScarce = errors.New("the node lacks a resource at the moment")

// Interrupted reports whether a program was stopped before its end, or could not get there for lack
// of a resource. Service managers stop all processes of a service together.
func Interrupted(err error) bool {
	if errors.Is(err, errScarce) {
		return true
	}
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	}
	status, ok := ended.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && slices.Contains([]syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGINT, syscall.SIGHUP}, status.Signal())
}

// run runs a program of the node with the node's root.
func (h Host) run(ctx context.Context, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, criuTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, program, args...)
	command.Dir = "/"
	command.Env = []string{"PATH=" + h.Path}
	if filepath.Clean(h.Root) == "/" {
		return command.CombinedOutput()
	}
	command.Path, command.Err = program, nil // the path is relative to the node's root
	if mounts := h.mounts(); mounts != "" {
		return outputIn(mounts, command)
	}
	command.SysProcAttr = &syscall.SysProcAttr{Chroot: h.Root}
	return command.CombinedOutput()
}

// mounts returns the mount namespace of the node's root, such as /proc/1/ns/mnt for /proc/1/root;
// empty if the root is an ordinary folder. CRIU mounts file systems to check the kernel, which
// the kernel refuses to a process in another mount namespace.
func (h Host) mounts() string {
	process, name := filepath.Split(filepath.Clean(h.Root))
	mounts := filepath.Join(process, "ns", "mnt")
	if _, err := os.Stat(mounts); name != "root" || err != nil {
		return ""
	}
	return mounts
}

// find returns the path of a program on the node; empty if it does not exist.
func (h Host) find(program string) string {
	candidates := []string{program}
	if !filepath.IsAbs(program) {
		candidates = nil
		for _, dir := range filepath.SplitList(h.Path) {
			candidates = append(candidates, filepath.Join(dir, program))
		}
	}
	for _, candidate := range candidates {
		// Symbolic links are resolved from the node's root, not from the agent's.
		path, err := securejoin.SecureJoin(h.Root, candidate)
		if err != nil {
			continue
		}
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return candidate
		}
	}
	return ""
}

var criuVersion = regexp.MustCompile(`(?m)^Version: v?([0-9]+(?:\.[0-9]+)*)`)

// parseCRIUVersion parses the output of `criu --version`.
func parseCRIUVersion(output string) string {
	if found := criuVersion.FindStringSubmatch(output); found != nil {
		return found[1]
	}
	return ""
}

var release = regexp.MustCompile(`^[0-9]+\.[0-9]+`)

// Release returns the part of a kernel's version that determines its features: "6.18" of
// "6.18.0-3-amd64".
func Release(kernel string) string { return release.FindString(kernel) }

// Kernel returns the version of the node's kernel.
func (h Host) Kernel() (string, error) {
	text, err := os.ReadFile(filepath.Join(h.Root, "proc/sys/kernel/osrelease"))
	if err != nil {
		return "", fmt.Errorf("read the version of the kernel: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
