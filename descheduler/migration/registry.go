package migration

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/migration/migrationdecide"
)

// registry tracks the migrations in flight. It remembers the writes of this process, which the
// cache may not have yet.
type registry struct {
	// admission is held from reading the other migrations until the write that depends on them.
	admission sync.Mutex

	mu sync.Mutex
	// latest has the last write of this process to each migration.
	latest map[types.UID]written
}

// written is a migration after a write of this process.
type written struct {
	// version is the resourceVersion that the API server returned.
	version string
	// flight is nil if the migration has ended.
	flight *migrationdecide.Flight
}

// after reports whether a cache at a version lacks the write. Others may have written since, and
// a cache may receive a write before the writer gets its response.
func (w written) after(version string) bool {
	order, err := resourceversion.CompareResourceVersion(w.version, version)
	return err != nil || order > 0
}

// wrote remembers a write.
func (r *registry) wrote(m *v1alpha1.Migration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.latest == nil {
		r.latest = map[types.UID]written{}
	}
	r.latest[m.UID] = written{m.ResourceVersion, migrationdecide.FlightOf(m)}
}

// others returns the migrations in flight, except one.
func (r *registry) others(all []v1alpha1.Migration, but types.UID) (flights []migrationdecide.Flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	there := make(map[types.UID]bool, len(all))
	inFlight, stuck := 0, 0
	for i := range all {
		m := &all[i]
		there[m.UID] = true
		flight := migrationdecide.FlightOf(m)
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
		if !there[uid] { // it was deleted, so the cache had the write before
			delete(r.latest, uid)
		}
	}
	metricInFlight.Set(float64(inFlight))
	metricStuck.Set(float64(stuck))
	return flights
}
