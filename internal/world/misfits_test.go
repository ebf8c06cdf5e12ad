package world

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/internal/cluster"
)

// Messages of runtimes about pulls, as reported by kubelets.
var pulls = map[string]struct {
	message string
	lacks   bool
}{
	"containerd": {`rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/acme/operator:v2.6.0": no match for platform in manifest: not found`, true},
	"containerd, with the digest": {`failed to pull and unpack image "public.ecr.aws/acme/gpu:2.33": no match for platform in manifest ` +
		`sha256:b9ab2c28208d75a75807445d4c370801da3992817325cc349764ad740abe40a6: not found`, true},
	"a kubelet that backs off since 1.33": {`Back-off pulling image "acme/operator:v2.6.0": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image ` +
		`"docker.io/acme/operator:v2.6.0": no match for platform in manifest: not found`, true},
	"CRI-O 1.20":                           {`rpc error: code = Unknown desc = Error choosing image instance: no image found in manifest list for architecture arm64, variant v8, OS linux`, true},
	"CRI-O 1.25":                           {`rpc error: code = Unknown desc = choosing image instance: no image found in manifest list for architecture arm64, variant "v8", OS linux`, true},
	"CRI-O 1.30":                           {`copying system image from manifest list: choosing image instance: no image found in image index for architecture "arm64", variant "v8", OS "linux"`, true},
	"Docker":                               {`rpc error: code = Unknown desc = no matching manifest for linux/arm64/v8 in the manifest list entries`, true},
	"Docker with containerd's image store": {`Error response from daemon: no matching manifest for linux/arm64/v8 in the manifest list entries: no match for platform in manifest: not found`, true},
	"Docker of 2018":                       {`rpc error: code = Unknown desc = no supported platform found in manifest list`, true},

	"a kubelet that backs off before 1.33": {`Back-off pulling image "acme/operator:v2.6.0"`, false},
	"a tag that there is not":              {`rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/acme/operator:v9": failed to resolve reference "docker.io/acme/operator:v9": docker.io/acme/operator:v9: not found`, false},
	"a manifest that there is not":         {`rpc error: code = Unknown desc = reading manifest v9 in quay.io/acme/operator: manifest unknown: manifest unknown`, false},
	"no right to pull":                     {`failed to authorize: failed to fetch oauth token: unexpected status: 401 Unauthorized`, false},
	"too many pulls":                       {`toomanyrequests: You have reached your pull rate limit`, false},
	"a full disk":                          {`failed to extract layer sha256:0ef4: write /var/lib/containerd/tmp: no space left on device`, false},
	"nothing":                              {``, false},
}

// Messages about programs that cannot be run, by sender.
var crashes = map[string]struct {
	message              string
	byContainer, runtime bool
}{
	"runc, in the container's log":       {"exec /bin/sh: exec format error\n", true, true},
	"runc 1.0, in the container's log":   {`standard_init_linux.go:228: exec user process caused: exec format error`, true, true},
	"runc of 2019":                       {`standard_init_linux.go:211: exec user process caused "exec format error"`, true, true},
	"crun, in the container's log":       {"{\"msg\":\"exec container process `/usr/bin/bash`: Exec format error\",\"level\":\"error\",\"time\":\"2025-12-04T15:15:35.826445Z\"}", true, true},
	"crun without more":                  {"{\"msg\":\"exec container process /bin/sh: Exec format error\",\"level\":\"error\"}", true, true},
	"runc, as containerd reports it":     {`failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "/app/server": exec format error: unknown`, true, true},
	"gVisor":                             {`OCI runtime start failed: starting container: starting root container: starting sandbox: creating process: failed to load /app/server: exec format error: unknown.`, true, true},
	"something in Rust":                  {`failed to spawn command: docker-entrypoint.sh: Exec format error (os error 8)`, true, true},
	"a shell that is to run the program": {`/entrypoint.sh: line 4: /app/server: cannot execute binary file: Exec format error`, true, true},

	"a program in Go that is to run another": {`run plugin: fork/exec /plugins/a: exec format error`, true, false},
	"a node whose runc is broken":            {`OCI runtime create failed: unable to retrieve OCI runtime error (open /run/log.json: no such file or directory): fork/exec /usr/local/sbin/runc: exec format error: unknown`, true, false},
	"a node whose hook is broken":            {`OCI runtime create failed: error executing hook /usr/bin/toolkit (exit code: 1): exec format error`, true, false},

	"a log of several lines":             {"reading configuration\nexec /plugins/a: exec format error", false, false},
	"a program that is named like that":  {`exec: "/exec format error": stat /exec format error: no such file or directory: unknown`, false, false},
	"a program that there is not":        {`failed to create containerd task: exec: "xx": executable file not found in $PATH: unknown`, false, false},
	"a log in JSON that mentions it":     {`{"msg":"skip plugin: exec format error","level":"error"}`, false, false},
	"a program that repeats it":          {`exec format error in plugin a, continuing without`, false, false},
	"a program that is not to be run":    {`exec /app/server: permission denied`, false, false},
	"nothing":                            {"", false, false},
	"a name in the place of the message": {"{\"msg\":\"exec container process `/a\": exec format error\"}", false, false},
}

