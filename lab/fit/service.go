package fit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/autoscaler/replica/queueing"
)

// Service is a fitted queueing model with its goodness of fit.
type Service struct {
	Samples int `json:"samples"`
	// LeftOut counts the rows that cannot be used.
	LeftOut int `json:"leftOut"`
	// Model is the queueing model of a replica, with the digits that are printed.
	Model queueing.Model `json:"model"`
	// ResidualSeconds is the root mean squared error.
	ResidualSeconds float64 `json:"residualSeconds"`
	RSquared        float64 `json:"rSquared"`
	Replicas        Range   `json:"replicasSeen"`
	Rates           Range   `json:"arrivalRatesSeen"`
	// Needed is the number of replicas for an SLO, if [Service.Need] was called.
	Needed *Needed `json:"needed,omitempty"`
	// Service is the model as a ReplicaPolicy has it.
	Service ServiceConstants `json:"-"`
}

// ServiceConstants are a [v1alpha1.ServiceModel] with decimal numbers: a quantity would be printed in thousandths or millionths.
// All constants are present, so that a patch overwrites all of the old ones.
type ServiceConstants struct {
	RatePerReplica  string `json:"ratePerReplica"`
	SpeedUp         string `json:"speedUp"`
	PastWeight      string `json:"pastWeight"`
	PeakArrivalRate string `json:"peakArrivalRate,omitempty"`
}

// Needed is the lowest number of replicas that keeps an SLO by a model.
type Needed struct {
	ArrivalRate     float64         `json:"arrivalRate"`
	SLO             metav1.Duration `json:"slo"`
	Replicas        int             `json:"replicas"`
	ResponseSeconds float64         `json:"responseSeconds"`
}

// NewService fits the queueing model to a series of steps. fixedRate keeps c at 0. The error says why the samples do not determine a
// model, and may wrap [queueing.ErrUndetermined].
func NewService(samples []queueing.Sample, fixedRate bool) (*Service, error) {
	fitted, err := queueing.Fit(samples, queueing.FitOptions{FixedRate: fixedRate})
	if err != nil {
		return nil, err
	}
	s := &Service{Samples: fitted.Used, LeftOut: fitted.Dropped, ResidualSeconds: fitted.Residual, RSquared: fitted.R2}
	s.Replicas, s.Rates = seen(samples)
	return s, s.settle(fitted.Model)
}

// seen returns the ranges of the valid samples.
func seen(samples []queueing.Sample) (replicas, rates Range) {
	replicas, rates = Range{math.Inf(1), 0}, Range{math.Inf(1), 0}
	for _, s := range samples {
		if s.Valid() {
			replicas = Range{min(replicas.Least, float64(s.Replicas)), max(replicas.Most, float64(s.Replicas))}
			rates = Range{min(rates.Least, s.ArrivalRate), max(rates.Most, s.ArrivalRate)}
		}
	}
	return replicas, rates
}

// negligible is the share of the service rate below which one of its two parts is ignored.
const negligible = 1e-3

// maxMuB is more requests per second than any replica serves. A fit that exceeds it explains nothing.
const maxMuB = 1e9

// settle rounds the constants to the printed digits, so that all outputs agree. A c that is negligible at every rate
// becomes 0. A negligible mu_b is refused: the model would predict that replicas do no work at rates outside the
// samples.
func (s *Service) settle(m queueing.Model) error {
	if m.C < negligible*m.MuB*s.Rates.Least {
		m.C = 0
	}
	if m.MuB > maxMuB {
		return fmt.Errorf("fit the queueing model: %w: their response times do not rise with the load of a replica", queueing.ErrUndetermined)
	}
	if m.MuB < negligible*m.C/s.Rates.Most {
		return fmt.Errorf("fit the queueing model: %w: the service rate falls as 1/lambda up to %.6g/s, so its limit is unknown: provide samples of a busier service, or fix the service rate",
			queueing.ErrUndetermined, s.Rates.Most)
	}
	s.Service.RatePerReplica, s.Model.MuB = rounded(m.MuB)
	s.Service.SpeedUp, s.Model.C = rounded(m.C)
	s.Service.PastWeight, s.Model.Alpha = rounded(m.Alpha)
	return s.Model.Validate() // mu_b may have been rounded to 0
}

// rounded returns a number with six digits, none of them beyond the ninth decimal place, the last that a quantity has.
func rounded(x float64) (string, float64) {
	six, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	text := strings.TrimRight(strconv.FormatFloat(six, 'f', 9, 64), "0")
	text = strings.TrimSuffix(text, ".")
	x, _ = strconv.ParseFloat(text, 64)
	return text, x
}

// Need computes the number of replicas that keeps an SLO at an arrival rate. It fails if that exceeds
// [queueing.MaxServers]. The SLO must be one that [queueing.Model.CheckSLO] allows.
func (s *Service) Need(slo time.Duration, peak float64) error {
	n, err := queueing.Inverse(peak, s.Model.ServiceRate(peak), slo.Seconds(), queueing.MaxServers)
	if err != nil {
		return err
	}
	s.Needed = &Needed{ArrivalRate: peak, SLO: metav1.Duration{Duration: slo}, Replicas: n, ResponseSeconds: s.Model.System(n, peak).Response()}
	s.Service.PeakArrivalRate = strconv.FormatFloat(peak, 'f', -1, 64)
	return nil
}
