package powerquery

import (
	"regexp"
	"strings"
)

// Suffixes that Kubernetes adds to make names unique: five characters for pods, up to ten for the ReplicaSet of a
// Deployment's template, minutes since 1970 for the Job of a CronJob. Kubernetes' alphabet has no vowels and none of 0,
// 1 and 3.
var (
	podSuffix      = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}$`)
	templateSuffix = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{6,10}$`)
	minuteSuffix   = regexp.MustCompile(`-[0-9]{8,}$`)
	indexSuffix    = regexp.MustCompile(`-[0-9]+$`)
)

// workloadOf returns the name of the workload behind a pod's owner: the Deployment of a ReplicaSet, the CronJob of a
// Job. It returns "" for <none>, which kube-state-metrics reports if there is no owner.
func workloadOf(kind, name string) string {
	switch kind {
	case "ReplicaSet":
		return templateSuffix.ReplaceAllString(name, "")
	case "Job":
		return minuteSuffix.ReplaceAllString(name, "")
	}
	if strings.HasPrefix(name, "<") {
		return ""
	}
	return name
}

// stem derives the workload of a pod from its name alone, for clusters without kube-state-metrics: web for
// web-6c5bd9f4b8-x7k2p, train for train-3-x7k2p, db for db-0. It also shortens the name of a bare pod that looks like
// this.
func stem(pod string) string {
	if name := podSuffix.ReplaceAllString(pod, ""); name != pod {
		for _, suffix := range []*regexp.Regexp{templateSuffix, minuteSuffix, indexSuffix} {
			if shorter := suffix.ReplaceAllString(name, ""); shorter != name {
				return shorter
			}
		}
		return name
	}
	return indexSuffix.ReplaceAllString(pod, "")
}