func TestRuntimesSayInTheirWordsThatAnImageHasNoVariantForTheNode(t *testing.T) {
	for name, tc := range pulls {
		for _, reason := range []string{"ErrImagePull", "ImagePullBackOff"} {
			if _, is := misfitOf(podOf("a:1"), "a:1", waitsFor(reason, tc.message), noon); is != tc.lacks {
				t.Errorf("%s: %s shows that the image has no variant: %v, want %v", name, reason, is, tc.lacks)
			}
		}
		// Such messages contain parts of the pod's spec, such as a directory.
		for _, reason := range []string{"CreateContainerError", "CrashLoopBackOff", "PostStartHookError", "ContainerCreating"} {
			if _, is := misfitOf(podOf("a:1"), "a:1", waitsFor(reason, tc.message), noon); is {
				t.Errorf("%s: %s is trusted to be about a pull", name, reason)
			}
		}
	}
}

func TestRuntimesAndContainersSayInTheirWordsThatAProgramIsOfAnotherArchitecture(t *testing.T) {
	for name, tc := range crashes {
		for by, want := range map[string]bool{"Error": tc.byContainer, "StartError": tc.runtime, "ContainerCannotRun": tc.runtime, "OOMKilled": false} {
			m, is := misfitOf(podOf("a:1"), "a:1", &corev1.ContainerStatus{State: endedFor(by, tc.message, noon.Add(-minute))}, noon)
			if is != want || is && (!m.Crashed || !m.At.Equal(noon.Add(-minute))) {
				t.Errorf("%s: a container that ended for %s shows it: %v (%+v), want %v", name, by, is, m, want)
			}
			crashing := waitsFor("CrashLoopBackOff", "back-off 5m0s restarting failed container=main pod=a")
			crashing.LastTerminationState = endedFor(by, tc.message, noon.Add(-minute))
			if _, is := misfitOf(podOf("a:1"), "a:1", crashing, noon); is != want {
				t.Errorf("%s: a container that is to be started again after it ended for %s shows it: %v, want %v", name, by, is, want)
			}
		}
		for _, reason := range []string{"RunContainerError", "CreateContainerError"} {
			if _, is := misfitOf(podOf("a:1"), "a:1", waitsFor(reason, tc.message), noon); is != tc.runtime {
				t.Errorf("%s: %s shows it: %v, want %v", name, reason, is, tc.runtime)
			}
		}
		ended := endedFor("Completed", tc.message, noon)
		ended.Terminated.ExitCode = 0
		if _, is := misfitOf(podOf("a:1"), "a:1", &corev1.ContainerStatus{State: ended}, noon); is {
			t.Errorf("%s: a container that did what it was to do shows that it did not run", name)
		}
	}
}

func FuzzMessages(f *testing.F) {
	for _, tc := range pulls {
		f.Add(tc.message)
	}
	for _, tc := range crashes {
		f.Add(tc.message)
	}
	f.Fuzz(func(t *testing.T, message string) {
		container, runtime := notExecutable(message, false), notExecutable(message, true)
		if runtime && !container {
			t.Error("a runtime is trusted more than a container")
		}
		lower := strings.ToLower(message)
		if container && (!strings.Contains(lower, "exec format error") || strings.Contains(strings.TrimSpace(message), "\n")) {
			t.Error("a message is trusted that says something else, or more")
		}
		if container && notExecutable(message+" x", false) && !strings.HasPrefix(strings.TrimSpace(lower), "{") && !strings.Contains(lower, "exec format error x") {
			t.Error("a message is trusted that continues")
		}
		if lacksPlatform(message) != lacksPlatform(strings.ToUpper(message)) && strings.ToLower(strings.ToUpper(message)) == lower {
			t.Error("large letters change what is said")
		}
	})
}

