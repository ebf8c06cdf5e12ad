package decide

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

func TestPodsAndMachinesStayForAWhileWhereEmptyMachinesGoAtOnce(t *testing.T) {
	tests := []struct {
		name          string
		after         time.Duration
		pods          *metav1.Duration
		pod, machines time.Duration
	}{
		{"nothing stated", 0, nil, 5 * minute, 5 * minute},
		{"machines wait", minute, nil, minute, minute},
		{"pods stay as stated", 0, &metav1.Duration{Duration: time.Second}, time.Second, 5 * minute},
		{"or not at all", minute, &metav1.Duration{}, 0, minute},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := v1alpha1.FleetConsolidation{After: metav1.Duration{Duration: tc.after}, PodResidence: tc.pods}
			if pod, machines := PodResidence(&c), Residence(&c); pod != tc.pod || machines != tc.machines {
				t.Errorf("pods stay for %v and machines for %v, want %v and %v", pod, machines, tc.pod, tc.machines)
			}
		})
	}
}
