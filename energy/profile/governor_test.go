package profile

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// governedBy returns a machine that runs under the first governor. The models of each governor predict its position, from
// 1.
func governedBy(governors ...string) *Machine {
	of := func(v float64) Profile {
		m := Model{Terms: []Term{One}, Coefficients: []float64{v}, Range: Range{LeastValue: v, MostValue: v}}
		return Profile{Energy: m, Runtime: m}
	}
	m := &Machine{Profile: of(1), Governor: governors[0]}
	for i, g := range governors[1:] {
		m.Others = append(m.Others, Governed{g, of(float64(i + 2))})
	}
	return m
}

func TestANodeIsPredictedByTheModelsOfItsGovernor(t *testing.T) {
	three := []string{"schedutil", "performance", "powersave"}
	tests := []struct {
		name, node string
		machine    []string
		want       float64 // number of the model
		exact      bool
	}{
		{"its own", "schedutil", three, 1, true},
		{"another that was learned", "performance", three, 2, true},
		{"the other", "powersave", three, 3, true},
		{"it is not known which the node has", "", three, 1, true},
		{"rises as fast", "ondemand", three, 1, false},
		{"rises slowly: as near to powersave as to performance, and nearer to schedutil", "conservative", three, 1, false},
		{"nearer to performance", "ondemand", []string{"powersave", "performance"}, 2, false},
		{"as near: the machine's own", "conservative", []string{"performance", "powersave"}, 1, false},
		{"nobody knows it: in the middle", "userspace", []string{"performance", "powersave"}, 1, false},
		{"CPUs differ", "performance,schedutil", []string{"powersave", "performance"}, 2, false},
		{"CPUs differ as they did", "performance,powersave", []string{"performance,powersave", "powersave"}, 1, true},
		{"nothing else was learned", "powersave", []string{"schedutil"}, 1, false},
		{"it is not known which was learned under", "powersave", []string{""}, 1, true},
		{"nor that of the first, but the node's", "powersave", []string{"", "powersave"}, 2, true},
	}
	for _, tc := range tests {
		p, exact := governedBy(tc.machine...).Under(tc.node)
		if got := p.Energy.Coefficients[0]; got != tc.want || exact != tc.exact {
			t.Errorf("%s: models %v, exact %v; want %v, %v", tc.name, got, exact, tc.want, tc.exact)
		}
	}
}

// TestOneOfTheModelsIsAlwaysFound checks that there is a model for any governor, and that it is the governor's own if
// it has one.
func TestOneOfTheModelsIsAlwaysFound(t *testing.T) {
	names := []string{"powersave", "conservative", "ondemand", "schedutil", "performance", "userspace", "performance,powersave", ",,", "?"}
	rapid.Check(t, func(t *rapid.T) {
		learned := rapid.Permutation(names).Draw(t, "learned")[:rapid.IntRange(1, 4).Draw(t, "n")]
		node := rapid.SampledFrom(names).Draw(t, "node")
		p, exact := governedBy(learned...).Under(node)
		if at := slices.Index(learned, node); exact != (at >= 0) || exact && p.Energy.Coefficients[0] != float64(at+1) {
			t.Fatalf("%q of %q: models %v, exact %v", node, learned, p.Energy.Coefficients, exact)
		}
	})
}

func TestModelsOfAnotherGovernorAreTrustedHalf(t *testing.T) {
	p := Prediction{Value: 3, Trust: 0.8, Doubts: Old}.Doubted()
	if p.Value != 3 || p.Trust != 0.4 || p.Doubts != Old|OtherGovernor || !strings.Contains(p.Doubts.String(), "another CPU governor") {
		t.Errorf("%+v (%s)", p, p.Doubts)
	}
}

// underGovernors returns the sample with models for two more governors.
func underGovernors(t *testing.T) *v1alpha1.MachineProfile {
	t.Helper()
	o := sample(t)
	o.Spec.Models.Governor = "schedutil"
	for _, g := range []string{"powersave", "performance"} {
		m := o.Spec.Models.DeepCopy()
		m.Energy.Terms[0].Coefficient = map[string]string{"powersave": "300", "performance": "500"}[g]
		o.Spec.Models.Governors = append(o.Spec.Models.Governors, v1alpha1.GovernorModels{Governor: g, Energy: m.Energy, Runtime: m.Runtime})
	}
	return o
}

func TestModelsOfGovernorsAreReadAndWritten(t *testing.T) {
	o := underGovernors(t)
	m, err := FromObject(o)
	if err != nil {
		t.Fatal(err)
	}
	for governor, want := range map[string]float64{"schedutil": 476, "powersave": 376, "performance": 576} {
		p, exact := m.Under(governor)
		if got := p.Energy.Predict(size(0.5, 2), 0).Value; got < want-1e-9 || got > want+1e-9 || !exact {
			t.Errorf("%s: %v J, want %v", governor, got, want)
		}
	}
	var names []string
	for _, other := range m.Others {
		names = append(names, other.Governor)
		if back := other.Object(); back.Governor != other.Governor || back.Energy.Terms[0].Coefficient != map[string]string{"powersave": "300", "performance": "500"}[back.Governor] {
			t.Errorf("%+v becomes %+v", other, back)
		}
	}
	if !slices.Equal(names, []string{"performance", "powersave"}) {
		t.Errorf("governors %q, want them in order", names)
	}
}

// TestEditedModelsOfGovernorsAreRefused checks that a profile with one invalid part is not used.
func TestEditedModelsOfGovernorsAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*v1alpha1.MachineModels)
		says  string
	}{
		"a coefficient that is NaN": {func(m *v1alpha1.MachineModels) { m.Governors[1].Runtime.Terms[0].Coefficient = "NaN" }, "spec.models.governors[1].runtime.terms[0]"},
		"half of it is missing":     {func(m *v1alpha1.MachineModels) { m.Governors[0].Energy = v1alpha1.MachineModel{} }, "spec.models.governors[0].energy.terms"},
		"no name":                   {func(m *v1alpha1.MachineModels) { m.Governors[0].Governor = "" }, "spec.models.governors[0].governor"},
		"one twice":                 {func(m *v1alpha1.MachineModels) { m.Governors[0].Governor = "performance" }, "spec.models.governors[1].governor"},
		"the machine's own":         {func(m *v1alpha1.MachineModels) { m.Governors[1].Governor = "schedutil" }, "spec.models.governors[1].governor"},
	} {
		o := underGovernors(t)
		tc.spoil(o.Spec.Models)
		if m, err := FromObject(o); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %+v, error %v, want one that says %q", name, m, err, tc.says)
		}
	}
}

func TestNamesOfGovernors(t *testing.T) {
	for name, want := range map[string]bool{"powersave": true, "performance,schedutil": true, "": false, "Power Save": false, "a\n": false, strings.Repeat("a", 65): false} {
		if IsGovernor(name) != want {
			t.Errorf("%q: %v, want %v", name, !want, want)
		}
	}
}
