package migration

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/migration/decide"
)

// registry knows which migrations are in flight. The cache may not know yet what this
// process has written, so that is remembered.
type registry struct {
	// admission is held by who looks at the others until it has gone or not.
	admission sync.Mutex

	mu sync.Mutex
	// latest has what this process last wrote of a migration; nil if that has ended.
	latest map[types.UID]*decide.Flight
}

// wrote remembers what was written.
func (r *registry) wrote(m *v1alpha1.Migration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latest[m.UID] = decide.FlightOf(m)
}

// others returns which of the migrations but one are in flight.
func (r *registry) others(all []v1alpha1.Migration, but types.UID) (flights []decide.Flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	there := make(map[types.UID]bool, len(all))
	inFlight, stuck := 0, 0
	for i := range all {
		m := &all[i]
		there[m.UID] = true
		flight, known := r.latest[m.UID]
		if !known {
			flight = decide.FlightOf(m)
		}
		if flight == nil {
			continue
		}
		if inFlight++; flight.Stuck {
			stuck++
		}
		if m.UID != but {
			flights = append(flights, *flight)
		}
	}
	for uid := range r.latest {
		if !there[uid] { // what was written was in the cache before
			delete(r.latest, uid)
		}
	}
	metricInFlight.Set(float64(inFlight))
	metricStuck.Set(float64(stuck))
	return flights
}
