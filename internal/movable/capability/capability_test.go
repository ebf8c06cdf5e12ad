package capability_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable/capability"
)

// node returns a node that meets all requirements of checkpoint.
func node(change ...func(*capability.Node)) capability.Node {
	n := capability.Node{
		Backends: []v1alpha1.MigrationBackend{v1alpha1.BackendContainerd},
		Arch:     "amd64", CPUFeatures: []string{"avx", "avx2", "fpu", "sse4_2"},
		Kernel: "6.18.0-3-amd64", Runtime: "containerd://2.3.7", CRIU: "4.2.1", Restore: true,
	}
	for _, c := range change {
		c(&n)
	}
	return n
}

func checkpoint(change ...func(*capability.Requirements)) capability.Requirements {
	r := capability.Requirements{
		Backend: v1alpha1.BackendContainerd, Arch: "amd64", CPUFeatures: []string{"avx", "fpu"},
		Kernel: "6.18", Runtime: "containerd://2.1", CRIU: "4.2",
		BaseImage: "docker.io/library/busybox:1.36", BaseImageID: "sha256:" + strings.Repeat("a", 64),
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func TestANodeIsWrittenAsTheDesignSaysAndReadBack(t *testing.T) {
	n := node()
	n.CPUFeatures = []string{"sse4_2", "fpu", "avx", "fpu", "avx2"}
	const want = `{"version":1,"backends":["Containerd"],"arch":"amd64","cpuFeatures":["avx","avx2","fpu","sse4_2"],` +
		`"kernel":"6.18.0-3-amd64","runtime":"containerd://2.3.7","criu":"4.2.1","restore":true}`
	if got := n.Encode(); got != want {
		t.Errorf("written as\n%s\nwant\n%s", got, want)
	}
	if n.CPUFeatures[0] != "sse4_2" {
		t.Error("writing it has changed it")
	}
	got, err := capability.ParseNode(want)
	if diff := gocmp.Diff(node(), got); err != nil || diff != "" {
		t.Errorf("read back: %v (-want +got):\n%s", err, diff)
	}
}

func TestRequirementsAreWrittenAsTheDesignSaysAndReadBack(t *testing.T) {
	want := `{"version":1,"backend":"Containerd","arch":"amd64","cpuFeatures":["avx","fpu"],"kernel":"6.18","runtime":"containerd://2.1","criu":"4.2",` +
		`"baseImage":"docker.io/library/busybox:1.36","baseImageID":"sha256:` + strings.Repeat("a", 64) + `"}`
	if got := checkpoint().Encode(); got != want {
		t.Errorf("written as\n%s\nwant\n%s", got, want)
	}
	got, err := capability.ParseRequirements(want)
	if diff := gocmp.Diff(checkpoint(), got); err != nil || diff != "" {
		t.Errorf("read back: %v (-want +got):\n%s", err, diff)
	}
}

func TestListsAreReadInOrderHoweverTheyAreWritten(t *testing.T) {
	n, err := capability.ParseNode(`{"version":1,"backends":["Simulated","Containerd","Simulated"],"cpuFeatures":["b","a","b"],"restore":true,"later":{"x":1}}`)
	want := capability.Node{Backends: []v1alpha1.MigrationBackend{"Containerd", "Simulated"}, CPUFeatures: []string{"a", "b"}, Restore: true}
	if diff := gocmp.Diff(want, n); err != nil || diff != "" {
		t.Errorf("node: %v (-want +got):\n%s", err, diff)
	}
	r, err := capability.ParseRequirements(`{"version":1,"backend":"Simulated","cpuFeatures":["b","a","a"]}`)
	if err != nil || !slices.Equal(r.CPUFeatures, []string{"a", "b"}) {
		t.Errorf("requirements: %v, %v", r, err)
	}
}

func TestTextThatIsNotUnderstoodIsRefused(t *testing.T) {
	long := strings.Repeat("x", 200)
	tests := []struct {
		name, text, want string
		// lenient means that a node's annotation may contain it.
		lenient bool
	}{
		{"nothing", "", "unexpected end", false},
		{"no JSON", "Containerd", "invalid character", false},
		{"no object", "[]", "cannot unmarshal", false},
		{"no version", `{"backend":"Containerd"}`, "its version is 0: must be 1", false},
		{"a later version", `{"version":2,"backend":"Containerd"}`, "its version is 2: must be 1", false},
		{"a later version that writes a field in another way", `{"version":2,"arch":["amd64"]}`, "its version is 2", false},
		{"a field of another type", `{"version":1,"backend":"Containerd","cpuFeatures":"avx"}`, "cannot unmarshal", false},
		{"more behind it", `{"version":1,"backend":"Containerd"} {}`, "invalid character", false},
		{"too long", `{"version":1,"backend":"Containerd","baseImage":"` + strings.Repeat("x", capability.MaxBytes) + `"}`, "must be at most 16384", false},
		{"a nameless feature", `{"version":1,"backend":"Containerd","cpuFeatures":["avx",""]}`, "cpuFeatures: a name has 0", false},
		{"a feature with a long name", `{"version":1,"backend":"Containerd","cpuFeatures":["` + long + `"]}`, "cpuFeatures: a name has 200", false},
		{"too many features", `{"version":1,"backend":"Containerd","cpuFeatures":["a"` + strings.Repeat(`,"a"`, 1024) + `]}`, "1025 names", false},
		{"a long architecture", `{"version":1,"backend":"Containerd","arch":"` + long + `"}`, "arch: a name has 200", false},
		{"a long kernel", `{"version":1,"backend":"Containerd","kernel":"6` + long + `"}`, "kernel: a name has 201", false},
		{"a long runtime", `{"version":1,"backend":"Containerd","runtime":"` + long + `"}`, "runtime: a name has 200", false},
		{"a long CRIU", `{"version":1,"backend":"Containerd","criu":"4` + long + `"}`, "criu: a name has 201", false},
		{"a field that is not known", `{"version":1,"backend":"Containerd","gpu":"a100"}`, `unknown field "gpu"`, true},
		{"no back-end", `{"version":1}`, "backend is missing", true},
		{"a kernel that is no version", `{"version":1,"backend":"Containerd","kernel":"new"}`, `kernel: "new"`, true},
		{"a CRIU that is no version", `{"version":1,"backend":"Containerd","criu":"new"}`, `criu: "new"`, true},
		{"a runtime whose version is none", `{"version":1,"backend":"Containerd","runtime":"containerd://new"}`, `runtime: "new"`, true},
		{"an image with an endless name", `{"version":1,"backend":"Containerd","baseImage":"` + strings.Repeat("x", 1025) + `"}`, "base image is longer", true},
		{"an image with an endless ID", `{"version":1,"backend":"Containerd","baseImageID":"` + strings.Repeat("x", 1025) + `"}`, "base image is longer", true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := capability.ParseRequirements(tc.text)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "supercargo.dev/checkpoint-requirements of a pod") {
				t.Errorf("requirements: error %v, want one that says %q", err, tc.want)
			}
			_, err = capability.ParseNode(tc.text)
			if tc.lenient != (err == nil) || err != nil && !strings.Contains(err.Error(), "supercargo.dev/checkpoint-capability of a node") {
				t.Errorf("node: error %v, want none: %t", err, tc.lenient)
			}
		})
	}
	if _, err := capability.ParseNode(`{"version":1,"backends":["Containerd",""]}`); err == nil {
		t.Error("a nameless back-end of a node was taken")
	}
}

