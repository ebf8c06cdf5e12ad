package queueing

import (
	"math"
	"strings"
	"testing"
)

func TestServiceRateFallsTowardsTheBasicRate(t *testing.T) {
	m := PaperModel()
	for _, tc := range []struct{ lambda, want float64 }{{100, 23.5161}, {706, 10.0012}, {1e12, 7.771}, {0, math.Inf(1)}} {
		if got := m.ServiceRate(tc.lambda); got != tc.want && !(math.Abs(got-tc.want) <= 5e-5) {
			t.Errorf("mu(%v) = %v, want %v", tc.lambda, got, tc.want)
		}
	}
	if got := (Model{MuB: 4}).ServiceRate(0); got != 4 {
		t.Errorf("a fixed rate is %v when nobody asks, want 4", got)
	}
}

func TestAnSLOBelowTheBareServiceTimeIsRefusedByName(t *testing.T) {
	m := PaperModel()
	if err := m.CheckSLO(0.1, 706); err != nil {
		t.Errorf("100 ms at 706/s: %v, want it accepted", err)
	}
	err := m.CheckSLO(0.1, 800)
	if err == nil || !strings.Contains(err.Error(), "takes 0.102") {
		t.Errorf("100 ms at 800/s: %v, want it refused with the least that can be kept, 0.1027 s", err)
	}
	for _, slo := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if m.CheckSLO(slo, 1) == nil {
			t.Errorf("an SLO of %v s is accepted", slo)
		}
	}
}

func TestModelsOutOfRangeAreRefusedAllFieldsAtOnce(t *testing.T) {
	if err := PaperModel().Validate(); err != nil {
		t.Error(err)
	}
	err := Model{MuB: 0, C: -1, Alpha: 1}.Validate()
	for _, field := range []string{"mu_b", "c -1", "alpha"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v, want it to name %s", err, field)
		}
	}
	if (Model{MuB: math.NaN(), Alpha: math.NaN()}).Validate() == nil {
		t.Error("NaN is accepted")
	}
}
