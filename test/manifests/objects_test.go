package manifests

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	psapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// objects decodes the documents of a file as strictly as the API server does
// for `kubectl --validate=strict`: an unknown or repeated field fails the test.
func objects(t *testing.T, file string) []runtime.Object {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var found []runtime.Object
	for docs := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content))); ; {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("read %s: %v", file, err)
		}
		obj, _, err := decoder.Decode(doc, nil, nil)
		if err != nil {
			t.Fatalf("decode %s: %v", file, err)
		}
		found = append(found, obj)
	}
}

func TestObjectsAreKnownToTheAPIServer(t *testing.T) {
	for file, want := range map[string]int{
		"../../manifests/scheduler/second/rbac.yaml":            6,
		"../../manifests/scheduler/second/deployment.yaml":      1,
		"../../manifests/scheduler/replace/kube-scheduler.yaml": 1,
	} {
		if got := len(objects(t, file)); got != want {
			t.Errorf("%s holds %d objects, want %d", file, got, want)
		}
	}
}

func TestSecondSchedulerMeetsTheRestrictedPodSecurityStandard(t *testing.T) {
	deployment, ok := objects(t, "../../manifests/scheduler/second/deployment.yaml")[0].(*appsv1.Deployment)
	if !ok {
		t.Fatal("deployment.yaml holds no Deployment")
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := psapi.LevelVersion{Level: psapi.LevelRestricted, Version: psapi.LatestVersion()}
	for _, result := range evaluator.EvaluatePod(level, &deployment.Spec.Template.ObjectMeta, &deployment.Spec.Template.Spec) {
		if !result.Allowed {
			t.Errorf("%s: %s", result.ForbiddenReason, result.ForbiddenDetail)
		}
	}
}
