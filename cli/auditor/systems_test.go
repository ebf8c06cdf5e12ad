package auditor

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/cli/objects"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/test/fixtures"
)

// mixed returns two nodes of Linux and two of Windows, without taints as on AKS, of which the second has room for the
// pods of the first. No pod selects an operating system.
func mixed() *objects.Objects {
	windows := label(corev1.LabelOSStable, "windows")
	o := &objects.Objects{Nodes: []corev1.Node{
		fixtures.CloudNode("linux-a", "m5.xlarge"), fixtures.CloudNode("windows-a", "win.large", windows), fixtures.CloudNode("windows-b", "win.large", windows),
	}}
	of := func(image string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].Image = image }
	}
	o.Pods = []corev1.Pod{podOf("web", "linux-a", of("nginx")), podOf("iis-a", "windows-a", of("iis")), podOf("iis-b", "windows-b", of("iis"))}
	return o
}

func TestPodsOfLinuxAndWindowsStayApart(t *testing.T) {
	o := mixed()
	in := observed(t, o, priceOf("win.large", 50_000, nil))
	in.MostObstacles = 5
	got := audit.Audit(*in)
	// The pods of Windows fit on one of its nodes. That of Linux needs a machine of its own.
	if got.Moves != 1 || len(got.Emptied) != 1 || got.Emptied[0] == "linux-a" {
		t.Errorf("%d pods move, %q are released; want one of the nodes of Windows", got.Moves, got.Emptied)
	}
	if got.Cheapest.Nodes != 2 {
		t.Errorf("machines %+v, want one of Windows and one of Linux", got.Cheapest.Machines)
	}
	if len(o.Nodes[0].Spec.Taints) > 0 || len(o.Pods[0].Spec.Tolerations) > 0 {
		t.Error("the audit changes the objects")
	}
}

// TestNoListPriceOfLinuxIsAskedForAMachineOfWindows: a machine of Windows costs more than its list price for Linux, so only
// types of which there is a node of Windows with a price are for sale to its pods.
func TestNoListPriceOfLinuxIsAskedForAMachineOfWindows(t *testing.T) {
	in := observed(t, mixed(), catalogue.Price{Flavor: priceOf("win.large", 50_000, nil).Flavor})
	systems := map[string]map[string]bool{}
	for _, f := range in.Flavors {
		system := f.Host.Labels[corev1.LabelOSStable]
		if systems[system] == nil {
			systems[system] = map[string]bool{}
		}
		systems[system][f.InstanceType] = true
	}
	if w := systems["windows"]; len(w) != 1 || !w["win.large"] {
		t.Errorf("machines of Windows: %v, want win.large alone", w)
	}
	if l := systems["linux"]; !l["m5.xlarge"] || len(l) < 10 {
		t.Errorf("machines of Linux: %v, want those of the price list", l)
	}
}

func TestDaemonSetsTakeTheirRoomOfMachinesOfEachOperatingSystem(t *testing.T) {
	o := mixed()
	for _, system := range []string{"linux", "windows"} {
		agent := podOf("agent", "")
		spec := agent.Spec
		spec.NodeSelector = map[string]string{corev1.LabelOSStable: system}
		o.Daemons = append(o.Daemons, appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "agent-" + system}, Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: spec}},
		})
	}
	in := observed(t, o, priceOf("win.large", 50_000, nil))
	for _, f := range in.Flavors {
		if f.InstanceType == "m5.xlarge" && f.Size.MilliCPU != 3420 || f.InstanceType == "win.large" && f.Host.Labels[corev1.LabelOSStable] == "windows" && f.Size.MilliCPU != 3420 {
			t.Errorf("%s has %d thousandths of a CPU for pods, want 3,920 less the 500 of one DaemonSet", f.Name, f.Size.MilliCPU)
		}
	}
}

func TestAPodThatFitsNoMachineOfItsSystemIsToldSoWithoutTheTaintOfTheAudit(t *testing.T) {
	o := mixed()
	for i := range o.Nodes[1:] {
		o.Nodes[1+i].Annotations[v1alpha1.AnnotationPricePerHour] = "0.05"
	}
	got := audit.Audit(*observed(t, o))
	if notes := strings.Join(got.Notes, "\n"); !strings.Contains(notes, "not admitted: operating system ") || strings.Contains(notes, "audit.supercargo.dev") {
		t.Errorf("notes %q, want why no type holds the pods of both systems", notes)
	}
	// Machines of Linux lack the label that it selects.
	for i := range o.Nodes[1:] {
		o.Nodes[1+i].Labels["team"] = "b"
	}
	o.Pods[0].Spec.NodeSelector = map[string]string{"team": "b"}
	got = audit.Audit(*observed(t, o))
	if len(got.Staying) != 1 || !strings.Contains(got.Staying[0].Reason, "1 not admitted: operating system windows") || strings.Contains(got.Staying[0].Reason, "audit.supercargo.dev") {
		t.Errorf("%+v, want the node of the pod and its operating system", got.Staying)
	}
}
