package app

import (
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	adapterv1alpha1 "supercargo.dev/supercargo/api/adapter/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/adapter/store"
	"supercargo.dev/supercargo/autoscaler/adapter/tasks"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue"
)

// workQueues returns a recorder for each manager in the configuration.
func workQueues(list []adapterv1alpha1.WorkQueue, s *store.Store, registry prometheus.Registerer, c clock.WithTicker, log logr.Logger) ([]*tasks.Recorder, error) {
	readings, err := tasks.Count(registry)
	if err != nil {
		return nil, err
	}
	var recorders []*tasks.Recorder
	for i := range list {
		q := &list[i]
		recorders = append(recorders, &tasks.Recorder{
			Namespace: q.Namespace, Manager: q.Manager, Ask: sourceOf(q), Store: s, Interval: q.Interval.Duration, Readings: readings, Clock: c, Log: log,
		})
	}
	return recorders, nil
}

// sourceOf returns the source for a manager: its address and how to connect to it.
func sourceOf(q *adapterv1alpha1.WorkQueue) *tasks.Source {
	s := &tasks.Source{Address: q.Address, PasswordFile: q.PasswordFile, Timeout: q.Timeout.Duration}
	if q.Catalog != nil {
		s.Project = q.Catalog.Project
		for _, address := range q.Catalog.Servers {
			s.Catalogs = append(s.Catalogs, workqueue.Catalog{Address: address})
		}
	}
	if q.TLS != nil {
		s.TLS, s.CAFile, s.ServerName = true, q.TLS.CAFile, q.TLS.ServerName
	}
	return s
}
