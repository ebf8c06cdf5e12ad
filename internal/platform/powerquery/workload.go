package powerquery

import (
	"regexp"
	"strings"
)

// What Kubernetes puts behind a name to make it unlike others: five letters for pods, up to
// ten for the ReplicaSet of a Deployment's template, minutes since 1970 for the Job of a
// CronJob. Kubernetes' alphabet has no vowels and none of 0, 1 and 3.
var (
	podSuffix      = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}$`)
	templateSuffix = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{6,10}$`)
	minuteSuffix   = regexp.MustCompile(`-[0-9]{8,}$`)
	indexSuffix    = regexp.MustCompile(`-[0-9]+$`)
)

// workloadOf returns what a pod's owner is called by whoever made it: the Deployment of a
// ReplicaSet, the CronJob of a Job. Kubernetes' own <none> is no owner.
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

// stem returns the workload of a pod by its name alone, for clusters without
// kube-state-metrics: web of web-6c5bd9f4b8-x7k2p, train of train-3-x7k2p, db of db-0. A pod
// of one's own whose name looks so loses its end too.
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
