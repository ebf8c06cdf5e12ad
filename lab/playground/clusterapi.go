package playground

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"supercargo.dev/supercargo/lab/playground/controlplane"
	"supercargo.dev/supercargo/lab/playground/process"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"supercargo.dev/supercargo/lab/playground/machines"
)

// ClusterAPIEnv is the environment variable with the path of the cluster-api manager.
const ClusterAPIEnv = "SUPERCARGO_CLUSTER_API"

// ClusterName is the name of the Cluster that MachineDeployments belong to, in their own namespace.
const ClusterName = "playground"

// clusterAPI is the cluster-api manager.
var clusterAPI = process.Program{Name: "cluster-api", Env: ClusterAPIEnv, Does: "creates the machines of MachineDeployments"}

// FindClusterAPI returns the path of the cluster-api manager. It searches as [FindKwok] does.
func FindClusterAPI(path string) (string, error) { return clusterAPI.Find(path) }

// startClusterAPI installs cluster-api's CRDs, starts the machine provider and, as a child process,
// the manager, creates the Cluster in the namespace default, and returns when the manager has
// connected to it.
func (p *Playground) startClusterAPI(ctx context.Context) error {
	fail := func(err error) error {
		return &process.Error{Doing: "start", Name: clusterAPI.Name, Log: process.ClusterAPILog, Err: err}
	}
	path, err := FindClusterAPI(p.opts.ClusterAPIPath)
	if err != nil {
		return fail(err)
	}
	port, release, err := process.FreePort()
	if err != nil {
		return fail(err)
	}
	defer release()
	server := webhookServer{url: "https://127.0.0.1:" + strconv.Itoa(port), ca: p.plane.CA()}
	if err := p.define(ctx, server); err != nil {
		return fail(err)
	}
	if err := p.startMachines(ctx); err != nil {
		return err
	}
	if err := p.group.StartChild(clusterAPI.Name, process.ClusterAPILog, func() *exec.Cmd { return p.clusterAPICommand(path, port) }, nil); err != nil {
		return err
	}
	if err := p.group.Poll(ctx, server.answers); err != nil {
		return fail(fmt.Errorf("wait for its webhooks: %w", err))
	}
	if err := p.EnsureCluster(ctx, metav1.NamespaceDefault); err != nil {
		return fail(err)
	}
	return nil
}

// clusterAPICommand returns the manager's command line.
func (p *Playground) clusterAPICommand(path string, webhookPort int) *exec.Cmd {
	certFile, keyFile := p.plane.WebhookCert()
	qps := strconv.Itoa(controlplane.ClientQPS)
	return exec.Command(path,
		"--kubeconfig="+p.dir.KubeconfigPath(),
		"--webhook-port="+strconv.Itoa(webhookPort),
		"--webhook-cert-dir="+filepath.Dir(certFile),
		"--webhook-cert-name="+filepath.Base(certFile),
		"--webhook-key-name="+filepath.Base(keyFile),
		"--health-addr=0",         // disabled
		"--diagnostics-address=0", // disabled
		"--leader-elect=false",
		"--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields", // there are no objects of older versions
		"--feature-gates=ReconcilerRateLimiting=false",                             // it limits reconciles of an object to one per second
		"--kube-api-qps="+qps, "--kube-api-burst="+qps,
		"--clustercache-client-qps="+qps, "--clustercache-client-burst="+qps,
	)
}

// startMachines starts the machine provider and returns when its caches have synced.
func (p *Playground) startMachines(ctx context.Context) error {
	opts := machines.Options{
		Config: p.Config(), Workload: rest.CopyConfig(p.workload.config), Kubeconfig: p.workload.kubeconfig, Node: machineNode, Log: klog.Background(),
	}
	synced := make(chan struct{})
	c := process.Start("machine provider", process.KubernetesLog, func(ctx context.Context) error {
		return machines.Run(ctx, opts, synced)
	})
	if err := p.group.Add(c); err != nil {
		return err
	}
	select {
	case <-synced:
		return nil
	case <-c.Done():
		return c.Died()
	case <-ctx.Done():
		return fmt.Errorf("start machine provider: %w", context.Cause(ctx))
	}
}

