package profile

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/test/kit/testfile"
)

func sample(t *testing.T) *v1alpha1.MachineProfile {
	t.Helper()
	text := testfile.Read(t, "../../manifests/samples/machineprofile.yaml")
	var o v1alpha1.MachineProfile
	testfile.StrictYAML(t, text, &o)
	return &o
}

func TestTheSampleIsReadAsItSays(t *testing.T) {
	m, err := FromObject(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	if m.Type != "xeon-8" || m.Object != "xeon-8" || m.Power.At(0) != 60 || m.Power.At(1) != 210 || math.Abs(float64(m.Power.At(0.5)-162)) > 1e-9 {
		t.Errorf("%+v, %v W at half load; want 162", m, m.Power.At(0.5))
	}
	if p := m.Profile.Energy.Predict(size(0.5, 2), m.Age(time.Unix(9e9, 0))); math.Abs(p.Value-476) > 1e-9 || p.Trust != 1 {
		t.Errorf("energy %+v, want 476 J", p)
	}
	if p := m.Profile.Runtime.Predict(size(0.5, 2), 0); math.Abs(p.Value-249) > 1e-9 || p.Trust != 1 {
		t.Errorf("runtime %+v, want 249 s", p)
	}
}

func TestWhatIsLearnedIsReadBackUnchanged(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, l := range laws {
		p, _, err := Learn(l.probe(cpus, memories, 0.03))
		if err != nil {
			t.Fatal(err)
		}
		o := &v1alpha1.MachineProfile{Spec: v1alpha1.MachineProfileSpec{MachineType: "t"}, Status: v1alpha1.MachineProfileStatus{Models: p.Object(at, "0123456789abcdef")}}
		m, err := FromObject(o)
		if err != nil || !m.Learned.Equal(at) || m.Age(at.Add(time.Hour)) != time.Hour {
			t.Fatalf("%s: %+v, %v", l.name, m, err)
		}
		for _, pair := range [][2]Model{{m.Profile.Energy, p.Energy}, {m.Profile.Runtime, p.Runtime}} {
			got, want := pair[0], pair[1]
			if !reflect.DeepEqual(got.Coefficients, want.Coefficients) || !reflect.DeepEqual(got.Terms, want.Terms) || got.Range.Least != want.Range.Least || got.Range.Most != want.Range.Most {
				t.Errorf("%s: %+v, want %+v", l.name, got, want)
			}
			if math.Abs(got.Quality.Spread-want.Quality.Spread) > 0.001 || math.Abs(got.Quality.RSquared-want.Quality.RSquared) > 0.001 || math.Abs(got.Range.LeastValue-want.Range.LeastValue) > 0.001 {
				t.Errorf("%s: quality %+v, want %+v", l.name, got.Quality, want.Quality)
			}
		}
	}
}

func TestTinyValuesStayAboveZero(t *testing.T) {
	m := sound()
	m.Range.LeastValue, m.Range.MostValue, m.Quality.Spread = 1e-9, 1e-8, 1e300
	back, err := readModel(m.object())
	if err != nil || back.Range.LeastValue != 0.001 || back.Quality.Spread != 1000 {
		t.Errorf("%+v, %v", back, err)
	}
}

func TestModelsInTheSpecTakePrecedence(t *testing.T) {
	o := sample(t)
	learned := *o.Spec.Models.DeepCopy()
	learned.Energy.Terms[0].Coefficient = "401"
	o.Status.Models = &learned
	if m, err := FromObject(o); err != nil || m.Profile.Energy.Coefficients[0] != 400 {
		t.Errorf("%+v, %v; want those of the spec", m, err)
	}
	o.Spec.Models = nil
	if m, err := FromObject(o); err != nil || m.Profile.Energy.Coefficients[0] != 401 {
		t.Errorf("%+v, %v; want those of the status", m, err)
	}
	o.Status.Models = nil
	if _, err := FromObject(o); !errors.Is(err, ErrNothingLearned) {
		t.Errorf("%v, want ErrNothingLearned", err)
	}
}

// TestEditedProfilesAreRefusedByField uses objects that the API server would reject, unless somebody loosened the CRD.
func TestEditedProfilesAreRefusedByField(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*v1alpha1.MachineProfileSpec)
		says  string
	}{
		{"no machine type", func(s *v1alpha1.MachineProfileSpec) { s.MachineType = "" }, "spec.machineType"},
		{"a coefficient that is NaN", func(s *v1alpha1.MachineProfileSpec) { s.Models.Energy.Terms[1].Coefficient = "NaN" }, "spec.models.energy.terms[1]"},
		{"one too large for a number", func(s *v1alpha1.MachineProfileSpec) { s.Models.Runtime.Terms[0].Coefficient = "1e999" }, "spec.models.runtime.terms[0]"},
		{"one that is text", func(s *v1alpha1.MachineProfileSpec) { s.Models.Runtime.Terms[0].Coefficient = "much" }, "spec.models.runtime.terms[0]"},
		{"no terms", func(s *v1alpha1.MachineProfileSpec) { s.Models.Energy.Terms = nil }, "spec.models.energy.terms"},
		{"an unknown term", func(s *v1alpha1.MachineProfileSpec) { s.Models.Energy.Terms[0].Term = "gpu" }, "spec.models.energy.terms[0]"},
		{"a range the wrong way round", func(s *v1alpha1.MachineProfileSpec) { s.Models.Energy.CPU.Least = resource.MustParse("5") }, "spec.models.energy.range: CPU"},
		{"values from 0", func(s *v1alpha1.MachineProfileSpec) { s.Models.Runtime.Value.Least = resource.Quantity{} }, "spec.models.runtime.range: value"},
		{"no idle power", func(s *v1alpha1.MachineProfileSpec) { s.Power.IdleWatts = resource.Quantity{} }, "spec.power"},
		{"less power when full", func(s *v1alpha1.MachineProfileSpec) { s.Power.FullWatts = resource.MustParse("5") }, "spec.power"},
		{"a curve that falls", func(s *v1alpha1.MachineProfileSpec) { s.Power.Curve[0].PowerPercent = 90 }, "spec.power"},
		{"other hardware", func(s *v1alpha1.MachineProfileSpec) {
			s.Hardware, s.Models.Fingerprint = &v1alpha1.MachineHardware{Fingerprint: "0123456789abcdef"}, "0000000000000000"
		}, "spec.models.fingerprint"},
	}
	for _, tc := range tests {
		o := sample(t)
		tc.spoil(&o.Spec)
		if m, err := FromObject(o); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %+v, error %v, want one that says %q", tc.name, m, err, tc.says)
		}
	}
	same := sample(t)
	same.Spec.Hardware, same.Spec.Models.Fingerprint = &v1alpha1.MachineHardware{Fingerprint: "0123456789abcdef"}, "0123456789abcdef"
	same.Spec.Models.LearnedAt = &metav1.Time{}
	if m, err := FromObject(same); err != nil || m.Age(time.Now()) != 0 {
		t.Errorf("the same hardware: %v", err)
	}
}

