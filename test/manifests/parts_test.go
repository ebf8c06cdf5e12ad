package manifests

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	descheduler "supercargo.dev/supercargo/descheduler/app"
)

// kustomizations returns the folders under manifests/ that kubectl apply -k takes.
func kustomizations(t *testing.T) (folders []string) {
	t.Helper()
	err := filepath.WalkDir("../../manifests", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "kustomization.yaml" {
			folders = append(folders, filepath.Dir(path))
		}
		return err
	})
	if err != nil || len(folders) < 10 {
		t.Fatalf("found %d kustomizations: %v", len(folders), err)
	}
	return folders
}

func build(t *testing.T, folder string) resmap.ResMap {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatalf("build %s: %v", folder, err)
	}
	return built
}

// TestNoPartTakesWhatOthersNeedAlong: kubectl delete -k of a part must not delete the CRDs, with all their
// objects, or a namespace in which others run or store learned data.
func TestNoPartTakesWhatOthersNeedAlong(t *testing.T) {
	owners := map[string][]string{
		"supercargo-system": {"base", "namespace"}, "supercargo-probing": {"base", "namespace"}, "supercargo-agent": {"agent"}, "supercargo-meter": {"meter", "meter-prometheus"},
		"supercargo-management": {"autoscaler/management-cluster"},
	}
	kinds, namespaces := 0, 0
	for _, folder := range kustomizations(t) {
		part := strings.TrimPrefix(filepath.ToSlash(folder), "../../manifests/")
		for _, r := range build(t, folder).Resources() {
			switch r.GetKind() {
			case "CustomResourceDefinition":
				kinds++
				if part != "base" && part != "crd" {
					t.Errorf("manifests/%s holds kind %s", part, r.GetName())
				}
			case "Namespace":
				namespaces++
				if !slices.Contains(owners[r.GetName()], part) {
					t.Errorf("manifests/%s holds namespace %s", part, r.GetName())
				}
			}
		}
	}
	if kinds != 12 || namespaces != 8 {
		t.Errorf("found %d kinds and %d namespaces, want each of 6 kinds twice, and 8", kinds, namespaces)
	}
}

// workload contains the common fields of Deployments and DaemonSets.
type workload struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Template struct{ Spec corev1.PodSpec }
	}
}

// workloads returns the arguments of the first container of each workload in a kustomization, by kind and
// name.
func workloads(t *testing.T, folder string) map[string][]string {
	t.Helper()
	args := map[string][]string{}
	for _, r := range build(t, folder).Resources() {
		if kind := r.GetKind(); kind != "Deployment" && kind != "DaemonSet" {
			continue
		}
		var w workload
		text, err := r.AsYAML()
		if err == nil {
			err = yaml.Unmarshal(text, &w)
		}
		if err != nil {
			t.Fatal(err)
		}
		args[w.Kind+" "+w.Metadata.Name] = w.Spec.Template.Spec.Containers[0].Args
	}
	return args
}

// TestNoOverlayDropsAnArgument checks that every overlay of a part keeps the arguments of the part.
func TestNoOverlayDropsAnArgument(t *testing.T) {
	parts := map[string][]string{}
	for _, part := range []string{"agent", "meter", "adapter/server", "autoscaler", "descheduler", "scheduler/second"} {
		for name, args := range workloads(t, "../../manifests/"+part) {
			if len(args) == 0 {
				t.Errorf("manifests/%s: %s has no arguments, so that patches cannot append to them", part, name)
			}
			parts[name] = args
		}
	}
	overlays := 0
	for _, folder := range kustomizations(t) {
		if strings.HasSuffix(filepath.ToSlash(folder), "/observe") {
			continue // it is no overlay: it has other arguments on purpose
		}
		for name, args := range workloads(t, folder) {
			overlays++
			for _, arg := range parts[name] {
				if !slices.Contains(args, arg) {
					t.Errorf("%s: %s has no argument %s", folder, name, arg)
				}
			}
		}
	}
	if overlays < 8 {
		t.Errorf("checked %d workloads", overlays)
	}
}

// TestTheWebhookIsServedWithoutAFlag checks that the webhook is served at the Service's target port, by pods
// that the Service selects, with the arguments in the manifests and without arguments.
func TestTheWebhookIsServedWithoutAFlag(t *testing.T) {
	var port int32
	var pods map[string]string
	for _, object := range objects(t, "../../manifests/evictions/base/deployment.yaml") {
		template := object.(*appsv1.Deployment).Spec.Template
		pods = template.Labels
		for _, p := range template.Spec.Containers[0].Ports {
			if p.Name == "evictions" {
				port = p.ContainerPort
			}
		}
	}
	service, ok := objects(t, "../../manifests/evictions/base/webhook.yaml")[0].(*corev1.Service)
	if !ok || service.Spec.Ports[0].TargetPort.StrVal != "evictions" || port == 0 {
		t.Fatalf("the Service leads to %v, and port evictions of the webhook is %d", service.Spec.Ports, port)
	}
	if key := "app.kubernetes.io/name"; service.Spec.Selector[key] != pods[key] || pods[key] == "" {
		t.Errorf("the Service selects %v, and the pods have %v", service.Spec.Selector, pods)
	}
	for name, args := range map[string][]string{
		"none": nil, "those of the manifests": workloads(t, "../../manifests/evictions/open")["Deployment supercargo-evictions"],
	} {
		o := descheduler.EvictionDefaults()
		flags := pflag.NewFlagSet("evictions", pflag.ContinueOnError)
		o.AddEvictionFlags(flags)
		if err := errors.Join(flags.Parse(args), o.Validate()); err != nil {
			t.Fatalf("arguments: %s: %v", name, err)
		}
		if len(args) > 0 && args[0] != "evictions" {
			t.Errorf("arguments: %s: they begin with %q, want the command evictions", name, args[0])
		}
		if want := fmt.Sprintf(":%d", port); o.Evictions.Address != want {
			t.Errorf("arguments: %s: it serves evictions at %q, want %q", name, o.Evictions.Address, want)
		}
		if len(o.Evictions.Hosts) != 1 || o.Evictions.Hosts[0] != service.Name+"."+service.Namespace+".svc" {
			t.Errorf("arguments: %s: its certificate is for %q, and the API server calls Service %s", name, o.Evictions.Hosts, service.Name)
		}
	}
}
