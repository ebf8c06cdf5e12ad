// Package chart tests the Helm charts with the real helm: what they render, that it equals the output of
// kustomize, which values they reject, and, on a real API server, that installing, upgrading and removing
// them does not change objects of users.
package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"supercargo.dev/supercargo/test/kit"
)

const (
	manifests = "../../../manifests/"
	chart     = manifests + "helm/supercargo"
	kinds     = manifests + "helm/supercargo-crds"
	home      = "supercargo-system"
)

func TestMain(m *testing.M) { os.Exit(kit.Main(m, "1")) }

// run runs a program of bin/ or bin/tools/, which must be in the path.
func run(t *testing.T, env []string, name string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if _, err := exec.LookPath(name); err != nil {
		t.Fatalf("find %s: %v: run `make bin/kubectl bin/tools/helm` and put bin/ and bin/tools/ into PATH", name, err)
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(append(os.Environ(), "HOME="+t.TempDir(), "KUBECONFIG=/nowhere"), env...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// values contains the values of a chart, as --set-json takes them: keys with dots.
type values map[string]any

// flags returns the arguments that pass the values to helm, with the registry of the manifests unless they have one.
func (v values) flags(t *testing.T) (args []string) {
	t.Helper()
	if _, has := v["image.repository"]; !has {
		args = append(args, "--set", "image.repository=registry.invalid/supercargo")
	}
	for key, value := range v {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, "--set-json", key+"="+string(text))
	}
	return args
}

// everything enables every part.
var everything = values{
	"autoscaler.machines.enabled": true, "autoscaler.services.enabled": true, "descheduler.migrations.enabled": true,
	"descheduler.consolidation.enabled": true, "descheduler.probing.enabled": true,
	"autoscaler.openstack.enabled": true, "autoscaler.karpenter.enabled": true, "autoscaler.catalogue.enabled": true, "autoscaler.workers.enabled": true, "evictions.enabled": true,
	"nodeAgent.enabled": true, "nodeMeter.enabled": true, "metricsAdapter.enabled": true, "dashboard.enabled": true, "scheduler.second.enabled": true,
	"scheduler.replacement.enabled": true, "networkPolicy.egress.autoscaler": cloud,
}

// cloud is an egress rule for the autoscaler to a cloud.
var cloud = []any{map[string]any{"to": []any{map[string]any{"ipBlock": map[string]any{"cidr": "192.0.2.0/24"}}}}}

// only disables the programs and the policies that are enabled by default.
func only(more values) values {
	all := values{"autoscaler.enabled": false, "descheduler.enabled": false, "networkPolicy.enabled": false}
	for key, value := range more {
		all[key] = value
	}
	return all
}

// acting are the values with which the autoscaler and the descheduler have the permissions of their manifests.
var acting = values{
	"autoscaler.machines.enabled": true, "autoscaler.services.enabled": true, "autoscaler.workers.enabled": true,
	"descheduler.migrations.enabled": true, "descheduler.consolidation.enabled": true, "descheduler.probing.enabled": true,
	"descheduler.options": values{"consolidation": "Observe", "probing": "Observe"},
}

// may adds the values of acting that are about a program to others.
func may(program string, more values) values {
	all := only(more)
	for key, value := range acting {
		if strings.HasPrefix(key, program+".") && key != "autoscaler.workers.enabled" {
			all[key] = value
		}
	}
	all[program+".enabled"] = true
	if program == "autoscaler" {
		all["autoscaler.workers.enabled"] = true
	}
	return all
}

// tryRender renders the chart without a cluster, and returns helm's output if it fails.
func tryRender(t *testing.T, namespace string, v values, more ...string) (objects []*unstructured.Unstructured, refusal string) {
	t.Helper()
	args := append([]string{"template", "supercargo", chart, "--namespace", namespace}, v.flags(t)...)
	out, errs, err := run(t, nil, "helm", append(args, more...)...)
	if err != nil {
		return nil, errs
	}
	return parse(t, out), ""
}

// render renders the chart, which must succeed.
func render(t *testing.T, namespace string, v values, more ...string) []*unstructured.Unstructured {
	t.Helper()
	objects, refusal := tryRender(t, namespace, v, more...)
	if refusal != "" {
		t.Fatalf("render %v: %s", v, refusal)
	}
	return objects
}

// parse parses objects from YAML.
func parse(t *testing.T, text string) (objects []*unstructured.Unstructured) {
	t.Helper()
	for decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatalf("read what was rendered: %v\n%s", err, text)
		}
		if len(object.Object) > 0 { // a document may be empty
			objects = append(objects, object)
		}
	}
}
