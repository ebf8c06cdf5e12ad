package adopt

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// budget is a disruption budget of a NodePool.
type budget struct {
	Nodes    *string   `json:"nodes"`
	Reasons  *[]string `json:"reasons"`
	Schedule *string   `json:"schedule"`
	Duration *string   `json:"duration"`
}

// The policies and the reasons of Karpenter.
const (
	whenEmpty        = "WhenEmpty"
	whenUnderutilize = "WhenEmptyOrUnderutilized"
	balanced         = "Balanced"

	reasonEmpty         = "Empty"
	reasonUnderutilized = "Underutilized"
	reasonDrifted       = "Drifted"
)

// longestAfter is the maximum of consolidation.after.
const longestAfter = 8784 * time.Hour

// disruption converts the policy of consolidation and its budgets.
func (c *conversion) disruption() error {
	of := &c.Spec.Disruption
	to := &Consolidation{Policy: v1alpha1.ConsolidateWhenUnderUsed, After: "0s"}
	c.spec.Consolidation = to
	if p := of.ConsolidationPolicy; p != nil {
		switch *p {
		case whenEmpty:
			to.Policy = v1alpha1.ConsolidateWhenEmpty
		case whenUnderutilize:
		case balanced:
			c.note("spec.disruption.consolidationPolicy", balanced, "A fleet compares savings with the cost of moving pods, but not by Karpenter's score.", "Nothing, or change consolidation.horizon: savings after it do not count.")
		default:
			return fmt.Errorf("spec.disruption.consolidationPolicy: %q must be %s, %s or %s", *p, whenEmpty, whenUnderutilize, balanced)
		}
	}
	if a := of.ConsolidateAfter; a != nil {
		if err := c.after(*a); err != nil {
			return err
		}
	}
	if v, is := c.Spec.Template.Metadata.Annotations[doNotDisrupt]; is {
		to.Policy = v1alpha1.ConsolidateNever
		c.note("spec.template.metadata.annotations", doNotDisrupt+"="+v, "A fleet sets no annotations on nodes. Its consolidation.policy is Never instead.", "Nothing.")
	}
	if err := c.budgets(); err != nil {
		return err
	}
	if to.Policy == v1alpha1.ConsolidateWhenUnderUsed {
		c.note("spec.disruption.consolidationPolicy", "", "Karpenter evicts pods of Jobs when it consolidates. A fleet moves or evicts batch pods only if they have an annotation that allows it.",
			"Set the annotation supercargo.dev/migration to checkpoint or restart on batch pods that may be moved.")
	}
	return nil
}

// after converts the time after which a node is consolidated.
func (c *conversion) after(text string) error {
	to := c.spec.Consolidation
	if text == never {
		to.Policy = v1alpha1.ConsolidateNever
		return nil
	}
	d, err := duration(text)
	if err != nil {
		return fmt.Errorf("spec.disruption.consolidateAfter: %w, or Never", err)
	}
	if to.After = text; d > longestAfter {
		to.After = "8784h"
		c.note("spec.disruption.consolidateAfter", text, "The maximum of a fleet is 8784h.", "Nothing, or set consolidation.policy to Never.")
	}
	return nil
}

// nodesSyntax is the syntax of the number of nodes of a budget.
var nodesSyntax = regexp.MustCompile(`^((100|[0-9]{1,2})%|[0-9]+)$`)

// defaultNodes is the number of nodes of a budget that states none, and of a NodePool without budgets.
const defaultNodes = "10%"

// mostUnavailable is the maximum of consolidation.maxUnavailable that is a number.
const mostUnavailable = 999_999

// unlimited is the maxUnavailable of no budget.
const unlimited = "100%"

