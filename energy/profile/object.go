package profile

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy"
)

// Machine is a parsed and validated MachineProfile.
type Machine struct {
	Type string
	// Object is the name of the MachineProfile.
	Object string
	// Profile predicts for machines that run under Governor, which is empty if there is none or it is unknown. Others
	// predict for other governors, sorted by name.
	Profile  Profile
	Governor string
	Others   []Governed
	// Learned is when the models were learned; zero for models that do not age.
	Learned time.Time
	// Power is zero if the profile states none.
	Power energy.Model
}

// Age returns the age of the models at a time, or 0 if they do not age.
func (m *Machine) Age(now time.Time) time.Duration {
	if m.Learned.IsZero() {
		return 0
	}
	return now.Sub(m.Learned)
}

// ErrNothingLearned is returned for a profile without models, which is otherwise valid.
var ErrNothingLearned = errors.New("nothing has been learned yet")

// FromObject parses a MachineProfile. It does not rely on validation by the API server, because users may have edited
// the object or its CRD. Errors name the field.
func FromObject(o *v1alpha1.MachineProfile) (*Machine, error) {
	m := &Machine{Type: o.Spec.MachineType, Object: o.Name}
	if m.Type == "" {
		return nil, errors.New("spec.machineType: the name of a machine type is required")
	}
	if err := m.readPower(o.Spec.Power); err != nil {
		return nil, fmt.Errorf("spec.power: %w", err)
	}
	models, from := o.Spec.Models, "spec.models"
	if models == nil {
		models, from = o.Status.Models, "status.models"
	}
	if models == nil {
		return nil, ErrNothingLearned
	}
	if h := o.Spec.Hardware; h != nil && models.Fingerprint != "" && h.Fingerprint != models.Fingerprint {
		return nil, fmt.Errorf("%s.fingerprint: %s differs from that of spec.hardware, %s: the models must be learned again",
			from, models.Fingerprint, h.Fingerprint)
	}
	var errs []error
	read := func(field string, model v1alpha1.MachineModel) Model {
		read, err := readModel(model)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s.%s.%w", from, field, err))
		}
		return read
	}
	m.Profile = Profile{Energy: read("energy", models.Energy), Runtime: read("runtime", models.Runtime)}
	m.Governor = models.Governor
	for i := range models.Governors {
		g, field := &models.Governors[i], fmt.Sprintf("governors[%d].", i)
		if g.Governor == "" || g.Governor == m.Governor || slices.ContainsFunc(m.Others, func(o Governed) bool { return o.Governor == g.Governor }) {
			errs = append(errs, fmt.Errorf("%s.%sgovernor: %q: must be a unique name", from, field, g.Governor))
		}
		m.Others = append(m.Others, Governed{g.Governor, Profile{Energy: read(field+"energy", g.Energy), Runtime: read(field+"runtime", g.Runtime)}})
	}
	slices.SortFunc(m.Others, func(a, b Governed) int { return cmp.Compare(a.Governor, b.Governor) })
	if models.LearnedAt != nil {
		m.Learned = models.LearnedAt.Time
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return m, nil
}

// StatedPower holds the power models of MachineProfiles, by machine type.
type StatedPower map[string]energy.Model

// Add adds the power model of a profile. A profile without power changes nothing, nor does a second one for a type. The
// error names the field.
func (p StatedPower) Add(o *v1alpha1.MachineProfile) error {
	model, err := PowerOf(o)
	if o.Spec.MachineType == "" {
		err = errors.Join(errors.New("spec.machineType: the name of a machine type is required"), err)
	}
	if err != nil {
		return err
	}
	if _, known := p[o.Spec.MachineType]; !known && o.Spec.Power != nil {
		p[o.Spec.MachineType] = model
	}
	return nil
}

// OfType returns the power model of a machine type: that of its profile, else that of the built-in table; false if
// neither has the type.
func (p StatedPower) OfType(machineType string) (energy.Model, bool) {
	if m, stated := p[machineType]; stated {
		return m, true
	}
	return energy.BuiltIn().MachineType(machineType)
}

// Of returns the power model of a machine by its type, or else by its number of cores.
func (p StatedPower) Of(machineType string, cores float64) energy.Model {
	if m, known := p.OfType(machineType); known {
		return m
	}
	m, _ := energy.BuiltIn().CPUs("", "", cores)
	return m
}

// PowerOf parses the power model of a MachineProfile. It returns the zero value if there is none. The error names the
// field.
func PowerOf(o *v1alpha1.MachineProfile) (energy.Model, error) {
	var m Machine
	if err := m.readPower(o.Spec.Power); err != nil {
		return energy.Model{}, fmt.Errorf("spec.power: %w", err)
	}
	return m.Power, nil
}

func (m *Machine) readPower(p *v1alpha1.MachinePower) error {
	if p == nil {
		return nil
	}
	m.Power = energy.Model{Idle: energy.Watts(p.IdleWatts.AsApproximateFloat64()), Full: energy.Watts(p.FullWatts.AsApproximateFloat64())}
	if len(p.Curve) > 0 {
		points := []energy.Point{{}}
		for _, q := range slices.SortedFunc(slices.Values(p.Curve), func(a, b v1alpha1.PowerPoint) int {
			return cmp.Compare(a.UtilizationPercent, b.UtilizationPercent)
		}) {
			points = append(points, energy.Point{Utilization: float64(q.UtilizationPercent) / 100, Share: float64(q.PowerPercent) / 100})
		}
		var err error
		if m.Power.Curve, err = energy.NewCurve(append(points, energy.Point{Utilization: 1, Share: 1})...); err != nil {
			return err
		}
	}
	return m.Power.Validate()
}

