// Package manifests holds what is applied to a cluster to run Supercargo, and the
// parts of it that programs need too.
package manifests

import "embed"

// CRDs are the CustomResourceDefinitions of the supercargo.dev kinds, one YAML
// file each, in crd/.
//
//go:embed crd/supercargo.dev_*.yaml
var CRDs embed.FS

// SchedulerConfig is the KubeSchedulerConfiguration with which Supercargo's
// kube-scheduler takes the default one's place, as YAML.
//
//go:embed scheduler/config/kube-scheduler.yaml
var SchedulerConfig []byte

// InOrderSchedulerConfig is the same with the stock order of the queue.
//
//go:embed scheduler/config/in-order.yaml
var InOrderSchedulerConfig []byte

// Consolidation is the object in whose status the descheduler reports, as YAML.
//
//go:embed descheduler/consolidation.yaml
var Consolidation []byte

// EvictionWebhook registers the webhook that turns evictions into
// Migrations, and the Service that it calls it by, as YAML.
//
//go:embed evictions/base/webhook.yaml
var EvictionWebhook []byte

// MetricsAPIServices register the metrics adapter with the API server, as YAML.
//
//go:embed adapter/server/apiservices.yaml
var MetricsAPIServices []byte
