package disruption

import (
	"math"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// monday is a Monday at midnight.
var monday = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// spec returns a budget of a spec; without a schedule if it is empty.
func spec(nodes, schedule string, lasts time.Duration, reasons ...v1alpha1.FleetBudgetReason) v1alpha1.FleetBudget {
	b := v1alpha1.FleetBudget{Nodes: nodes, Reasons: reasons}
	if schedule != "" {
		b.Schedule, b.Duration = &schedule, &metav1.Duration{Duration: lasts}
	}
	return b
}

func TestABudgetAppliesForItsDurationAfterEachTimeOfItsSchedule(t *testing.T) {
	at := func(days, hours, minutes int) time.Time {
		return monday.Add(time.Duration(24*days+hours)*time.Hour + time.Duration(minutes)*time.Minute)
	}
	berlin := time.FixedZone("CET", 3600)
	for _, tc := range []struct {
		name, schedule string
		lasts          time.Duration
		now            time.Time
		want           bool
	}{
		{"no schedule", "", 0, at(0, 3, 0), true},
		{"before working hours", "0 9 * * mon-fri", 8 * time.Hour, at(0, 8, 59), false},
		{"at their beginning", "0 9 * * mon-fri", 8 * time.Hour, at(0, 9, 0), true},
		{"in them", "0 9 * * mon-fri", 8 * time.Hour, at(0, 16, 59), true},
		{"at their end", "0 9 * * mon-fri", 8 * time.Hour, at(0, 17, 0), false},
		{"on Saturday", "0 9 * * mon-fri", 8 * time.Hour, at(5, 12, 0), false},
		{"over midnight", "0 22 * * *", 4 * time.Hour, at(1, 1, 59), true},
		{"each day, in UTC", "@daily", time.Hour, time.Date(2026, 1, 6, 1, 30, 0, 0, berlin), true},
		{"each day, an hour later", "@daily", time.Hour, time.Date(2026, 1, 6, 2, 0, 0, 0, berlin), false},
		{"longer than its period", "@hourly", 2 * time.Hour, at(3, 7, 31), true},
		{"a day that does not exist", "0 0 30 2 *", 24 * time.Hour, at(0, 0, 0), false},
	} {
		if got := Parse([]v1alpha1.FleetBudget{spec("1", tc.schedule, tc.lasts)})[0].Applies(tc.now); got != tc.want {
			t.Errorf("%s: it applies: %t, want %t", tc.name, got, tc.want)
		}
	}
}

func TestAnInvalidScheduleAppliesAtAllTimes(t *testing.T) {
	all := Parse([]v1alpha1.FleetBudget{spec("1", "@daily", time.Hour), spec("0", "99 * * * *", time.Hour)})
	if len(all) != 2 || !all[1].Applies(monday.Add(12*time.Hour)) || all[0].Applies(monday.Add(12*time.Hour)) {
		t.Errorf("the budgets are %+v", all)
	}
}

func TestABudgetThatIsInvalidNeverAppliesOrNeverAllowsAMachineIsNamed(t *testing.T) {
	const empty, underUsed = v1alpha1.BudgetEmpty, v1alpha1.BudgetUnderUsed
	const no = "] allows no machine to be drained or released at any time"
	for _, tc := range []struct {
		name   string
		budget v1alpha1.FleetBudget
		want   string
	}{
		{"a number", spec("1", "", 0), ""},
		{"none at some times", spec("0", "0 9 * * mon-fri", 8*time.Hour), ""},
		{"none but for a minute each day", spec("0", "1 0 * * *", 24*time.Hour-time.Minute), ""},
		{"none but on Sundays", spec("0", "0 0 * * mon-sat", 24*time.Hour), ""},
		{"a percentage at all times", spec("1%", "@daily", 24*time.Hour), ""},
		{"none", spec("0", "", 0), no + ": allow at least 1 node"},
		{"no percentage, for some reasons", spec("0%", "", 0, empty, underUsed), no + " for Empty and UnderUsed: "},
		{"none, all day", spec("0", "@daily", 24*time.Hour), no},
		{"none, longer than the day", spec("0", "0 9 * * *", 30*time.Hour), no},
		{"none, each minute", spec("0", "* * * * *", time.Minute), no},
		{"an invalid schedule", spec("5", "99 * * * *", time.Hour), `].schedule "99 * * * *" is invalid, so the budget applies at all times: `},
		{"a day that does not exist", spec("5", "0 0 30 2 *", time.Hour), `].schedule "0 0 30 2 *" never comes, so the budget never applies`},
	} {
		got := Problems([]v1alpha1.FleetBudget{spec("1", "", 0), tc.budget}, monday.Add(12*time.Hour))
		if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], "spec.consolidation.budgets[1"+tc.want)) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestTheStrictestBudgetThatAppliesCounts is on Monday at noon, with 25 machines.
func TestTheStrictestBudgetThatAppliesCounts(t *testing.T) {
	const empty, underUsed, exchange = v1alpha1.BudgetEmpty, v1alpha1.BudgetUnderUsed, v1alpha1.BudgetExchange
	for _, tc := range []struct {
		name    string
		budgets []v1alpha1.FleetBudget
		reason  v1alpha1.FleetBudgetReason
		want    int
		why     string
	}{
		{"none", nil, empty, math.MaxInt32, ""},
		{"a number", []v1alpha1.FleetBudget{spec("5", "", 0)}, empty, 5, "budgets[0]"},
		{"a percentage, rounded up", []v1alpha1.FleetBudget{spec("10%", "", 0)}, empty, 3, "budgets[0]"},
		{"the strictest", []v1alpha1.FleetBudget{spec("5", "", 0), spec("10%", "", 0), spec("4", "", 0)}, empty, 3, "budgets[1]"},
		{"of equals the first", []v1alpha1.FleetBudget{spec("3", "", 0), spec("10%", "", 0)}, empty, 3, "budgets[0]"},
		{"another reason", []v1alpha1.FleetBudget{spec("0", "", 0, underUsed, exchange)}, empty, math.MaxInt32, ""},
		{"this reason", []v1alpha1.FleetBudget{spec("5", "", 0), spec("0", "", 0, underUsed, exchange)}, exchange, 0, "budgets[1]"},
		{"another time", []v1alpha1.FleetBudget{spec("5", "", 0), spec("0", "0 13 * * *", time.Hour)}, empty, 5, "budgets[0]"},
		{"this time", []v1alpha1.FleetBudget{spec("5", "", 0), spec("0", "0 11 * * *", 2*time.Hour)}, empty, 0, "budgets[1]"},
		{"this time, another reason", []v1alpha1.FleetBudget{spec("0", "0 11 * * *", 2*time.Hour, underUsed)}, empty, math.MaxInt32, ""},
	} {
		got := Allowed(Parse(tc.budgets), tc.reason, 25, monday.Add(12*time.Hour))
		if got.Machines != tc.want || tc.why == "" && got.Why != "" || !strings.Contains(got.Why, tc.why) {
			t.Errorf("%s: %+v, want %d by %s", tc.name, got, tc.want, tc.why)
		}
	}
	if got := Allowed([]Budget{{Nodes: intstr.FromString("a few")}}, empty, 25, monday); got.Machines != 0 {
		t.Errorf("an invalid number allows %d", got.Machines)
	}
}