// PowerObject returns a power model in the form of a MachineProfile. [PowerOf] parses it with watts rounded to the
// thousandth, and the points of its curve rounded to the percent of utilisation and power. Points that round to the
// utilisation of another point or of an end are omitted.
func PowerObject(m energy.Model) *v1alpha1.MachinePower {
	milli := func(w energy.Watts) resource.Quantity {
		return *resource.NewMilliQuantity(thousandths(float64(w)), resource.DecimalSI)
	}
	o := &v1alpha1.MachinePower{IdleWatts: milli(m.Idle), FullWatts: milli(m.Full)}
	last := int32(0)
	for _, p := range m.Curve.Points() {
		if at := int32(math.Round(100 * p.Utilization)); at > last && at < 100 {
			o.Curve = append(o.Curve, v1alpha1.PowerPoint{UtilizationPercent: at, PowerPercent: int32(math.Round(100 * p.Share))})
			last = at
		}
	}
	return o
}

// NameOf derives an object name, such as that of a MachineProfile, from a machine type: the type itself if it is a
// valid name, else a similar name with a hash. Different types give different names.
func NameOf(machineType string) string {
	const most = 40 // short enough for a label together with a prefix
	if isName.MatchString(machineType) && len(machineType) <= most {
		return machineType
	}
	near := notName.ReplaceAllString(strings.ToLower(machineType), "-")
	sum := sha256.Sum256([]byte(machineType))
	return strings.Trim(near[:min(len(near), most)], "-") + "-" + hex.EncodeToString(sum[:4])
}

var (
	isName  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	notName = regexp.MustCompile(`[^a-z0-9]+`)
)

func readModel(o v1alpha1.MachineModel) (Model, error) {
	m := Model{
		Range: Range{
			Least:      Size{o.CPU.Least.MilliValue(), o.Memory.Least.Value()},
			Most:       Size{o.CPU.Most.MilliValue(), o.Memory.Most.Value()},
			LeastValue: o.Value.Least.AsApproximateFloat64(),
			MostValue:  o.Value.Most.AsApproximateFloat64(),
		},
		Quality: Quality{
			Samples: int(o.Samples), Sizes: int(o.Sizes),
			RSquared: float64(o.RSquaredPermille) / 1000, Spread: float64(o.SpreadPermille) / 1000,
		},
	}
	for i, t := range o.Terms {
		c, err := strconv.ParseFloat(t.Coefficient, 64)
		if err != nil {
			return Model{}, fmt.Errorf("terms[%d]: coefficient %q: must be a decimal number", i, t.Coefficient)
		}
		m.Terms, m.Coefficients = append(m.Terms, Term(t.Term)), append(m.Coefficients, c)
	}
	return m, m.Validate()
}

// Object returns the models in the form of a MachineProfile. [FromObject] parses them with unchanged coefficients, and
// values and quality rounded to the thousandth.
func (p Profile) Object(learned time.Time, fingerprint string) *v1alpha1.MachineModels {
	return &v1alpha1.MachineModels{
		Energy: p.Energy.object(), Runtime: p.Runtime.object(),
		LearnedAt: &metav1.Time{Time: learned}, Fingerprint: fingerprint,
	}
}

// Object returns the models of a governor in the form of a MachineProfile.
func (g Governed) Object() v1alpha1.GovernorModels {
	return v1alpha1.GovernorModels{Governor: g.Governor, Energy: g.Profile.Energy.object(), Runtime: g.Profile.Runtime.object()}
}

func (m Model) object() v1alpha1.MachineModel {
	o := v1alpha1.MachineModel{
		CPU: v1alpha1.ModelRange{
			Least: *resource.NewMilliQuantity(m.Range.Least.MilliCPU, resource.DecimalSI),
			Most:  *resource.NewMilliQuantity(m.Range.Most.MilliCPU, resource.DecimalSI),
		},
		Memory: v1alpha1.ModelRange{
			Least: *resource.NewQuantity(m.Range.Least.MemoryBytes, resource.BinarySI),
			Most:  *resource.NewQuantity(m.Range.Most.MemoryBytes, resource.BinarySI),
		},
		// Round to at least a thousandth, so that it stays above 0.
		Value: v1alpha1.ModelRange{
			Least: *resource.NewMilliQuantity(thousandths(m.Range.LeastValue), resource.DecimalSI),
			Most:  *resource.NewMilliQuantity(thousandths(m.Range.MostValue), resource.DecimalSI),
		},
		Samples: int32(min(m.Quality.Samples, math.MaxInt32)), Sizes: int32(min(m.Quality.Sizes, math.MaxInt32)),
		RSquaredPermille: int32(math.Round(1000 * m.Quality.RSquared)),
		SpreadPermille:   int32(math.Round(min(1000*m.Quality.Spread, maxPermille))),
	}
	for i, t := range m.Terms {
		o.Terms = append(o.Terms, v1alpha1.ModelCoefficient{Term: v1alpha1.ModelTerm(t), Coefficient: strconv.FormatFloat(m.Coefficients[i], 'g', -1, 64)})
	}
	return o
}

// maxPermille is the maximum spread in the API: a thousandfold error.
const maxPermille = 1e6

// thousandths converts a value above 0 to thousandths, at least 1.
func thousandths(v float64) int64 {
	return int64(max(1, math.Round(min(v*1000, math.MaxInt64/2))))
}
