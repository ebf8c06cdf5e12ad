package manifests

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	descheduler "supercargo.dev/supercargo/descheduler/app"
)

const charts = "../../manifests/helm/"

// TestTheChartsCopyWhatHasItsSourceElsewhere checks the files that make generate copies into the charts,
// because Helm reads no file outside of a chart.
func TestTheChartsCopyWhatHasItsSourceElsewhere(t *testing.T) {
	sources := map[string]string{
		charts + "supercargo/scheduler/second-scheduler.yaml":    "../../manifests/scheduler/config/second-scheduler.yaml",
		charts + "supercargo/scheduler/kube-scheduler.yaml":      "../../manifests/scheduler/config/kube-scheduler.yaml",
		charts + "supercargo/scheduler/kube-scheduler+json.yaml": "../../manifests/scheduler/replace/kube-scheduler+json.yaml",
	}
	for _, pattern := range []string{charts + "supercargo-crds/crd/*", "../../manifests/crd/supercargo.dev_*.yaml"} { // of either, to find files that only one of them has
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) < 5 {
			t.Fatalf("%s: %q, %v", pattern, files, err)
		}
		for _, file := range files {
			sources[charts+"supercargo-crds/crd/"+filepath.Base(file)] = "../../manifests/crd/" + filepath.Base(file)
		}
	}
	for copied, source := range sources {
		want, err := os.ReadFile(source)
		if err != nil {
			t.Error(err)
			continue
		}
		if got, err := os.ReadFile(copied); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is no copy of %s: run make generate (%v)", copied, source, err)
		}
	}
}

// TestTheChartsHaveTheVersionOfTheImages compares it with the manifests and the programs.
func TestTheChartsHaveTheVersionOfTheImages(t *testing.T) {
	_, version, _ := strings.Cut(descheduler.Defaults().Probing.Image, ":v")
	for _, chart := range []string{"supercargo", "supercargo-crds"} {
		var about struct{ Name, Version, AppVersion string }
		text, err := os.ReadFile(charts + chart + "/Chart.yaml")
		if err == nil {
			err = yaml.Unmarshal(text, &about)
		}
		if err != nil || about.Name != chart || about.AppVersion != version || about.Version == "" {
			t.Errorf("%+v, %v, want chart %s for version %s", about, err, chart, version)
		}
	}
}
