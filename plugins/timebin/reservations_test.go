package timebin

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/internal/runtimes"
)

func TestAReservationNamesTheMomentThatTheAnnotationDoes(t *testing.T) {
	r := newReservations()
	r.add("a", time.Date(2026, 1, 1, 12, 0, 0, 123_456_789, time.UTC), 90*time.Second)
	finish, ok := r.get("a")
	if text := runtimes.Format(finish); !ok || text != "2026-01-01T12:01:30.123Z" {
		t.Errorf("finish %s, %t", text, ok)
	}
	back, err := time.Parse(time.RFC3339, runtimes.Format(finish))
	if err != nil || !back.Equal(finish) {
		t.Errorf("the annotation says %v (%v), the reservation %v", back, err, finish)
	}
	r.drop("a")
	if _, ok := r.get("a"); ok {
		t.Error("a dropped reservation is still there")
	}
	r.drop("a") // and dropping it again is harmless
}

func TestForgottenReservationsAreSweptAway(t *testing.T) {
	r, now := newReservations(), time.Unix(0, 0)
	for i := range 5 * sweepEvery {
		now = now.Add(time.Second)
		r.add(types.UID(fmt.Sprint(i)), now, time.Minute)
	}
	if kept, bound := len(r.finishes), sweepEvery+int((lingering+time.Minute)/time.Second); kept > bound {
		t.Errorf("%d reservations are kept, want at most %d", kept, bound)
	}
	if _, ok := r.get(types.UID(fmt.Sprint(5*sweepEvery - 1))); !ok {
		t.Error("the newest is swept away too")
	}
}
