package outcome

// EnergySummary has the energy of the machines, the times of batch pods, and the effect of moves to
// more suitable machines, over all seeds. Percentages are against the first policy, per seed.
type EnergySummary struct {
	// SavedPercent is the energy saved until the end of each run, and SameEndSavedPercent until the
	// same end for all policies. Each is absent if the first policy used no energy with any seed.
	SavedPercent        *Spread `json:"savedPercent,omitempty"`
	SameEndJoules       Spread  `json:"sameEndJoules"`
	SameEndSavedPercent *Spread `json:"sameEndSavedPercent,omitempty"`
	TaskJoules          Spread  `json:"taskJoules"`
	// RuntimeSecondsMean is the mean, within one run, of the time from the first start of a batch
	// pod to its end. LongerPercent is its increase.
	RuntimeSecondsMean Spread  `json:"runtimeSecondsMean"`
	LongerPercent      *Spread `json:"runtimeLongerPercent,omitempty"`
	// MakespanSeconds is the end of the last batch pod, and LaterPercent its delay.
	MakespanSeconds Spread  `json:"makespanSeconds"`
	LaterPercent    *Spread `json:"makespanLaterPercent,omitempty"`
	// ExpectedSavedJoules and ExpectedAddedJoules are those of [Moves].
	ExpectedSavedJoules Spread `json:"expectedSavedJoules"`
	ExpectedAddedJoules Spread `json:"expectedAddedJoules"`
	// Dollars is the price of the energy, in addition to the bill of the machines. CarbonGrams is
	// its emission. Both are 0 if the scenario does not state them.
	Dollars     Spread `json:"dollars"`
	CarbonGrams Spread `json:"carbonGrams"`
}

// energySummary returns nil unless the energy of the policy, and of the first unless that failed, is
// known with every seed.
func energySummary(reports []Report, i int) *EnergySummary {
	for _, r := range reports {
		first := r.Policies[0]
		if first.Energy == nil && first.Error == "" || r.Policies[i].Energy == nil {
			return nil
		}
	}
	spread, percent := over(reports, i)
	compared := func(by func(value, base float64) (float64, bool), figure func(Policy) float64) *Spread {
		return percent(func(own, first Policy) (float64, bool) { return by(figure(own), figure(first)) })
	}
	total := func(p Policy) float64 { return p.EnergyJoules }
	sameEnd := func(p Policy) float64 {
		if p.Energy == nil { // it failed
			return 0
		}
		return p.Energy.SameEndJoules
	}
	runtime := func(p Policy) float64 { return p.Runtime.mean() }
	makespan := func(p Policy) float64 { return p.MakespanSeconds }
	return &EnergySummary{
		SavedPercent:  compared(percentBelow, total),
		SameEndJoules: spread(sameEnd), SameEndSavedPercent: compared(percentBelow, sameEnd),
		TaskJoules:         spread(func(p Policy) float64 { return p.Energy.TaskJoules }),
		RuntimeSecondsMean: spread(runtime), LongerPercent: compared(percentAbove, runtime),
		MakespanSeconds: spread(makespan), LaterPercent: compared(percentAbove, makespan),
		ExpectedSavedJoules: spread(func(p Policy) float64 { return p.Moves.ExpectedSavedJoules }),
		ExpectedAddedJoules: spread(func(p Policy) float64 { return p.Moves.ExpectedAddedJoules }),
		Dollars:             spread(func(p Policy) float64 { return p.Energy.Dollars }),
		CarbonGrams:         spread(func(p Policy) float64 { return p.Energy.CarbonGrams }),
	}
}

// energyTable shows the energy and the times of batch pods. It has no columns if no policy reports
// energy.
func (s Summary) energyTable() table {
	of := func(figure func(*EnergySummary) *Spread) func(PolicySummary) *Spread {
		return func(p PolicySummary) *Spread {
			if p.Energy == nil {
				return nil
			}
			return figure(p.Energy)
		}
	}
	sameEnd := of(func(e *EnergySummary) *Spread { return e.SameEndJoules.over(1000) })
	if s.largest(sameEnd) == 0 {
		return s.table()
	}
	runtime, makespan := of(func(e *EnergySummary) *Spread { return &e.RuntimeSecondsMean }), of(func(e *EnergySummary) *Spread { return &e.MakespanSeconds })
	span, end := unitFor(s.largest(runtime)), unitFor(s.largest(makespan))
	t := s.table(
		s.column("saved", "%", "How much less energy than the first policy it took, each to the end of its own run.", oneDigit, of(func(e *EnergySummary) *Spread { return e.SavedPercent })),
		s.column("same end", "kJ", "What the machines drew until the longest run of the seed ended.", digitsFor, sameEnd),
		s.column("saved", "%", "How much less than the first policy it took up to the same end.", oneDigit, of(func(e *EnergySummary) *Spread { return e.SameEndSavedPercent })),
		s.column("tasks", "kJ", "What pods drew above idle power.", digitsFor, of(func(e *EnergySummary) *Spread { return e.TaskJoules.over(1000) })),
		s.column("runtime", span.symbol, "From the first start of a batch pod to its end, the mean within one run.", digitsFor, of(func(e *EnergySummary) *Spread { return e.RuntimeSecondsMean.over(span.seconds) })),
		s.column("longer", "%", "How much longer that is than under the first policy.", oneDigit, of(func(e *EnergySummary) *Spread { return e.LongerPercent })),
		s.column("makespan", end.symbol, "When the last batch pod ended.", digitsFor, of(func(e *EnergySummary) *Spread { return e.MakespanSeconds.over(end.seconds) })))
	for _, i := range []int{0, 2, 5} {
		t.columns[i].cells[0] = cell{value: absent}
	}
	if dollars := of(func(e *EnergySummary) *Spread { return &e.Dollars }); s.largest(dollars) > 0 {
		t.columns = append(t.columns, s.column("electricity", "$", "The cost of the energy, in addition to the bill of the machines.", dollarsDigits, dollars))
	}
	if grams := of(func(e *EnergySummary) *Spread { return &e.CarbonGrams }); s.largest(grams) > 0 {
		t.columns = append(t.columns, s.column("carbon", "g", "The emissions of the energy, in grams of CO2 equivalent.", digitsFor, grams))
	}
	return t
}