const minute = time.Minute

func podOf(images ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"}, Spec: corev1.PodSpec{NodeName: "n"}}
	for i, image := range images {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: string(rune('a' + i)), Image: image})
	}
	return p
}

func waitsFor(reason, message string) *corev1.ContainerStatus {
	return &corev1.ContainerStatus{Name: "a", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

func endedFor(reason, message string, at time.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, Message: message, ExitCode: 1, FinishedAt: metav1.NewTime(at)}}
}

func runsFor(d time.Duration) corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(-d))}}
}

func nodeOf(name, os, arch string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: os, corev1.LabelArchStable: arch}}}
}

const pullFails = `failed to pull and unpack image "docker.io/acme/a:1": no match for platform in manifest: not found`

// sees formats what a pod on an arm64 node shows.
func sees(pod *corev1.Pod) (misfits, runs []string) {
	w := &World{Nodes: map[string]*corev1.Node{"n": nodeOf("n", "linux", "arm64")}, Pods: []*corev1.Pod{pod}}
	found, ran := w.Misfits(noon)
	misfits, runs = []string{}, []string{}
	for _, m := range found {
		misfits = append(misfits, m.Image+" on "+m.Arch+" in "+m.Namespace)
	}
	for on := range ran {
		runs = append(runs, on.Image+" on "+on.Arch)
	}
	return misfits, runs
}

func TestAPodShowsWhichOfItsImagesDoNotRunOnItsNode(t *testing.T) {
	failing := waitsFor("ErrImagePull", pullFails).State
	for name, tc := range map[string]struct {
		pod           *corev1.Pod
		misfits, runs []string
	}{
		"one image":         {with(podOf("acme/a:1"), failing), []string{"acme/a:1 on arm64 in shop"}, nil},
		"the second of two": {with(podOf("b", "acme/a:1"), runsFor(minute), failing), []string{"acme/a:1 on arm64 in shop"}, []string{"b on arm64"}},
		"that of an init container": {func() *corev1.Pod {
			p := podOf("b")
			p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "acme/a:1"}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "first", State: failing}}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{*waitsFor("PodInitializing", "")}
			return p
		}(), []string{"acme/a:1 on arm64 in shop"}, nil},
		"none, since it has yet to begin":                {podOf("acme/a:1"), nil, nil},
		"none, since it runs":                            {with(podOf("b"), runsFor(10*time.Second)), nil, []string{"b on arm64"}},
		"none, and whether it runs is not known so soon": {with(podOf("b"), runsFor(9*time.Second)), nil, nil},
		"none, since it has run": {with(podOf("b"), func() corev1.ContainerState {
			s := endedFor("Completed", "", noon)
			s.Terminated.ExitCode = 0
			return s
		}()), nil, []string{"b on arm64"}},
		"none, since it failed for another reason": {with(podOf("b"), endedFor("Error", "no such table", noon)), nil, nil},
		"none that is known by its name in the spec": {func() *corev1.Pod {
			p := with(podOf("b"), failing)
			p.Status.ContainerStatuses[0].Name = "debugger"
			return p
		}(), nil, nil},
		"what runs again, and did not before": {func() *corev1.Pod {
			p := with(podOf("b"), runsFor(minute))
			p.Status.ContainerStatuses[0].LastTerminationState = endedFor("Error", "exec /b: exec format error", noon.Add(-2*minute))
			return p
		}(), []string{"b on arm64 in shop"}, nil},
	} {
		misfits, runs := sees(tc.pod)
		if diff := cmp.Diff(append([]string{}, tc.misfits...), misfits) + cmp.Diff(append([]string{}, tc.runs...), runs); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// with sets the states of a pod's containers.
func with(p *corev1.Pod, states ...corev1.ContainerState) *corev1.Pod {
	for i, s := range states {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: p.Spec.Containers[i].Name, State: s})
	}
	return p
}

func TestOnlyLinuxNodesTellWhichImagesDoNotRunOnTheirArchitecture(t *testing.T) {
	pod := with(podOf("acme/a:1"), waitsFor("ErrImagePull", pullFails).State)
	for name, node := range map[string]*corev1.Node{
		"a node with Windows, which has images of its own": nodeOf("n", "windows", "amd64"),
		"a node whose architecture is not known":           nodeOf("n", "linux", ""),
		"another node":                                     nodeOf("m", "linux", "arm64"),
	} {
		w := &World{Nodes: map[string]*corev1.Node{node.Name: node}, Pods: []*corev1.Pod{pod}}
		if misfits, runs := w.Misfits(noon); len(misfits)+len(runs) > 0 {
			t.Errorf("%s tells %v and %v", name, misfits, runs)
		}
	}
}

