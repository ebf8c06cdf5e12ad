package consolidation

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/drain"
)

func TestAPodThatHasJustComeStaysOnANodeThatIsBeingEmptied(t *testing.T) {
	const residence = 10 * time.Minute
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *metav1.Time { return new(metav1.NewTime(noon.Add(-d))) }
	tests := []struct {
		name    string
		step    drain.Do
		started *metav1.Time
		want    drain.Do
	}{
		{"it came while the node was chosen", drain.Migrate, ago(time.Second), drain.Stay},
		{"evictions wait as well", drain.Evict, ago(residence - 1), drain.Stay},
		{"it is bound and has not started", drain.Migrate, nil, drain.Stay},
		{"it has been there for long enough", drain.Migrate, ago(residence), drain.Migrate},
		{"or for longer", drain.Evict, ago(time.Hour), drain.Evict},
		{"one for which the node is kept has it kept at once", drain.GiveUp, ago(time.Second), drain.GiveUp},
		{"one that stays anyway", drain.Stay, ago(time.Second), drain.Stay},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{Status: corev1.PodStatus{StartTime: tc.started}}
			if got := settle(drain.Step{Do: tc.step, Try: 1}, pod, residence, noon); got.Do != tc.want {
				t.Errorf("next is %+v, want %d", got, tc.want)
			}
		})
	}
}
