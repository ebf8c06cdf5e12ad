// Package cli tests `supercargo playground` as a process: its output, what it leaves behind, and its exit
// codes. The test binary runs as supercargo when an environment variable is set.
package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	laboratory "supercargo.dev/supercargo/cmd/supercargo-lab/cli"
	"supercargo.dev/supercargo/cmd/supercargo/cli"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit/testfile"
	"supercargo.dev/supercargo/test/kit/testwait"
)

// patience is how long a test waits for something that takes seconds on an idle
// machine.
const patience = 2 * time.Minute

// withoutClusterAPI makes a playground start faster.
const withoutClusterAPI = "--cluster-api=false"

// runAs is the environment variable that makes this test binary run as supercargo or supercargo-lab.
const runAs = "SUPERCARGO_TEST_RUN_AS_CLI"

// Exit codes of supercargo.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func TestMain(m *testing.M) {
	switch os.Getenv(runAs) {
	case "supercargo":
		os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
	case "supercargo-lab":
		os.Exit(laboratory.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := testfile.New(t, "input.yaml", content)
	return path
}

// process is this test binary, running as `supercargo playground`.
type process struct {
	cmd    *exec.Cmd
	lines  chan string   // of stdout
	ended  chan struct{} // closed when it has been reaped
	stderr bytes.Buffer  // may be read once it has ended
}

// startPlayground runs `supercargo playground` with its temporary files in tmp.
func startPlayground(t *testing.T, tmp string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// As a command it does not search the source tree.
	kwok, err := playground.FindKwok("")
	if err != nil {
		t.Fatal(err)
	}
	clusterAPI, err := playground.FindClusterAPI("")
	if err != nil {
		t.Fatal(err)
	}
	p := &process{
		cmd:   exec.Command(self, append([]string{"playground"}, args...)...),
		lines: make(chan string, 100),
		ended: make(chan struct{}),
	}
	p.cmd.Env = append(os.Environ(), runAs+"=supercargo-lab", "TMPDIR="+tmp, playground.KwokEnv+"="+kwok, playground.ClusterAPIEnv+"="+clusterAPI)
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
		close(p.lines)
		_ = p.cmd.Wait() // seen in its ProcessState
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // in case it is still running
		<-p.ended
		if t.Failed() {
			t.Logf("stderr of supercargo playground %v:\n%s", args, p.stderr.String())
		}
	})
	return p
}

// awaitReady returns the path of the kubeconfig once the process is ready.
func (p *process) awaitReady(t *testing.T) string {
	t.Helper()
	deadline := time.After(patience)
	var kubeconfig string
	for {
		select {
		case line, ok := <-p.lines:
			switch {
			case !ok:
				t.Fatal("it ended before it was ready")
			case line == "ready":
				return kubeconfig
			default:
				kubeconfig = line
			}
		case <-deadline:
			t.Fatalf("not ready after %v", patience)
		}
	}
}

// stop sends a signal and returns the exit code.
func (p *process) stop(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	return p.exitCode(t)
}

func (p *process) exitCode(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		t.Fatalf("still running after %v", patience)
		return -1
	}
}

// using returns the processes that have path on their command line: kwok and cluster-api get the directory of
// their playground as an argument.
func using(t *testing.T, path string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && bytes.Contains(data, []byte(path)) {
			pid, err := strconv.Atoi(strings.Split(file, "/")[2])
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v (%v)", entries, err)
	}
}

func TestSignalsEndAPlaygroundCleanly(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			tmp := t.TempDir()
			p := startPlayground(t, tmp, "--nodes", "2")
			p.awaitReady(t)
			if n := len(using(t, tmp)); n != 2 {
				t.Errorf("%d processes use %s, want kwok and cluster-api", n, tmp)
			}
			if code := p.stop(t, signal); code != exitOK || p.stderr.Len() > 0 {
				t.Errorf("exit code %d, stderr %q, want 0 and nothing", code, p.stderr.String())
			}
			if pids := using(t, tmp); len(pids) > 0 {
				t.Errorf("processes %v still run", pids)
			}
			wantEmpty(t, tmp)
		})
	}
}

func TestNoChildOutlivesAKilledPlayground(t *testing.T) {
	tmp := t.TempDir()
	p := startPlayground(t, tmp)
	p.awaitReady(t)
	if n := len(using(t, tmp)); n != 2 {
		t.Fatalf("%d processes use %s, want kwok and cluster-api", n, tmp)
	}
	p.stop(t, syscall.SIGKILL)
	testwait.Until(t, patience, "nothing runs after the playground was killed", func() string {
		if left := using(t, tmp); len(left) > 0 {
			return fmt.Sprint(left)
		}
		return ""
	})
}

