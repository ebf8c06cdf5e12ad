// Package probe finds out what a node can do for containers that are moved with their
// state.
package probe

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

// Host is where the node's files are, seen from the agent.
type Host struct {
	// Root is the node's root folder; "/" if the agent does not run in a container.
	Root string
	// CRIU is the program; looked for in Path if it is no absolute path.
	CRIU string
	// Path are folders of the node, separated by colons.
	Path string
}

// CPUFeatures reads /proc/cpuinfo and returns the features that programs can use on
// every CPU of the node, sorted.
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

// usable matches what a program can find out and use: instructions, and the size of the
// registers that are saved for it. The rest of what Linux lists on x86 is about the
// kernel, the hypervisor and bugs, and differs between machines that are as good as
// each other. On ARM all is about instructions.
var usable = func() *regexp.Regexp {
	if runtime.GOARCH != "amd64" {
		return regexp.MustCompile(`.`)
	}
	return regexp.MustCompile(`^(cx8|cx16|cmov|mmx|mmxext|fxsr|fxsr_opt|sse|sse2|pni|ssse3|sse4_1|sse4_2|sse4a|3dnow|3dnowext|3dnowprefetch|` +
		`pclmulqdq|vpclmulqdq|fma|fma4|movbe|popcnt|aes|vaes|gfni|sha_ni|sha512|sm3|sm4|xsave|xsaveopt|xsavec|xgetbv1|xsaves|avx|avx2|avx_.*|avx512.*|avx10.*|amx_.*|` +
		`f16c|rdrand|rdseed|rdpid|rdtscp|lahf_lm|abm|bmi1|bmi2|erms|fsrm|fzrm|fsrs|fsrc|adx|rtm|hle|clflush|clflushopt|clwb|clzero|cldemote|movdiri|movdir64b|` +
		`fsgsbase|pku|ospke|waitpkg|serialize|user_shstk|mpx|xop|tbm|lwp|mwaitx|tsc|enqcmd|uintr|cmpccxadd|raoint|prefetchi|apx)$`)
}()

// CRIUVersion is the version of the node's CRIU, such as "4.2.1". It is empty if the
// node has none.
func (h Host) CRIUVersion(ctx context.Context) (string, error) {
	program := h.find(h.CRIU)
	if program == "" {
		return "", nil
	}
	output, err := h.run(ctx, program, "--version")
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", program, err)
	}
	version := parseCRIUVersion(string(output))
	if version == "" {
		return "", fmt.Errorf("ask %s for its version: it says %.100q", program, output)
	}
	return version, nil
}

// CheckCRIU asks CRIU whether the kernel has all that it needs.
func (h Host) CheckCRIU(ctx context.Context) error {
	output, err := h.run(ctx, h.find(h.CRIU), "check")
	if err != nil {
		return fmt.Errorf("criu check: %w: %.200s", err, strings.TrimSpace(string(output)))
	}
	return nil
}

// Interrupted reports whether a program of the node did not come to its end because
// somebody stopped it: service managers stop all processes of a service at once.
func Interrupted(err error) bool {
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	}
	status, ok := ended.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && slices.Contains([]syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGINT, syscall.SIGHUP}, status.Signal())
}

// run runs a program of the node, which sees the node's files as its own.
func (h Host) run(ctx context.Context, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, criuTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, program, args...)
	command.Dir = "/"
	command.Env = []string{"PATH=" + h.Path}
	if filepath.Clean(h.Root) == "/" {
		return command.CombinedOutput()
	}
	command.Path, command.Err = program, nil // it is looked for below the root
	if mounts := h.mounts(); mounts != "" {
		return outputIn(mounts, command)
	}
	command.SysProcAttr = &syscall.SysProcAttr{Chroot: h.Root}
	return command.CombinedOutput()
}

// mounts is the mount namespace that the node's root is seen through, as /proc/1/ns/mnt
// is that of /proc/1/root; empty if it is an ordinary folder. CRIU mounts things to find
// out what the kernel can do, which the kernel refuses to who is in another namespace.
func (h Host) mounts() string {
	process, name := filepath.Split(filepath.Clean(h.Root))
	mounts := filepath.Join(process, "ns", "mnt")
	if _, err := os.Stat(mounts); name != "root" || err != nil {
		return ""
	}
	return mounts
}

// find returns where a program is on the node; empty if it is not there.
func (h Host) find(program string) string {
	candidates := []string{program}
	if !filepath.IsAbs(program) {
		candidates = nil
		for _, dir := range filepath.SplitList(h.Path) {
			candidates = append(candidates, filepath.Join(dir, program))
		}
	}
	for _, candidate := range candidates {
		// Links are the node's: they lead from its root, not from ours.
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

// parseCRIUVersion reads what `criu --version` prints.
func parseCRIUVersion(output string) string {
	if found := criuVersion.FindStringSubmatch(output); found != nil {
		return found[1]
	}
	return ""
}

var release = regexp.MustCompile(`^[0-9]+\.[0-9]+`)

// Release is the part of a kernel's version that says what it can do: "6.18" of
// "6.18.0-3-amd64".
func Release(kernel string) string { return release.FindString(kernel) }

// Kernel is the version of the node's kernel.
func (h Host) Kernel() (string, error) {
	text, err := os.ReadFile(filepath.Join(h.Root, "proc/sys/kernel/osrelease"))
	if err != nil {
		return "", fmt.Errorf("read the version of the kernel: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