func TestACheckpointGoesWhereItCanBeRestored(t *testing.T) {
	type change = func(*capability.Node)
	type demand = func(*capability.Requirements)
	tests := []struct {
		name   string
		node   change
		demand demand
		want   string // the error, or empty
	}{
		{"an able node", nil, nil, ""},
		{"a node without an agent", func(n *capability.Node) { *n = capability.Node{} }, nil, "does not support back-end Containerd (its agent supports none)"},
		{"another back-end", nil, func(r *capability.Requirements) { r.Backend = v1alpha1.BackendSimulated },
			"does not support back-end Simulated (its agent supports Containerd)"},
		{"restore is off", func(n *capability.Node) { n.Restore = false }, nil, "has a container runtime that does not restore checkpoints"},
		{"another architecture", func(n *capability.Node) { n.Arch = "arm64" }, nil, "has architecture arm64 instead of amd64"},
		{"an architecture not told", func(n *capability.Node) { n.Arch = "" }, nil, "has architecture unknown instead of amd64"},
		{"an older kernel", func(n *capability.Node) { n.Kernel = "6.9.12" }, nil, "has kernel 6.9.12, older than 6.18"},
		{"the very kernel", func(n *capability.Node) { n.Kernel = "6.18" }, nil, ""},
		{"a newer kernel", func(n *capability.Node) { n.Kernel = "v7.0-rc1" }, nil, ""},
		{"a kernel not told", func(n *capability.Node) { n.Kernel = "" }, nil, "has kernel unknown, which cannot be compared with 6.18"},
		{"an older patch", nil, func(r *capability.Requirements) { r.Kernel = "6.18.1" }, "has kernel 6.18.0-3-amd64, older than 6.18.1"},
		{"another runtime", func(n *capability.Node) { n.Runtime = "cri-o://1.35.0" }, nil, "has container runtime cri-o instead of containerd"},
		{"an older runtime", func(n *capability.Node) { n.Runtime = "containerd://1.7.24" }, nil, "has containerd 1.7.24, older than 2.1"},
		{"any version of the runtime", func(n *capability.Node) { n.Runtime = "containerd" },
			func(r *capability.Requirements) { r.Runtime = "containerd" }, ""},
		{"an older CRIU", func(n *capability.Node) { n.CRIU = "4.1.9" }, nil, "has CRIU 4.1.9, older than 4.2"},
		{"no CRIU", func(n *capability.Node) { n.CRIU = "" }, nil, "has CRIU unknown, which cannot be compared with 4.2"},
		{"a feature less", nil, func(r *capability.Requirements) { r.CPUFeatures = []string{"avx", "avx512f", "fpu"} }, "lacks CPU feature avx512f"},
		{"three features less", func(n *capability.Node) { n.CPUFeatures = []string{"b"} },
			func(r *capability.Requirements) { r.CPUFeatures = []string{"a", "b", "c", "d"} }, "lacks CPU features a, c, d"},
		{"five features less", func(n *capability.Node) { n.CPUFeatures = nil },
			func(r *capability.Requirements) { r.CPUFeatures = []string{"a", "b", "c", "d", "e"} }, "lacks CPU features a, b, c and 2 more"},
		{"nothing asked for but the back-end", func(n *capability.Node) {
			*n = capability.Node{Backends: []v1alpha1.MigrationBackend{"Simulated"}, Restore: true}
		}, func(r *capability.Requirements) { *r = capability.Requirements{Backend: v1alpha1.BackendSimulated} }, ""},
		{"any architecture", nil, func(r *capability.Requirements) { r.Arch = "" }, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			n, r := node(), checkpoint()
			if tc.node != nil {
				tc.node(&n)
			}
			if tc.demand != nil {
				tc.demand(&r)
			}
			err := r.Fits(n)
			if got := fmt.Sprint(err); got != cmp.Or(tc.want, "<nil>") {
				t.Errorf("Fits: %s, want %q", got, tc.want)
			}
		})
	}
}