func TestPlaygroundsInTwoProcessesDoNotMeet(t *testing.T) {
	tmp := t.TempDir()
	first := startPlayground(t, tmp, "--nodes", "1", withoutClusterAPI)
	second := startPlayground(t, tmp, "--nodes", "2", withoutClusterAPI)
	for i, p := range []*process{first, second} {
		config, err := clientcmd.BuildConfigFromFlags("", p.awaitReady(t))
		if err != nil {
			t.Fatal(err)
		}
		nodes, err := kubernetes.NewForConfigOrDie(config).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil || len(nodes.Items) != i+1 {
			t.Errorf("playground %d has %d nodes (%v), want %d", i, len(nodes.Items), err, i+1)
		}
	}
	for _, p := range []*process{first, second} {
		if code := p.stop(t, syscall.SIGTERM); code != exitOK {
			t.Errorf("exit code %d, want 0", code)
		}
	}
	wantEmpty(t, tmp)
}

func TestAWorkloadIsThereWhenThePlaygroundIsReady(t *testing.T) {
	workload := writeFile(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n")
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	p := startPlayground(t, t.TempDir(), "--workload", workload, "--kubeconfig", kubeconfig, withoutClusterAPI)
	if got := p.awaitReady(t); got != kubeconfig {
		t.Errorf("it printed %q, want %q", got, kubeconfig)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(metav1.NamespaceDefault)
	if _, err := maps.Get(t.Context(), "settings", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if code := p.stop(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d, want 0", code)
	}
}

func TestWhatTheClusterRefusesExitsWithTwo(t *testing.T) {
	for _, tc := range []struct {
		name, flag, content string
		says                []string
	}{
		{
			"an object it does not know", "-f",
			"apiVersion: example.org/v1\nkind: Nothing\nmetadata: {name: x}\n",
			[]string{"document 1", "Nothing"},
		},
		{
			"a plugin it does not have", "--scheduler-config",
			"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" +
				"profiles: [{plugins: {score: {enabled: [{name: NoSuchPlugin}]}}}]\n",
			[]string{"NoSuchPlugin"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tmp := t.TempDir()
			file := writeFile(t, tc.content)
			p := startPlayground(t, tmp, tc.flag, file, withoutClusterAPI)
			if code := p.exitCode(t); code != exitUsage {
				t.Errorf("exit code %d, want %d", code, exitUsage)
			}
			for _, says := range append(tc.says, tc.flag, file) {
				if !strings.Contains(p.stderr.String(), says) {
					t.Errorf("stderr is %q, want it to mention %q", p.stderr.String(), says)
				}
			}
			wantEmpty(t, tmp)
		})
	}
}

func TestAPlaygroundThatLosesAComponentExitsWithOne(t *testing.T) {
	tmp := t.TempDir()
	p := startPlayground(t, tmp, withoutClusterAPI)
	p.awaitReady(t)
	for _, pid := range using(t, tmp) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if code := p.exitCode(t); code != exitFailed || !strings.Contains(p.stderr.String(), "kwok") {
		t.Errorf("exit code %d, stderr %q, want %d and kwok to blame", code, p.stderr.String(), exitFailed)
	}
	wantEmpty(t, tmp)
}

func TestFlavorsAreMachineDeploymentsWhenThePlaygroundIsReady(t *testing.T) {
	file := writeFile(t, "name,cpu,memory_gib,price_per_hour\nm1.medium,2,8,0.5\nm1.large,4,16,1\n")
	p := startPlayground(t, t.TempDir(), "--flavors", file)
	config, err := clientcmd.BuildConfigFromFlags("", p.awaitReady(t))
	if err != nil {
		t.Fatal(err)
	}
	list, err := dynamic.NewForConfigOrDie(config).
		Resource(schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machinedeployments"}).
		Namespace(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, item := range list.Items {
		if replicas, has, err := unstructured.NestedInt64(item.Object, "spec", "replicas"); err != nil || !has || replicas != 0 {
			t.Errorf("%s has %d replicas (%v), want 0", item.GetName(), replicas, err)
		}
		got[item.GetName()] = item.GetAnnotations()["supercargo.dev/price-per-hour"]
	}
	if diff := cmp.Diff(map[string]string{"m1.medium": "0.50", "m1.large": "1.00"}, got); diff != "" {
		t.Errorf("prices (-want +got):\n%s", diff)
	}
	if code := p.stop(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d, want 0", code)
	}
}
