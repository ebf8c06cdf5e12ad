package fleet

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/platform/conditions"
	"supercargo.dev/supercargo/internal/text/clip"
)

func TestATemplateBelongsToTheOldestFleetThatNamesIt(t *testing.T) {
	with := func(name, namespace string, templates ...string) v1alpha1.NodeFleet {
		f := fleetNamed(name)
		f.Spec.ClusterAPI = &v1alpha1.ClusterAPIFlavors{Namespace: namespace}
		for _, template := range templates {
			f.Spec.ClusterAPI.Templates = append(f.Spec.ClusterAPI.Templates, v1alpha1.MachineTemplate{MachineDeployment: template})
		}
		return *f
	}
	fleets := []v1alpha1.NodeFleet{with("old", "x", "a", "b"), with("young", "x", "c", "b"), with("apart", "y", "b"), with("named", "x")}
	for i, want := range []string{"", "MachineDeployment x/b is already a template of NodeFleet old", "", ""} {
		err := templatesTaken(&fleets[i], fleets)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("fleet %s: %v, want %q", fleets[i].Name, err, want)
		}
	}
}

func TestOlderFleetsComeFirst(t *testing.T) {
	old, young := fleetNamed("z"), fleetNamed("a")
	young.CreationTimestamp = metav1.NewTime(epoch)
	twin := fleetNamed("b")
	fleets := []v1alpha1.NodeFleet{*young, *old, *twin}
	slices.SortFunc(fleets, seniority)
	if fleets[0].Name != "b" || fleets[1].Name != "z" || fleets[2].Name != "a" {
		t.Errorf("the order is %s, %s, %s", fleets[0].Name, fleets[1].Name, fleets[2].Name)
	}
}

func TestTextsAreClippedAtRunes(t *testing.T) {
	if got := clip.Bytes(strings.Repeat("a", 1024), conditions.MaxMessage); len(got) != 1024 || strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes that fit became %d", 1024, len(got))
	}
	if got := clip.Bytes(strings.Repeat("ä", 600), conditions.MaxMessage); len(got) > 1024 || !strings.HasSuffix(got, "ä…") || strings.Contains(got, "\uFFFD") {
		t.Errorf("it ends in %q", got[len(got)-8:])
	}
}
