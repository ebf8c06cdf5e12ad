// Package decider returns deciders for replays by name: a ReplicaPolicy with each of its laws, and
// the laws that it is compared with.
package decider

import (
	"fmt"
	"strconv"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/doublethreshold"
	"supercargo.dev/supercargo/autoscaler/replica/inversequeue"
	"supercargo.dev/supercargo/autoscaler/replica/predictive"
	"supercargo.dev/supercargo/autoscaler/replica/replicadecide"
	"supercargo.dev/supercargo/lab/definition"
	"supercargo.dev/supercargo/lab/replicas/catalogue"
	"supercargo.dev/supercargo/lab/replicas/loop"
)

// laws are the laws of the ReplicaPolicy API by their names in the catalogue.
var laws = map[string]v1alpha1.ReplicaLaw{
	predictive.Name: v1alpha1.LawPredictive, inversequeue.Name: v1alpha1.LawInverseQueue, doublethreshold.Name: v1alpha1.LawDoubleThreshold,
}

// New returns the decider for a law of the catalogue. For a law of the ReplicaPolicy API, it is the
// decision of a policy with the goal of the options, all measurements, and otherwise the defaults
// of the API. Any other law is bare. New returns an error for an unknown name or invalid options.
func New(name string, o catalogue.Options) (loop.Decider, error) {
	law, ships := laws[name]
	if !ships {
		made, err := catalogue.New(name, o)
		if err != nil {
			return nil, err
		}
		return loop.Bare{Law: made}, nil
	}
	policy, err := Policy(law, o)
	if err != nil {
		return nil, err
	}
	made, err := replicadecide.New(policy.Namespace, &policy.Spec)
	if err != nil {
		return nil, err
	}
	return loop.Policy{Policy: made}, nil
}

// Policy returns a ReplicaPolicy with the given law and the goal of the options. All other fields
// have the defaults of the API.
func Policy(law v1alpha1.ReplicaLaw, o catalogue.Options) (*v1alpha1.ReplicaPolicy, error) {
	var policy v1alpha1.ReplicaPolicy
	err := definition.Complete("replicapolicies", map[string]any{
		"metadata": map[string]any{"namespace": "replay", "name": "service"},
		"spec": map[string]any{
			"target":      map[string]any{"name": "service"},
			"minReplicas": int64(o.Min), "maxReplicas": int64(o.Max),
			"slo":     map[string]any{"responseTime": o.SLO.String()},
			"service": map[string]any{"ratePerReplica": quantity(o.Model.MuB), "speedUp": quantity(o.Model.C), "pastWeight": quantity(o.Model.Alpha)},
			"law":     map[string]any{"name": string(law), "interval": o.Interval.String()},
			"metrics": map[string]any{"queries": map[string]any{
				"arrivalRate": "arrival_rate", "responseTime": "response_time", "queueLength": "queue_length", "utilization": "utilization",
			}},
		},
	}, &policy)
	if err != nil {
		return nil, fmt.Errorf("law %s: %w", law, err)
	}
	return &policy, nil
}

// quantity formats a number as an API quantity. The API keeps up to nine decimals.
func quantity(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
