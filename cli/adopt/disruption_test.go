package adopt

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/api/v1alpha1"
)

func TestConsolidationIsThatOfTheNodePool(t *testing.T) {
	const (
		mixed = "either a number or a percentage"
	)
	for _, tc := range []struct {
		disruption string // with status.nodes 20
		want       string // policy, after and maxUnavailable, and the budgets
		says       []string
	}{
		{"{}", "WhenUnderUsed 0s 10%", nil},
		{"{consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 30s}", "WhenUnderUsed 30s 10%", nil},
		{"{consolidationPolicy: WhenEmpty, consolidateAfter: 30s}", "WhenEmpty 30s 10%", nil},
		{"{consolidationPolicy: Balanced}", "WhenUnderUsed 0s 10%", []string{"not by Karpenter's score"}},
		{"{consolidateAfter: Never}", "Never 0s 10%", nil},
		{"{consolidationPolicy: WhenEmpty, consolidateAfter: 8784h}", "WhenEmpty 8784h 10%", nil},
		{"{consolidateAfter: 8784h1s}", "WhenUnderUsed 8784h 10%", []string{"The maximum of a fleet is 8784h."}},

		{"{budgets: []}", "WhenUnderUsed 0s 100%", nil},
		{"{budgets: [{}]}", "WhenUnderUsed 0s 10%", nil},
		{"{budgets: [{nodes: 30%}]}", "WhenUnderUsed 0s 30%", nil},
		{"{budgets: [{nodes: '5'}]}", "WhenUnderUsed 0s 5", nil},
		{"{budgets: [{nodes: '0'}]}", "WhenUnderUsed 0s 0", nil},
		{"{budgets: [{nodes: '1000000'}]}", "WhenUnderUsed 0s 100%", nil},
		{"{budgets: [{nodes: '99999999999999999999'}]}", "WhenUnderUsed 0s 100%", nil},
		{"{budgets: [{nodes: 00%}]}", "WhenUnderUsed 0s 0%", nil},
		{"{budgets: [{nodes: 30%}, {nodes: 20%}]}", "WhenUnderUsed 0s 20%", nil},
		{"{budgets: [{nodes: '3'}, {nodes: 10%}]}", "WhenUnderUsed 0s 10%", []string{mixed}}, // 2 of 20
		{"{budgets: [{nodes: '1'}, {nodes: 10%}]}", "WhenUnderUsed 0s 1", []string{mixed}},
		{"{budgets: [{nodes: '5'}, {nodes: 100%}]}", "WhenUnderUsed 0s 5", nil},

		{"{budgets: [{nodes: 20%, reasons: [Empty]}]}", "WhenUnderUsed 0s 100%, 20% [Empty]", nil},
		{"{budgets: [{nodes: 0, reasons: [Underutilized]}]}", "WhenUnderUsed 0s 100%, 0 [UnderUsed Exchange]", nil},
		{"{budgets: [{nodes: 0%, reasons: [Underutilized]}, {nodes: 30%, reasons: [Empty]}]}", "WhenUnderUsed 0s 100%, 0% [UnderUsed Exchange], 30% [Empty]", nil},
		{"{budgets: [{nodes: 0, reasons: [Drifted]}]}", "WhenUnderUsed 0s 100%, 0 [Drifted]", nil},
		{"{budgets: [{nodes: 0, reasons: [Haunted]}]}", "WhenUnderUsed 0s 100%", []string{"replaces no machines for this reason"}},
		{"{budgets: [{nodes: 20%, reasons: [Empty, Drifted]}, {nodes: 5}, {nodes: 0, schedule: '@daily', duration: 10m, reasons: [Underutilized]}]}",
			"WhenUnderUsed 0s 5, 20% [Empty Drifted], 0 [UnderUsed Exchange] @daily 10m0s", nil},
		{"{budgets: [{nodes: 10%}, {nodes: 0, schedule: '0 9 * * mon-fri', duration: 8h}]}", "WhenUnderUsed 0s 10%, 0 [] 0 9 * * mon-fri 8h0m0s", nil},
		{"{budgets: [{nodes: '1000000', schedule: '@hourly', duration: 5m}]}", "WhenUnderUsed 0s 100%, 100% [] @hourly 5m0s", nil},
		{"{consolidationPolicy: WhenEmpty, budgets: [{nodes: 20%, reasons: [Empty]}]}", "WhenEmpty 0s 100%, 20% [Empty]", nil},
	} {
		pool := aPool(strings.ReplaceAll(strings.ReplaceAll("{disruption: "+tc.disruption+"}", "nodes: 0,", "nodes: '0',"), "nodes: 5}", "nodes: '5'}"))
		pool["status"] = map[string]any{"nodes": 20}
		f, notes := convert(t, pool, known)
		c := f.Spec.Consolidation
		got := fmt.Sprintf("%s %s %s", c.Policy, c.After, c.MaxUnavailable)
		for _, b := range c.Budgets {
			got += fmt.Sprintf(", %s %v", b.Nodes, b.Reasons)
			if b.Schedule != nil {
				got += fmt.Sprintf(" %s %v", *b.Schedule, b.Duration.Duration)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.disruption, diff)
		}
		for _, says := range tc.says {
			if !strings.Contains(notes, says) {
				t.Errorf("%s: the notes do not say %q:\n%s", tc.disruption, says, notes)
			}
		}
		for _, says := range []string{mixed} {
			if strings.Contains(notes, says) && !strings.Contains(strings.Join(tc.says, " "), says) {
				t.Errorf("%s: the notes say %q:\n%s", tc.disruption, says, notes)
			}
		}
	}
}

// TestNodesThatMustNotBeDisruptedAreKept: Karpenter keeps nodes that have its annotation.
func TestNodesThatMustNotBeDisruptedAreKept(t *testing.T) {
	f, notes := convert(t, aPool(`{template: {metadata: {annotations: {karpenter.sh/do-not-disrupt: "true", other: x}}}}`), known)
	if f.Spec.Consolidation.Policy != v1alpha1.ConsolidateNever {
		t.Errorf("the policy is %s, want Never", f.Spec.Consolidation.Policy)
	}
	if !strings.Contains(notes, "other=x | A fleet sets no annotations") || !strings.Contains(notes, "consolidation.policy is Never instead") {
		t.Errorf("notes:\n%s", notes)
	}
}
