//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// TestSecondSchedulerHasTheRightsItNeeds installs manifests/scheduler/second and runs kube-scheduler with its
// configuration, as its service account: with a missing permission, a pod stays pending.
func TestSecondSchedulerHasTheRightsItNeeds(t *testing.T) {
	dir := t.TempDir()
	manifests := filepath.Join(dir, "second.yaml")
	built, err := exec.Command(binary(t, "tools/kustomize"), "build", "../../manifests/scheduler/second").Output()
	if err != nil {
		t.Fatalf("kustomize build: %v", err)
	}
	writeFile(t, manifests, built)
	admin := filepath.Join(dir, "admin.kubeconfig")
	playground := start(t, "supercargo", "playground", "--nodes", "3", "--kubeconfig", admin, "--workload", manifests)
	playground.waitLine(t, "ready", startTimeout)
	ctx, cancel := context.WithTimeout(t.Context(), podTimeout)
	defer cancel()
	client := connect(t, admin)

	scheduler, port := startSecondScheduler(ctx, t, client, admin)
	waitReady(ctx, t, port)
	job := batchJob(3)
	job.Spec.Template.Spec.SchedulerName = "batch-packing"
	if _, err := client.BatchV1().Jobs("default").Create(ctx, job, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create Job: %v", err)
	}
	web := webDeployment(2)
	web.Spec.Template.Spec.SchedulerName = "service-packing"
	if _, err := client.AppsV1().Deployments("default").Create(ctx, web, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create Deployment: %v", err)
	}
	waitStarted(ctx, t, client, "app=batch", 3)
	waitStarted(ctx, t, client, "app=web", 2)

	pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=batch"})
	if err != nil {
		t.Fatalf("list pods: %v", err)
	}
	for _, pod := range pods.Items {
		if pod.Annotations[v1alpha1.AnnotationExpectedFinish] == "" {
			t.Errorf("batch pod %s has no %s annotation", pod.Name, v1alpha1.AnnotationExpectedFinish)
		}
	}
	if _, err := client.CoordinationV1().Leases("kube-system").Get(ctx, "supercargo-scheduler", metav1.GetOptions{}); err != nil {
		t.Errorf("get the scheduler's own lease: %v", err)
	}
	scheduler.stop(t, syscall.SIGTERM)
	scheduler.mu.Lock()
	defer scheduler.mu.Unlock()
	for line := range strings.Lines(scheduler.stderr.String()) {
		if strings.Contains(strings.ToLower(line), "forbidden") {
			t.Errorf("the scheduler lacks a right: %s", line)
		}
	}
	playground.stop(t, syscall.SIGTERM)
}

// startSecondScheduler runs kube-scheduler with the configuration of the second scheduler, except that it
// uses a kubeconfig, because it does not run in a pod.
func startSecondScheduler(ctx context.Context, t *testing.T, client kubernetes.Interface, admin string) (*process, int) {
	t.Helper()
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "scheduler.kubeconfig")
	writeServiceAccountKubeconfig(ctx, t, client, admin, kubeconfig)
	config := testfile.Read(t, "../../manifests/scheduler/config/second-scheduler.yaml")
	file := filepath.Join(dir, "config.yaml")
	writeFile(t, file, append(config, "clientConnection: {kubeconfig: "+kubeconfig+"}\n"...))
	port := freePort(t)
	return start(t, "kube-scheduler", "--config", file,
		"--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig,
		"--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(port)), port
}

// writeServiceAccountKubeconfig converts the admin's kubeconfig into one of the second scheduler's service
// account.
func writeServiceAccountKubeconfig(ctx context.Context, t *testing.T, client kubernetes.Interface, admin, file string) {
	t.Helper()
	token, err := client.CoreV1().ServiceAccounts("kube-system").
		CreateToken(ctx, "supercargo-scheduler", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create token: %v", err)
	}
	config, err := clientcmd.LoadFromFile(admin)
	if err != nil {
		t.Fatalf("load kubeconfig: %v", err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatalf("write kubeconfig: %v", err)
	}
}

// waitReady requests /readyz as the kubelet does: over HTTPS, without verifying the certificate and without
// credentials.
func waitReady(ctx context.Context, t *testing.T, port int) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	var last error
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/readyz", port), nil)
		if err != nil {
			return false, err
		}
		var response *http.Response
		if response, last = client.Do(request); last != nil {
			return false, nil
		}
		last = fmt.Errorf("readyz answers %s", response.Status)
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
	if err != nil {
		t.Fatalf("wait for the scheduler: %v (%v)", err, last)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return port
}

func writeFile(t *testing.T, name string, content []byte) {
	t.Helper()
	testfile.Write(t, name, content)
}
