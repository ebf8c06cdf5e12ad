package migration

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/migration/decide"
)

// registry knows which migrations are in flight. The cache may not know yet what this
// process has written, so that is remembered.
type registry struct {
	// admission is held by who looks at the others until it has gone or not.
	admission sync.Mutex

	mu sync.Mutex
	// latest has what this process last wrote of a migration.
	latest map[types.UID]written
}

// written is what a write of this process has made of a migration.
type written struct {
	// version is the resourceVersion that the API server answered.
	version string
	// flight is nil if the migration has ended.
	flight *decide.Flight
}

// after reports whether the write is not known to a cache that has a version: others may
// have written since, and a cache may hear of a write before the writer has its answer.
func (w written) after(version string) bool {
	order, err := resourceversion.CompareResourceVersion(w.version, version)
	return err != nil || order > 0
}

// wrote remembers what was written.
func (r *registry) wrote(m *v1alpha1.Migration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latest[m.UID] = written{m.ResourceVersion, decide.FlightOf(m)}
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
		flight := decide.FlightOf(m)
		if w, wrote := r.latest[m.UID]; wrote && w.after(m.ResourceVersion) {
			flight = w.flight
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
