// Package fit fits models to measurements and reports how well they fit: the power of a machine, for a MachineProfile,
// and the queueing model of a service, for a ReplicaPolicy. The fits themselves are in packages energy and queueing.
// This package adds the form of the objects, with the digits that are printed. Reading files and printing is up to the
// caller.
//
// The package is pure.
package fit

import (
	"errors"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/profile"
)

// Power is a fitted power model and its quality, in JSON form.
type Power struct {
	MachineType string `json:"machineType,omitempty"`
	Samples     int    `json:"samples"`
	// Power is the model by utilisation, in the form of spec.power of a MachineProfile.
	Power *v1alpha1.MachinePower `json:"power,omitempty"`
	// FullLoad is the load that counts as a utilisation of 1, with --load-column.
	FullLoad float64 `json:"fullLoad,omitempty"`
	// Seen is the range of utilisation of the samples. Beyond it the model is constant.
	Seen *Range `json:"utilizationSeen,omitempty"`
	// ByCounters is the model by counters.
	ByCounters *Counters `json:"byCounters,omitempty"`
	// Fitted is the quality on the samples themselves, HeldOut that on samples that were held out.
	Fitted  Quality `json:"fitted"`
	HeldOut struct {
		LastHalf Quality `json:"lastHalf"`
		Between  Quality `json:"everyOtherTwentieth"`
	} `json:"heldOut"`
}

// Range is the range of the samples.
type Range struct {
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
}

// Quality is how well a model predicts some samples. MeanErrorPercent is the mean of |predicted - measured| / measured.
type Quality struct {
	MeanErrorPercent float64 `json:"meanErrorPercent"`
	RSquared         float64 `json:"rSquared"`
	Samples          int     `json:"samples"`
}

// Counters is an [energy.CounterModel]: the idle power, and for each counter the rises in watts of the equal parts of
// its range up to full.
type Counters struct {
	IdleWatts float64   `json:"idleWatts"`
	Counters  []Counter `json:"counters"`
}

// Counter is one counter. Full is in the unit of its column, per second.
type Counter struct {
	Column string    `json:"column"`
	Full   float64   `json:"full"`
	Rises  []float64 `json:"risesWatts"`
}

// ByUtilization fits a curve of power by utilisation, the only rate of each sample. With scaled, the greatest rate
// counts as a utilisation of 1; otherwise the rate is from 0 to 1. It fails if there are too few samples, or none with
// a load.
func ByUtilization(samples []energy.Activity, scaled bool) (*Power, error) {
	p := &Power{Samples: len(samples)}
	return p, p.fit(samples, func(known []energy.Activity) (judge, error) { return p.byUtilization(scaled, known) })
}

// ByCounters fits a curve to each of several counters, which are the rates of the samples in the order of columns. It
// fails if there are too few samples.
func ByCounters(samples []energy.Activity, columns []string) (*Power, error) {
	p := &Power{Samples: len(samples)}
	return p, p.fit(samples, func(known []energy.Activity) (judge, error) { return p.byCounters(columns, known) })
}

// judge returns how well a model predicts samples.
type judge = func(unseen []energy.Activity) energy.Quality

// fit fits parts of the samples to judge the model on the others, and then all samples.
func (p *Power) fit(samples []energy.Activity, try func(known []energy.Activity) (judge, error)) error {
	held, err := energy.HoldOut(samples, try)
	if err != nil {
		return err
	}
	ofAll, err := try(samples) // must be last: p then holds the fit to all samples
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

// byUtilization fits a curve. It judges the model in its printed form, with the digits of a MachineProfile.
func (p *Power) byUtilization(scaled bool, known []energy.Activity) (judge, error) {
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
func (p *Power) byCounters(columns []string, known []energy.Activity) (judge, error) {
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