// TestANodeFitsWhenItHasEveryFeature compares with an implementation based on sets.
func TestANodeFitsWhenItHasEveryFeature(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		some := func() []string {
			var list []string
			for f := range 12 {
				if r.IntN(4) > 0 {
					list = append(list, fmt.Sprintf("f%02d", f))
				}
			}
			return list
		}
		want, have := some(), some()
		missing := 0
		for _, f := range want {
			if !slices.Contains(have, f) {
				missing++
			}
		}
		n := node(func(n *capability.Node) { n.CPUFeatures = have })
		err := checkpoint(func(c *capability.Requirements) { c.CPUFeatures = want }).Fits(n)
		if (err == nil) != (missing == 0) {
			t.Fatalf("seed %d: wanted %v, there are %v: %v", seed, want, have, err)
		}
	}
}

func TestToFindThatANodeFitsAllocatesNothing(t *testing.T) {
	n, r := node(), checkpoint()
	if got := testing.AllocsPerRun(100, func() {
		if err := r.Fits(n); err != nil {
			t.Fatal(err)
		}
	}); got > 0 {
		t.Errorf("%v allocations, want none", got)
	}
}

func FuzzParseNode(f *testing.F) {
	f.Add(node().Encode())
	f.Add(`{"version":1,"backends":["Simulated"],"restore":true}`)
	f.Add(`{"version":1,"cpuFeatures":["b","a",""]}`)
	f.Fuzz(func(t *testing.T, text string) {
		n, err := capability.ParseNode(text)
		if err != nil {
			return
		}
		if !slices.IsSorted(n.CPUFeatures) || !slices.IsSorted(n.Backends) {
			t.Errorf("lists are not in order: %+v", n)
		}
		if again, err := capability.ParseNode(n.Encode()); len(n.Encode()) <= capability.MaxBytes && (err != nil || !gocmp.Equal(again, n)) {
			t.Errorf("read %+v, wrote %s, read %+v: %v", n, n.Encode(), again, err)
		}
	})
}

func FuzzParseRequirements(f *testing.F) {
	f.Add(checkpoint().Encode(), node().Encode())
	f.Add(`{"version":1,"backend":"Simulated"}`, "")
	f.Add(`{"version":1,"backend":"Containerd","kernel":"6.","criu":"v4.99999999999999999999"}`, node().Encode())
	f.Fuzz(func(t *testing.T, pod, able string) {
		r, err := capability.ParseRequirements(pod)
		if err != nil {
			return
		}
		if again, err := capability.ParseRequirements(r.Encode()); len(r.Encode()) <= capability.MaxBytes && (err != nil || !gocmp.Equal(again, r)) {
			t.Errorf("read %+v, wrote %s, read %+v: %v", r, r.Encode(), again, err)
		}
		n, _ := capability.ParseNode(able)
		if err := r.Fits(n); err == nil && r.Arch != n.Arch && r.Arch != "" {
			t.Errorf("%+v goes to %+v", r, n)
		}
	})
}

func BenchmarkFits(b *testing.B) {
	features := make([]string, 160)
	for i := range features {
		features[i] = fmt.Sprintf("feature%03d", i)
	}
	n := node(func(n *capability.Node) { n.CPUFeatures = features })
	r := checkpoint(func(r *capability.Requirements) { r.CPUFeatures = slices.Clone(features) })
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Fits(n); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseNode(b *testing.B) {
	text := node().Encode()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := capability.ParseNode(text); err != nil {
			b.Fatal(err)
		}
	}
}
