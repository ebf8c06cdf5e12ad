package explain

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

func TestAPoolOfWorkersIsExplained(t *testing.T) {
	span := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	wait := span(157 * time.Second)
	pool := &v1alpha1.WorkerPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: "genomics", Name: "blast"},
		Spec:       v1alpha1.WorkerPoolSpec{Mode: v1alpha1.WorkerPoolAct, Limits: v1alpha1.WorkerLimits{Max: 20}},
		Status: v1alpha1.WorkerPoolStatus{
			ObservedGeneration: 1, Phase: "Runtime", ShortageCores: "12", Workers: v1alpha1.WorkerCounts{Connected: 3, Starting: 5},
			Queue:      &v1alpha1.WorkQueueStatus{Address: "m:9123", Waiting: 12, Running: 9, Done: 7},
			Conditions: []metav1.Condition{{Type: v1alpha1.PoolLimited, Status: metav1.ConditionTrue, Reason: "TasksTooLarge", Message: "1 tasks of category giant: needs 64 cores"}},
			Categories: []v1alpha1.TaskCategory{
				{Name: "giant", CPU: resource.MustParse("64"), Source: "Declared", Unplaceable: "needs 64 cores"},
				{Name: "split", CPU: resource.MustParse("1"), Memory: resource.MustParse("1Gi"), Source: "Declared", Used: &v1alpha1.TaskUse{Memory: new(resource.MustParse("300Mi"))}, MeanRuntime: new(span(time.Minute)), Ended: 7},
			},
			InitTimes: []v1alpha1.WorkerInitTime{{Flavor: "four", Mean: wait, Deviation: span(4 * time.Second), Node: span(90 * time.Second), Samples: 3}},
			LastDecision: &v1alpha1.WorkerDecision{
				Time: metav1.NewTime(time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)), Mode: v1alpha1.WorkerPoolAct, Add: 5, Flavor: "four", Reason: "12 tasks wait", Waiting: 20, WaitingThen: 12,
				Rejected: []v1alpha1.Rejection{{Name: "two", Reason: "costs more"}}, ExpectedReady: &wait,
			},
		},
	}
	var b strings.Builder
	if err := Pool(&b, pool); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"WorkerPool genomics/blast, mode Act, phase Runtime",
		"3 workers connected, 5 starting, 0 draining; 0 to 20 allowed",
		"Manager m:9123: 12 tasks wait for 12 cores, 9 run, 7 are done; it has lost 0 workers",
		"Limited: True (TasksTooLarge) 1 tasks of category giant: needs 64 cores",
		"Last decision, 2026-11-22 08:00:00 UTC, mode Act:",
		"  add 5 workers of flavor four: 12 tasks wait",
		"  20 tasks waited, 12 were expected to wait at the end of the initialisation time",
		"  rejected two: costs more",
		"  expected: connected after 2m37s",
		"  measured: not yet",
		"giant     64   0       Declared  -         -            -        0      needs 64 cores",
		"split     1    1Gi     Declared  -         300Mi        1m0s     7",
		"four    2m37s ± 4s  1m30s  0s     0s       3",
	} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("%q is missing in\n%s", line, b.String())
		}
	}
}
