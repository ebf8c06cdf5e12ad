package fit

import (
	"testing"

	"supercargo.dev/supercargo/autoscaler/replica/queueing"
)

// TestConstantsOfNoServiceAreRefused covers results of the search for samples that come from no service, which a
// ReplicaPolicy cannot hold.
func TestConstantsOfNoServiceAreRefused(t *testing.T) {
	t.Parallel()
	for _, m := range []queueing.Model{{MuB: 1.1e9}, {MuB: 1e-10}, {MuB: 1, C: 1.1e5}} {
		s := Service{Rates: Range{1, 100}}
		if err := s.settle(m); err == nil {
			t.Errorf("%+v is taken as %+v", m, s.Service)
		}
	}
	for _, m := range []queueing.Model{{MuB: 1e9}, {MuB: 1e-9}, {MuB: 1, C: 0.9e5}} {
		s := Service{Rates: Range{1, 100}}
		if err := s.settle(m); err != nil || s.Model != m {
			t.Errorf("%+v is taken as %+v, %v", m, s.Service, err)
		}
	}
}