// budgets converts the budgets. Those for all reasons at all times become the maximum number of machines that are released at
// a time, of which the strictest counts.
func (c *conversion) budgets() error {
	all := []budget{{}}
	if b := c.Spec.Disruption.Budgets; b != nil {
		all = *b
	}
	to := c.spec.Consolidation
	to.MaxUnavailable = unlimited
	for i := range all {
		b, field := &all[i], fmt.Sprintf("spec.disruption.budgets[%d]", i)
		nodes := defaultNodes
		if b.Nodes != nil {
			nodes = *b.Nodes
		}
		if !nodesSyntax.MatchString(nodes) {
			return fmt.Errorf("%s.nodes: %q must be a number or a percentage such as 10%%", field, nodes)
		}
		if others := b.others(); len(others) > 0 {
			c.note(field+".reasons", strings.Join(others, ", "), "A fleet replaces no machines for this reason.", "Nothing.")
		}
		scheduled := b.Schedule != nil && b.Duration != nil
		if b.Reasons == nil && !scheduled {
			to.MaxUnavailable = c.stricter(to.MaxUnavailable, nodes)
			continue
		}
		made := v1alpha1.FleetBudget{Nodes: number(nodes), Reasons: b.reasons()}
		if b.Reasons != nil && len(made.Reasons) == 0 {
			continue // for nothing that a fleet does
		}
		if scheduled {
			d, err := duration(*b.Duration)
			if err != nil {
				return fmt.Errorf("%s.duration: %w", field, err)
			}
			made.Schedule, made.Duration = b.Schedule, &metav1.Duration{Duration: d}
		}
		to.Budgets = append(to.Budgets, made)
	}
	return nil
}

// reasons returns the reasons of a fleet for those of the budget; nil for all.
func (b *budget) reasons() (all []v1alpha1.FleetBudgetReason) {
	if b.Reasons == nil {
		return nil
	}
	if b.has(reasonEmpty) {
		all = append(all, v1alpha1.BudgetEmpty)
	}
	if b.has(reasonUnderutilized) {
		all = append(all, v1alpha1.BudgetUnderUsed, v1alpha1.BudgetExchange)
	}
	if b.has(reasonDrifted) {
		all = append(all, v1alpha1.BudgetDrifted)
	}
	return all
}

// has reports whether the budget applies to a reason.
func (b *budget) has(reason string) bool {
	return b.Reasons == nil || slices.Contains(*b.Reasons, reason)
}

// others returns the reasons of the budget for which a fleet does nothing.
func (b *budget) others() []string {
	if b.Reasons == nil {
		return nil
	}
	return keep(*b.Reasons, func(r string) bool { return r != reasonEmpty && r != reasonUnderutilized && r != reasonDrifted })
}

// stricter returns the stricter of two numbers of nodes, as of now if one of them is a percentage.
func (c *conversion) stricter(a, b string) string {
	a, b = number(a), number(b)
	switch {
	case a == unlimited || a == b:
		return b
	case b == unlimited:
		return a
	}
	none := func(nodes string) bool { return nodes == "0" || nodes == "0%" }
	switch {
	case none(a):
		return a
	case none(b):
		return b
	case strings.HasSuffix(a, "%") != strings.HasSuffix(b, "%"):
		c.note("spec.disruption.budgets", a+" and "+b, fmt.Sprintf("A fleet has one maximum, either a number or a percentage. This is the stricter one of %d nodes.", c.Status.Nodes), "Nothing, or change consolidation.maxUnavailable.")
	}
	if c.count(b) < c.count(a) {
		return b
	}
	return a
}

// number returns a number of nodes without leading zeros, and as a fleet can have it.
func number(nodes string) string {
	digits, isShare := strings.CutSuffix(nodes, "%")
	n, err := strconv.Atoi(digits)
	switch {
	case err != nil || n > mostUnavailable:
		return unlimited
	case isShare:
		return strconv.Itoa(n) + "%"
	}
	return strconv.Itoa(n)
}

// count returns how many of the nodes of the NodePool a number of nodes is, rounded up.
func (c *conversion) count(nodes string) int64 {
	digits, isShare := strings.CutSuffix(nodes, "%")
	n, _ := strconv.ParseInt(digits, 10, 64)
	if isShare {
		return (n*c.Status.Nodes + 99) / 100
	}
	return n
}