// TestNamesAreThoseOfObjects checks that any machine type gives a valid and unique name.
func TestNamesAreThoseOfObjects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one := rapid.StringMatching(`[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?`).Draw(t, "type")
		other := rapid.StringMatching(`[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?`).Draw(t, "other type")
		name := NameOf(one)
		if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
			t.Fatalf("%q: %v", name, errs)
		}
		for _, label := range []string{name, "probe-" + name} {
			if errs := validation.IsValidLabelValue(label); len(errs) > 0 {
				t.Fatalf("%q: %v", label, errs)
			}
		}
		if one != other && name == NameOf(other) {
			t.Fatalf("%q and %q are both %q", one, other, name)
		}
	})
}

// TestPowerIsReadBackAsItWasWritten allows for rounding to the thousandth of a watt and to the percent of the curve.
func TestPowerIsReadBackAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		idle := rapid.Float64Range(0.01, 1000).Draw(t, "idle")
		m := energy.Model{Idle: energy.Watts(idle), Full: energy.Watts(idle + rapid.Float64Range(0, 1000).Draw(t, "rise"))}
		points, share := []energy.Point{{}}, 0.0
		for tenth := 1; tenth < 10; tenth++ {
			share = min(1, share+rapid.Float64Range(0, 0.2).Draw(t, "share"))
			points = append(points, energy.Point{Utilization: float64(tenth) / 10, Share: share})
		}
		var err error
		if m.Curve, err = energy.NewCurve(append(points, energy.Point{Utilization: 1, Share: 1})...); err != nil {
			t.Fatal(err)
		}
		o := &v1alpha1.MachineProfile{Spec: v1alpha1.MachineProfileSpec{MachineType: "t", Power: PowerObject(m)}}
		back, err := PowerOf(o)
		if err != nil {
			t.Fatal(err)
		}
		for u := 0.0; u <= 1; u += 1.0 / 64 {
			if off := math.Abs(float64(back.At(u) - m.At(u))); !(off <= 0.0011+0.0051*float64(m.Full-m.Idle)) {
				t.Fatalf("at %v: %v W of %v", u, back.At(u), m.At(u))
			}
		}
	})
	table, known := energy.BuiltIn().MachineType("m5.large")
	if !known {
		t.Fatal("the table has lost a type")
	}
	if got := PowerObject(table).Curve; len(got) != 2 || got[0].UtilizationPercent != 10 || got[1].UtilizationPercent != 50 {
		t.Errorf("%+v, want points at 10 and 50 %%", got)
	}
	if got := PowerObject(energy.Model{Idle: 1, Full: 2}).Curve; len(got) != 0 {
		t.Errorf("a straight line has points %+v", got)
	}
}
