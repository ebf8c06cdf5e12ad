package autoscalers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/lab/compressed"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/lab/playground/controlplane"
	"supercargo.dev/supercargo/test/measure/process"
)

// karpenter is Karpenter with its kwok provider, and the stock scheduler.
type karpenter struct {
	program string
	source  string // folder of its source code
	dir     string // for files that it reads
	// scaled sets its batching to the fleet's values, and uses a program whose constant waits are cut.
	scaled bool
	// policy is the consolidationPolicy of its NodePool; empty for no NodePool.
	policy string
}

func (karpenter) options() playground.Options { return playground.Options{NoScheduler: true} }

func (karpenter) scheduler(*world) ([]byte, error) {
	return compressed.Scheduler(controlplane.StockSchedulerConfig)
}

var (
	nodeClaims = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
	nodePools  = nodeClaims.GroupVersion().WithResource("nodepools")
)

func (karpenter) machines() schema.GroupVersionResource { return nodeClaims }

func (karpenter) flavor(f catalogue.Flavor) string { return f.Name }

func (karpenter) flavorOf(labels map[string]string) string {
	return labels[corev1.LabelInstanceTypeStable]
}

func (k karpenter) start(ctx context.Context, p *playground.Playground, w *world, log *os.File) (stop func() error, err error) {
	types := filepath.Join(k.dir, "instance-types.json")
	text, err := json.Marshal(playground.KarpenterTypes(w.flavors))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(types, text, 0o644); err != nil {
		return nil, err
	}
	definitions, err := k.definitions()
	if err != nil {
		return nil, err
	}
	if err := p.InstallDefinitions(ctx, definitions); err != nil {
		return nil, err
	}
	pool, err := playground.ParseManifests("NodePool", strings.NewReader(k.objects(w)))
	if err != nil {
		return nil, err
	}
	if err := p.Apply(ctx, pool); err != nil {
		return nil, err
	}
	metrics, err := freePort()
	if err != nil {
		return nil, err
	}
	probes, err := freePort()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(k.program)
	cmd.Env = append(os.Environ(), append(k.batching(),
		"KUBECONFIG="+p.KubeconfigPath(), "DISABLE_LEADER_ELECTION=true", "INSTANCE_TYPES_FILE_PATH="+types,
		"METRICS_PORT="+metrics, "HEALTH_PROBE_PORT="+probes)...)
	stop, err = process.Start(cmd, log)
	if err != nil {
		return nil, err
	}
	if err := k.waitReady(ctx, p, probes); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

// batching returns the environment that makes it batch pods as the fleet does.
func (k karpenter) batching() []string {
	if !k.scaled {
		return nil
	}
	return []string{"BATCH_IDLE_DURATION=" + compressed.BatchIdle.String(), "BATCH_MAX_DURATION=" + compressed.BatchMax.String()}
}

// definitions reads the CRDs of Karpenter. One is changed: it allows fractions of a second in the start-up
// lag of a machine, which the kwok provider itself accepts.
func (k karpenter) definitions() ([]playground.Manifest, error) {
	var all []playground.Manifest
	for _, pattern := range []string{"pkg/apis/crds/*.yaml", "kwok/apis/crds/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(k.source, pattern))
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("--karpenter-source: no %s in %q: %w", pattern, k.source, errors.Join(err, os.ErrNotExist))
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			found, err := playground.ParseManifests(file, bytes.NewReader(text))
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	for _, m := range all {
		if err := allowFractions(m.Object); err != nil {
			return nil, fmt.Errorf("%v: %w", m, err)
		}
	}
	return all, nil
}

// allowFractions removes the pattern that allows only whole seconds of lag.
func allowFractions(definition *unstructured.Unstructured) error {
	if definition.GetName() != "kwoknodeclasses.karpenter.kwok.sh" {
		return nil
	}
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	if err != nil {
		return err
	}
	for _, v := range versions {
		fields, _ := v.(map[string]any)
		unstructured.RemoveNestedField(fields, "schema", "openAPIV3Schema", "properties", "spec", "properties", "nodeRegistrationDelay", "pattern")
	}
	return unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions")
}

// objects returns the KWOKNodeClass, and the NodePool if there is one. Like the fleet, it may release all machines at the
// same time.
func (k karpenter) objects(w *world) string {
	class := fmt.Sprintf(`
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: all}
spec: {nodeRegistrationDelay: %s}
`, w.lag)
	if k.policy == "" {
		return class
	}
	return class + fmt.Sprintf(`---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: all}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: all}
      expireAfter: Never
      requirements:
      - {key: kubernetes.io/os, operator: In, values: [linux]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
  disruption:
    consolidationPolicy: %s
    consolidateAfter: 0s
    budgets:
    - nodes: 100%%
`, k.policy)
}

// waitReady waits until the program serves its probes and the NodePool, if there is one, is ready.
func (k karpenter) waitReady(ctx context.Context, p *playground.Playground, probes string) error {
	client, err := dynamic.NewForConfig(p.Config())
	if err != nil {
		return err
	}
	return poll(ctx, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+probes+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		_ = answer.Body.Close() // only the status matters
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("its readiness probe answers %s", answer.Status)
		}
		if k.policy == "" {
			return nil
		}
		pool, err := client.Resource(nodePools).Get(ctx, "all", metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(pool.Object, "status", "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == "Ready" && c["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("the NodePool is not ready: %v", conditions)
	})
}

// freePort returns a port that nothing listens on.
func freePort() (string, error) {
	address, err := process.FreeAddress()
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(address)
	return port, err
}