// answers returns an error until the server accepts connections.
func (w webhookServer) answers(ctx context.Context) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(w.ca)
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := dialer.DialContext(ctx, "tcp", w.url[len("https://"):])
	if err != nil {
		return err
	}
	return conn.Close()
}

// The resources of cluster-api and of the playground's machines.
var (
	clusters           = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "clusters"}
	machineDeployments = clusters.GroupVersion().WithResource("machinedeployments")
	kwokClusters       = machines.GroupVersion.WithResource("kwokclusters")
	kwokControlPlanes  = machines.GroupVersion.WithResource("kwokcontrolplanes")
	kwokTemplates      = machines.GroupVersion.WithResource("kwokmachinetemplates")
)

// EnsureCluster creates the Cluster for the MachineDeployments of a namespace if it does not exist,
// and returns when cluster-api has connected to it. The namespace must exist.
func (p *Playground) EnsureCluster(ctx context.Context, namespace string) error {
	client, err := dynamic.NewForConfig(p.plane.Config())
	if err != nil {
		return fmt.Errorf("create the client: %w", err)
	}
	connected := func(ctx context.Context) error { return clusterConnected(ctx, client, namespace) }
	if connected(ctx) == nil {
		return nil
	}
	version, err := p.plane.Client().Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("read the version of the API server: %w", err)
	}
	ref := func(kind string) map[string]any {
		return map[string]any{"apiGroup": machines.GroupVersion.Group, "kind": kind, "name": ClusterName}
	}
	for _, o := range []struct {
		resource schema.GroupVersionResource
		kind     string
		spec     map[string]any
	}{
		{kwokClusters, "KwokCluster", map[string]any{}},
		{kwokControlPlanes, "KwokControlPlane", map[string]any{"version": version.GitVersion}},
		{clusters, "Cluster", map[string]any{"infrastructureRef": ref("KwokCluster"), "controlPlaneRef": ref("KwokControlPlane")}},
	} {
		if err := p.create(ctx, client, o.resource, namespace, ClusterName, map[string]any{"kind": o.kind, "spec": o.spec}); err != nil {
			return err
		}
	}
	return p.group.Poll(ctx, connected)
}

// clusterConnected returns an error until cluster-api has connected to the Cluster of a namespace.
func clusterConnected(ctx context.Context, client dynamic.Interface, namespace string) error {
	cluster, err := client.Resource(clusters).Namespace(namespace).Get(ctx, ClusterName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !hasCondition(cluster, "RemoteConnectionProbe") || !hasCondition(cluster, "ControlPlaneInitialized") {
		return fmt.Errorf("cluster %s/%s is not connected", namespace, ClusterName)
	}
	return nil
}

// create creates an object with the given fields if it does not exist. It retries because the API
// server rejects the object until the webhooks are up.
func (p *Playground) create(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, namespace, name string, fields map[string]any) error {
	object := &unstructured.Unstructured{Object: fields}
	object.SetAPIVersion(resource.GroupVersion().String())
	object.SetNamespace(namespace)
	object.SetName(name)
	var refusal error
	err := p.group.Poll(ctx, func(ctx context.Context) error {
		_, err := client.Resource(resource).Namespace(namespace).Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		if refused(err) {
			refusal = err // a retry does not help
			return nil
		}
		return err
	})
	if refusal != nil {
		err = &controlplane.InputError{Err: refusal}
	}
	if err != nil {
		return fmt.Errorf("create %s %s/%s: %w", object.GetKind(), namespace, name, err)
	}
	return nil
}

// hasCondition reports whether a condition of an object is True.
func hasCondition(object *unstructured.Unstructured, name string) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == name {
			return c["status"] == string(corev1.ConditionTrue)
		}
	}
	return false
}
