package disruption

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMachinesAreReplacedByUrgencyThenAge(t *testing.T) {
	const day = 24 * time.Hour
	policy := Policy{ExpireAfter: 10 * day, Drifted: true}
	for _, tc := range []struct {
		name     string
		policy   Policy
		machines []Machine
		want     []string
	}{
		{"nothing is wrong", policy, []Machine{{Node: "a", Age: 8 * day}}, nil},
		{"too old", policy, []Machine{{Node: "a", Age: 10 * day}}, []string{"Expired a"}},
		{"machines that do not expire", Policy{}, []Machine{{Node: "a", Age: 1000 * day}}, nil},
		{"drifted", policy, []Machine{{Node: "a", Drifted: true}}, []string{"Drifted a"}},
		{"drifted machines that are kept", Policy{}, []Machine{{Node: "a", Drifted: true}}, nil},
		{"unhealthy, whatever the policy", Policy{}, []Machine{{Node: "a", Unhealthy: "its disk is read-only"}}, []string{"Unhealthy a"}},
		{"unhealthy first, then expired, then drifted", policy,
			[]Machine{{Node: "a", Drifted: true}, {Node: "b", Age: 10 * day}, {Node: "c", Unhealthy: "x"}}, []string{"Unhealthy c", "Expired b", "Drifted a"}},
		{"each only once", policy, []Machine{{Node: "a", Age: 10 * day, Drifted: true, Unhealthy: "x"}}, []string{"Unhealthy a"}},
		{"the oldest first, then by name", policy,
			[]Machine{{Node: "c", Age: 11 * day}, {Node: "b", Age: 12 * day}, {Node: "a", Age: 11 * day}}, []string{"Expired b", "Expired a", "Expired c"}},
	} {
		due, held := tc.policy.Due(tc.machines)
		var got []string
		for _, r := range due {
			got = append(got, fmt.Sprintf("%s %s", r.Reason, r.Node))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" || held != "" {
			t.Errorf("%s: held %q (-want +got):\n%s", tc.name, held, diff)
		}
	}
}

func TestIfMoreThanAFifthIsUnhealthyNoneIsReplacedForThat(t *testing.T) {
	for _, tc := range []struct {
		machines, unhealthy int
		held                bool
	}{{1, 1, false}, {2, 2, true}, {5, 1, false}, {5, 2, true}, {10, 2, false}, {10, 3, true}, {100, 20, false}, {100, 21, true}} {
		machines := make([]Machine, tc.machines)
		for i := range machines {
			machines[i] = Machine{Node: fmt.Sprintf("n%03d", i), Age: time.Hour}
			if i < tc.unhealthy {
				machines[i].Unhealthy = "x"
			}
		}
		machines[0].Age = 1000 * time.Hour
		due, held := Policy{ExpireAfter: 100 * time.Hour}.Due(machines)
		if tc.held && (len(due) != 1 || !strings.HasPrefix(held, fmt.Sprintf("%d of %d machines are unhealthy", tc.unhealthy, tc.machines))) {
			t.Errorf("%d of %d: due %v, held %q, want the expired one only", tc.unhealthy, tc.machines, due, held)
		}
		if !tc.held && (len(due) != max(tc.unhealthy, 1) || held != "") {
			t.Errorf("%d of %d: due %v, held %q", tc.unhealthy, tc.machines, due, held)
		}
	}
}

func TestMachinesOfOneOrderExpireOneAfterAnother(t *testing.T) {
	p := Policy{ExpireAfter: 1000 * time.Hour}
	expired := func(age time.Duration) (n int) {
		for i := range 200 {
			due, _ := p.Due([]Machine{{Node: fmt.Sprint("machine-", i), Age: age}})
			n += len(due)
		}
		return n
	}
	if got := expired(900 * time.Hour); got > 1 {
		t.Errorf("%d of 200 expire at 90 %%", got)
	}
	if got := expired(950 * time.Hour); got < 80 || got > 120 {
		t.Errorf("%d of 200 expire at 95 %%, want about half", got)
	}
	if got := expired(1000 * time.Hour); got != 200 {
		t.Errorf("%d of 200 expire at 100 %%", got)
	}
}
