// Package manifests holds what is applied to a cluster to run Supercargo, and the
// parts of it that programs need too.
package manifests

import _ "embed"

// SchedulerConfig is the KubeSchedulerConfiguration with which Supercargo's
// kube-scheduler takes the default one's place, as YAML.
//
//go:embed scheduler/config/kube-scheduler.yaml
var SchedulerConfig []byte

// InOrderSchedulerConfig is the same with the stock order of the queue.
//
//go:embed scheduler/config/in-order.yaml
var InOrderSchedulerConfig []byte
