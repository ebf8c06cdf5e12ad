package serve

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubelabels "k8s.io/apimachinery/pkg/labels"

	adapterv1alpha1 "supercargo.dev/supercargo/api/adapter/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/adapter/rule"
	"supercargo.dev/supercargo/internal/platform/promql"
)

// asked is a query and the restrictions of a client.
type asked struct {
	rule     *rule.Rule
	query    *adapterv1alpha1.Query
	bound    []rule.Condition // applies to every series
	selector kubelabels.Selector
}

// ask returns the samples at a time.
func ask(ctx context.Context, q promql.Querier, at time.Time, a asked) ([]promql.Sample, error) {
	chosen, err := rule.FromSelector(a.selector, a.query.Labels)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	bound := a.bound
	if a.query.SelectBy == adapterv1alpha1.SelectSeries {
		bound = slices.Concat(bound, chosen)
	}
	expression, err := a.rule.Narrow(bound...)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	samples, err := q.Query(ctx, expression, at)
	if err != nil {
		return nil, err
	}
	if a.query.SelectBy != adapterv1alpha1.SelectAnswer {
		return samples, nil
	}
	var taken []promql.Sample
	for _, s := range samples {
		if !slices.ContainsFunc(chosen, func(c rule.Condition) bool { return !c.Holds(s.Labels) }) {
			taken = append(taken, s)
		}
	}
	return taken, nil
}

// asStatus converts an error to an API status: errors that are not the client's are Service
// Unavailable, which is transient.
func asStatus(err error) error {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return err
	}
	return apierrors.NewServiceUnavailable(err.Error())
}

// compareLabels orders label sets by their sorted names, then by their values.
func compareLabels(a, b map[string]string) int {
	keys := slices.Sorted(maps.Keys(a))
	if c := slices.Compare(keys, slices.Sorted(maps.Keys(b))); c != 0 {
		return c
	}
	for _, k := range keys {
		if c := cmp.Or(strings.Compare(a[k], b[k])); c != 0 {
			return c
		}
	}
	return 0
}
