package gang_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster/gang"
	"supercargo.dev/supercargo/test/fixtures"
)

func TestAPodIsInTheGangThatItNames(t *testing.T) {
	if got := gang.Of(fixtures.Pod("train-0", 100, 1<<20, fixtures.Gang("train"))); got != "train" {
		t.Errorf("a pod of the gang train is in %q", got)
	}
	if got := gang.Of(&corev1.Pod{}); got != "" {
		t.Errorf("a pod that names no gang is in %q", got)
	}
}
