// Package powerfit fits a machine's power model to a measured series and says how good it is: by
// samples that the model was not fitted to, and by those that it was. The fits themselves are in
// package energy; what is added here is what a MachineProfile can hold of them, and their
// quality. Reading files and printing is up to the caller.
package powerfit

import (
	"errors"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/energy"
	"supercargo.dev/supercargo/internal/energy/profile"
)

// Fit is a fitted model, and how good it is, as JSON says it.
type Fit struct {
	MachineType string `json:"machineType,omitempty"`
	Samples     int    `json:"samples"`
	// Power is the model by utilisation, in the form of spec.power of a MachineProfile.
	Power *v1alpha1.MachinePower `json:"power,omitempty"`
	// FullLoad is what counts as a utilisation of 1, with --load-column.
	FullLoad float64 `json:"fullLoad,omitempty"`
	// Seen is the range of utilisation. Beyond it the model goes on flat.
	Seen *Range `json:"utilizationSeen,omitempty"`
	// ByCounters is the model by counters.
	ByCounters *Counters `json:"byCounters,omitempty"`
	// MeanErrorPercent is the mean of |predicted - measured| / measured: of Fitted on the samples
	// themselves, of the others on those that were held out.
	Fitted  Quality `json:"fitted"`
	HeldOut struct {
		LastHalf Quality `json:"lastHalf"`
		Between  Quality `json:"everyOtherTwentieth"`
	} `json:"heldOut"`
}

// Range is between which values of what counts there were samples.
type Range struct {
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
}

// Quality is how well a model says what some samples measured.
type Quality struct {
	MeanErrorPercent float64 `json:"meanErrorPercent"`
	RSquared         float64 `json:"rSquared"`
	Samples          int     `json:"samples"`
}

// Counters is an [energy.CounterModel]: watts without load, and for each counter by how many
// watts each of the parts of equal width rises into which the range up to full is divided.
type Counters struct {
	IdleWatts float64   `json:"idleWatts"`
	Counters  []Counter `json:"counters"`
}

// Counter is one of them. Full is in the unit of its column, per second.
type Counter struct {
	Column string    `json:"column"`
	Full   float64   `json:"full"`
	Rises  []float64 `json:"risesWatts"`
}

// ByUtilization fits a curve of power by utilisation, the one rate of each sample. With scaled
// the greatest rate counts as a utilisation of 1, else the rate is 0 to 1. It fails where there
// are too few samples, or none with a load.
func ByUtilization(samples []energy.Activity, scaled bool) (*Fit, error) {
	p := &Fit{Samples: len(samples)}
	return p, p.fit(samples, func(known []energy.Activity) (judge, error) { return p.byUtilization(scaled, known) })
}

// ByCounters fits a curve to each of several counters, which are the rates of the samples in the
// order of the columns. It fails where there are too few samples.
func ByCounters(samples []energy.Activity, columns []string) (*Fit, error) {
	p := &Fit{Samples: len(samples)}
	return p, p.fit(samples, func(known []energy.Activity) (judge, error) { return p.byCounters(columns, known) })
}

// judge says how well a model predicts samples.
type judge = func(unseen []energy.Activity) energy.Quality

// fit fits to parts of the samples to judge the model by the others, and then to all.
func (p *Fit) fit(samples []energy.Activity, try func(known []energy.Activity) (judge, error)) error {
	held, err := energy.HoldOut(samples, try)
	if err != nil {
		return err
	}
	ofAll, err := try(samples) // the last: what it leaves in p is of all samples
	if err != nil {
		return err
	}
	q := ofAll(samples)
	p.Fitted, p.HeldOut.LastHalf, p.HeldOut.Between = inPercent(q), inPercent(held.LastHalf), inPercent(held.Between)
	if p.Power != nil {
		p.Seen = &Range{q.Least, q.Most}
	}
	return nil
}

func inPercent(q energy.Quality) Quality {
	return Quality{MeanErrorPercent: 100 * q.MeanError, RSquared: q.RSquared, Samples: q.Samples}
}

// byUtilization fits a curve. What is judged is what is printed, with the digits that a
// MachineProfile has.
func (p *Fit) byUtilization(scaled bool, known []energy.Activity) (judge, error) {
	full := 1.0
	if scaled {
		full = 0
		for _, s := range known {
			full = max(full, s.Rates[0])
		}
		if full == 0 {
			return nil, errors.New("the load is 0 in all rows")
		}
		p.FullLoad = full
	}
	model, _, err := energy.Fit(energy.ByUtilization(known, full))
	if err != nil {
		return nil, err
	}
	p.Power = profile.PowerObject(model)
	model, err = profile.PowerOf(&v1alpha1.MachineProfile{Spec: v1alpha1.MachineProfileSpec{Power: p.Power}})
	if err != nil {
		return nil, err
	}
	return func(unseen []energy.Activity) energy.Quality {
		return energy.QualityOf(model, energy.ByUtilization(unseen, full))
	}, nil
}

// byCounters fits a curve to each counter.
func (p *Fit) byCounters(columns []string, known []energy.Activity) (judge, error) {
	model, err := energy.FitCounters(known)
	if err != nil {
		return nil, err
	}
	p.ByCounters = &Counters{IdleWatts: float64(model.Idle)}
	for i, column := range columns {
		part := Counter{Column: column, Full: model.Full[i]}
		for _, rise := range model.Rises[i] {
			part.Rises = append(part.Rises, float64(rise))
		}
		p.ByCounters.Counters = append(p.ByCounters.Counters, part)
	}
	return func(unseen []energy.Activity) energy.Quality { return energy.QualityOfCounters(model, unseen) }, nil
}