func TestAnImageThatIsMountedIsNotTakenForThatOfAContainer(t *testing.T) {
	pod := with(podOf("acme/main:1"), waitsFor("ErrImagePull", pullFails).State)
	pod.Spec.Volumes = []corev1.Volume{{Name: "model", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "acme/a:1"}}}}
	if misfits, _ := sees(pod); len(misfits) > 0 {
		t.Errorf("a pull of the mounted image shows %v", misfits)
	}
	pod.Spec.Containers[0].Image = "acme/a:1"
	if misfits, _ := sees(pod); len(misfits) != 1 {
		t.Errorf("a pull of the container's image shows %v", misfits)
	}
}

func TestPodsThatHaveFailedShowItToo(t *testing.T) {
	failed := with(podOf("acme/a:1"), endedFor("Error", "exec /a: exec format error", noon.Add(-minute)))
	failed.Status.Phase = corev1.PodFailed
	w, err := Read(t.Context(), listing{nodes: []corev1.Node{*nodeOf("n", "linux", "arm64")}, pods: []corev1.Pod{*failed}}, false)
	if err != nil {
		t.Fatal(err)
	}
	misfits, _ := w.Misfits(noon)
	want := []cluster.Misfit{{
		Platform: cluster.Platform{Image: "acme/a:1", Arch: "arm64"}, Namespace: "shop", Pod: "shop/p", Node: "n", Crashed: true, At: noon.Add(-minute),
	}}
	if diff := cmp.Diff(want, misfits); diff != "" || len(w.Pods) != 0 {
		t.Errorf("%d pods are there, and shown is (-want +got):\n%s", len(w.Pods), diff)
	}
}

// listing is an API server with only nodes and pods.
type listing struct {
	client.Reader
	nodes []corev1.Node
	pods  []corev1.Pod
}

func (l listing) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *corev1.NodeList:
		list.Items = l.nodes
	case *corev1.PodList:
		list.Items = l.pods
	}
	return nil
}

// TestAListThatItsReaderSharesIsNotChanged reads a list twice, in which some pods have finished.
func TestAListThatItsReaderSharesIsNotChanged(t *testing.T) {
	shared := listing{pods: make([]corev1.Pod, 4)}
	for i, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodRunning, corev1.PodFailed, corev1.PodPending} {
		shared.pods[i].Name, shared.pods[i].Status.Phase = string(phase), phase
	}
	for range 2 {
		w, err := Read(t.Context(), shared, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(w.Pods) != 2 || w.Pods[0].Name != "Running" || w.Pods[1].Name != "Pending" || len(w.failed) != 1 || w.failed[0].Name != "Failed" {
			t.Errorf("pods %v, failed %v", w.Pods, w.failed)
		}
	}
}

func TestAPodBeginsToShowItOnce(t *testing.T) {
	before, after := podOf("acme/a:1"), with(podOf("acme/a:1"), waitsFor("ErrImagePull", pullFails).State)
	if !BecameMisfit(before, after) {
		t.Error("a pull that fails is not seen")
	}
	if BecameMisfit(after, after) || BecameMisfit(after, before) || BecameMisfit(before, before) {
		t.Error("a pod that has shown it before, or does not show it, is seen")
	}
}

// BenchmarkMisfits checks the statuses of 100,000 pods with two containers on 5,000 nodes, as each round of a fleet
// does.
func BenchmarkMisfits(b *testing.B) {
	w := &World{Nodes: map[string]*corev1.Node{}}
	for i := range 5_000 {
		name := fmt.Sprint("node-", i)
		w.Nodes[name] = nodeOf(name, "linux", "amd64")
	}
	for i := range 100_000 {
		pod := with(podOf(fmt.Sprint("app-", i%500), "sidecar"), runsFor(time.Hour), runsFor(time.Hour))
		pod.Spec.NodeName = fmt.Sprint("node-", i%5_000)
		w.Pods = append(w.Pods, pod)
	}
	for b.Loop() {
		if misfits, runs := w.Misfits(noon); len(misfits) > 0 || len(runs) != 501 {
			b.Fatalf("%d images do not run, %d do; want none and 501", len(misfits), len(runs))
		}
	}
}
