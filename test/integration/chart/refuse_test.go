package chart

import (
	"strings"
	"testing"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// TestBadValuesAreRefusedByName checks that the error names the wrong value, and nothing is rendered.
func TestBadValuesAreRefusedByName(t *testing.T) {
	for name, tc := range map[string]struct {
		values values
		want   []string
	}{
		"a part that does not exist":      {values{"autoscaller.enabled": true}, []string{"'autoscaller' not allowed"}},
		"a field with a typo":             {values{"descheduler.replica": 3}, []string{"at '/descheduler'", "'replica' not allowed"}},
		"a field of a nested object":      {values{"autoscaler.image.tags": "v1"}, []string{"at '/autoscaler/image'", "'tags' not allowed"}},
		"an option with a typo":           {values{"descheduler.options.max-migration": 3}, []string{"at '/descheduler/options'", "'max-migration' not allowed"}},
		"an option of another program":    {values{"autoscaler.options.max-migrations": 3}, []string{"at '/autoscaler/options'", "'max-migrations' not allowed"}},
		"an option that the chart gives":  {values{"evictions.options.eviction-webhook-bind-address": ":1"}, []string{"'eviction-webhook-bind-address' not allowed"}},
		"an address for the dashboard":    {values{"dashboard.options.address": ":80"}, []string{"at '/dashboard/options'", "'address' not allowed"}},
		"a dashboard for everybody":       {values{"dashboard.options.authorize": false}, []string{"at '/dashboard/options'", "'authorize' not allowed"}},
		"a switch that is text":           {values{"autoscaler.enabled": "yes"}, []string{"at '/autoscaler/enabled'", "got string, want boolean"}},
		"a mode that does not exist":      {values{"descheduler.options.consolidation": "act"}, []string{"at '/descheduler/options/consolidation'", "'Off', 'Observe', 'Act'"}},
		"no duration":                     {values{"descheduler.options.consolidation-interval": "often"}, []string{"at '/descheduler/options/consolidation-interval'"}},
		"to drain without the permission": {values{"descheduler.options.consolidation": "Act"}, []string{"set descheduler.consolidation.enabled"}},
		"to probe without the permission": {values{"descheduler.options.probing": "Act"}, []string{"set descheduler.probing.enabled"}},
		"energy moves without permission": {values{"descheduler.options.energy-moves": "Act"}, []string{"set descheduler.consolidation.enabled"}},
		"drains without Migrations":       {values{"descheduler.consolidation.enabled": true}, []string{"descheduler.consolidation.enabled requires descheduler.migrations.enabled"}},
		"no registry":                     {values{"image.repository": ""}, []string{"image.repository is required"}},
		"no replica":                      {values{"autoscaler.replicas": 0}, []string{"at '/autoscaler/replicas'"}},
		"an address of no page":           {values{"monitoring.alerts.runbooks": "docs"}, []string{"at '/monitoring/alerts/runbooks'"}},
		"a range of no addresses":         {values{"networkPolicy.apiServer.cidrs": []any{"10.0.0.1"}}, []string{"at '/networkPolicy/apiServer/cidrs/0'"}},
		"a digest that is none":           {values{"nodeAgent.image.digest": "0123"}, []string{"at '/nodeAgent/image/digest'"}},
		"a mode of another case":          {values{"evictions.mode": "Closed"}, []string{"at '/evictions/mode'", "'open', 'closed'"}},
		"a namespace that cannot be":      {values{"nodeAgent.namespace": "Agents"}, []string{"at '/nodeAgent/namespace'"}},
		"a number that is text":           {values{"descheduler.options.max-migrations": "many"}, []string{"at '/descheduler/options/max-migrations'"}},
		"a label that selects":            {values{"autoscaler.podLabels": values{"app.kubernetes.io/name": "x"}}, []string{"at '/autoscaler/podLabels/app.kubernetes.io~1name'"}},
		"probes beside the others":        {values{"descheduler.probing.enabled": true, "descheduler.options.probe-namespace": home}, []string{"descheduler.options.probe-namespace is a namespace with other contents"}},
		"evictions without descheduler":   {only(values{"evictions.enabled": true}), []string{"evictions.enabled requires descheduler.enabled and descheduler.migrations.enabled"}},
		"OpenStack without autoscaler":    {only(values{"autoscaler.openstack.enabled": true}), []string{"autoscaler.openstack.enabled requires autoscaler.enabled"}},
		"Karpenter without autoscaler":    {only(values{"autoscaler.karpenter.enabled": true}), []string{"autoscaler.karpenter.enabled requires autoscaler.enabled"}},
		"two that both act": {
			values{"descheduler.options.leader-elect": false}, []string{"descheduler.options.leader-elect is false", "set descheduler.replicas to 1"},
		},
		"two adapters with one store": {
			values{"metricsAdapter.enabled": true, "metricsAdapter.store.existingClaim": "store"}, []string{"set metricsAdapter.replicas to 1"},
		},
		"a cloud that cannot be reached": {
			values{"autoscaler.openstack.enabled": true}, []string{"autoscaler.openstack.enabled", "add a rule to networkPolicy.egress.autoscaler, or set networkPolicy.enabled to false"},
		},
		"a server that cannot be reached": {
			values{"autoscaler.options.metrics-url": "http://prometheus"}, []string{"autoscaler.options.metrics-url", "networkPolicy.egress.autoscaler"},
		},
		"machines elsewhere by two ways": {
			values{"autoscaler.clusterAPI.kubeconfigSecret.name": "a", "autoscaler.options.cluster-api-kubeconfig": "/b"},
			[]string{"autoscaler.clusterAPI.kubeconfigSecret.name and autoscaler.options.cluster-api-kubeconfig are both set"},
		},
		"permissions where no machines are": {
			values{"autoscaler.clusterAPI.kubeconfigSecret.name": "a", "autoscaler.catalogue.enabled": true},
			[]string{"autoscaler.catalogue.enabled", "bind ClusterRole supercargo-machines-catalogue"},
		},
		"a cluster that cannot be reached": {
			values{"autoscaler.clusterAPI.kubeconfigSecret.name": "a"},
			[]string{"autoscaler.clusterAPI.kubeconfigSecret", "add a rule to networkPolicy.egress.autoscaler"},
		},
		"a Secret without a key": {values{"autoscaler.clusterAPI.kubeconfigSecret.key": ""}, []string{"at '/autoscaler/clusterAPI/kubeconfigSecret/key'"}},
		"an adapter that serves nothing": {
			values{"metricsAdapter": values{"enabled": true, "customMetrics": false, "externalMetrics": false}}, []string{"set metricsAdapter.enabled to false"},
		},
		"two configurations": {
			values{"scheduler.second.configuration": "a", "scheduler.second.existingConfigMap": "b"}, []string{"scheduler.second.existingConfigMap are both set"},
		},
		"privileged pods beside the others": {
			values{"nodeAgent.enabled": true, "nodeAgent.namespace": home}, []string{"nodeAgent.namespace is the namespace of the release"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, refusal := tryRender(t, home, tc.values)
			for _, want := range tc.want {
				if !strings.Contains(refusal, want) {
					t.Errorf("%v is answered with %q, want %q in it", tc.values, refusal, want)
				}
			}
		})
	}
}

// TestOffWithoutQuotesIsRefused: YAML reads it as false, and the descheduler would not start.
func TestOffWithoutQuotesIsRefused(t *testing.T) {
	file := testfile.New(t, "values.yaml", "descheduler: {options: {consolidation: Off}}\n")
	if _, refusal := tryRender(t, home, nil, "--values", file); !strings.Contains(refusal, "at '/descheduler/options/consolidation': got boolean, want string") {
		t.Errorf("it is answered with %q", refusal)
	}
}

// TestOneThatActsAloneNeedsNoElection follows the advice in the error for two replicas.
func TestOneThatActsAloneNeedsNoElection(t *testing.T) {
	render(t, home, values{"descheduler.options.leader-elect": false, "descheduler.replicas": 1})
}
