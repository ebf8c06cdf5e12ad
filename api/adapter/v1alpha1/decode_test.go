package v1alpha1

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const head = "apiVersion: adapter.supercargo.dev/v1alpha1\nkind: MetricsAdapterConfiguration\n"

func TestAConfigurationIsDecodedAndDefaulted(t *testing.T) {
	got, err := Decode([]byte(head + `
targets:
- job: queue
  addresses: ["10.0.0.1:9100"]
  interval: 1s
external:
- name: requests_per_second
  query: sum(rate(requests_total[30s]))
- name: dollars
  query: bill
  allNamespaces: true
  selectBy: Answer
custom:
- name: length
  query: queue_length
  resource: pods
  objectLabel: pod
  namespaceLabel: ns
  labels: {app.kubernetes.io/name: app}
workQueues:
- {manager: blast, namespace: science, address: "10.0.0.2:9123", timeout: 5s}
- manager: genome
  namespace: science
  catalog: {servers: ["catalog:9097"], project: genome}
  passwordFile: /etc/genome/password
  tls: {caFile: /etc/genome/ca.crt, serverName: genome}
  interval: 10s
presets:
- name: ingress-nginx
- {name: nginx, prefix: edge, parameters: {window: 30s}}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &MetricsAdapterConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "adapter.supercargo.dev/v1alpha1", Kind: "MetricsAdapterConfiguration"},
		Targets:  []TargetGroup{{Job: "queue", Addresses: []string{"10.0.0.1:9100"}, Interval: metav1.Duration{Duration: time.Second}}},
		WorkQueues: []WorkQueue{
			{Manager: "blast", Namespace: "science", Address: "10.0.0.2:9123", Interval: metav1.Duration{Duration: DefaultWorkQueueInterval}, Timeout: metav1.Duration{Duration: 5 * time.Second}},
			{Manager: "genome", Namespace: "science", Catalog: &WorkQueueCatalog{Servers: []string{"catalog:9097"}, Project: "genome"}, PasswordFile: "/etc/genome/password",
				TLS: &WorkQueueTLS{CAFile: "/etc/genome/ca.crt", ServerName: "genome"}, Interval: metav1.Duration{Duration: 10 * time.Second}, Timeout: metav1.Duration{Duration: DefaultWorkQueueTimeout}},
		},
		External: []ExternalMetric{
			{Name: "requests_per_second", Query: Query{Query: "sum(rate(requests_total[30s]))", NamespaceLabel: "namespace", SelectBy: SelectSeries}},
			{Name: "dollars", Query: Query{Query: "bill", NamespaceLabel: "namespace", SelectBy: SelectAnswer}, AllNamespaces: true},
		},
		Custom: []CustomMetric{{Name: "length", Resource: "pods", ObjectLabel: "pod",
			Query: Query{Query: "queue_length", NamespaceLabel: "ns", SelectBy: SelectSeries, Labels: map[string]string{"app.kubernetes.io/name": "app"}}}},
		Presets: []MetricPreset{{Name: "ingress-nginx", Prefix: "ingress_nginx"}, {Name: "nginx", Prefix: "edge", Parameters: map[string]string{"window": "30s"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := Decode([]byte(head)); err != nil {
		t.Errorf("an empty configuration is refused: %v", err)
	}
}

func TestWhatIsNotKnownIsRefused(t *testing.T) {
	for text, says := range map[string]string{
		head + "exteral: []":                                                       "exteral",
		head + "external: [{name: a, qurey: b}]":                                   "qurey",
		head + "custom: []\ncustom: []":                                            "custom",
		head + "targets: [{interval: [1]}]":                                        "interval",
		"apiVersion: adapter.supercargo.dev/v2\nkind: MetricsAdapterConfiguration": "v2",
		"external: []": "Kind",
		"":             "Kind",
		"{":            "decode",
	} {
		if got, err := Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: decoded to %+v with error %v, want one about %s", text, got, err, says)
		}
	}
}

func TestEveryFaultIsFoundAndItsFieldNamed(t *testing.T) {
	for text, fields := range map[string][]string{
		"prometheus: {url: prometheus}":                                              {"prometheus.url"},
		"prometheus: {url: \"http://a\"}\ntargets: [{job: a, addresses: [\"a:1\"]}]": {"targets"},
		"targets: [{}]": {"targets[0].job", "targets[0].addresses"},
		"targets: [{job: pods, addresses: [a, \":1\", \"a:0\", \"a:65536\", \"a:http\", \"b:1\", \"b:1\"], path: x, scheme: ftp, interval: 999ms, labels: {__a: b, \"1\": c}}]": {
			"targets[0].job", "targets[0].addresses[0]", "targets[0].addresses[1]", "targets[0].addresses[2]", "targets[0].addresses[3]", "targets[0].addresses[4]", "targets[0].addresses[6]",
			"targets[0].path", "targets[0].scheme", "targets[0].interval", "targets[0].labels[1]", "targets[0].labels[__a]"},
		"targets: [{job: a, addresses: [\"a:1\"]}, {job: a, addresses: [\"a:1\"]}]":                      {"targets[1].job"},
		"prometheus: {url: \"http://a\"}\nworkQueues: [{manager: a, namespace: shop, address: \"a:1\"}]": {"workQueues"},
		"workQueues: [{}]": {"workQueues[0].manager", "workQueues[0].namespace", "workQueues[0].address"},
		"workQueues: [{manager: a, namespace: \"a/b\", address: \"a:1\", catalog: {servers: [\"a:1\"], project: a}, interval: 999ms, timeout: 1ms}, {manager: a, namespace: shop, address: \"a:x\", timeout: 6m}, " +
			"{manager: a, namespace: shop, catalog: {servers: [a]}}, {manager: a, namespace: bank, catalog: {project: p}, interval: 2h}, {manager: b, namespace: bank, catalog: {project: p, servers: [\"a:9097\", \"[::1]:9097\"]}}]": {
			"workQueues[0].namespace", "workQueues[0].address", "workQueues[0].interval", "workQueues[0].timeout", "workQueues[1].address", "workQueues[1].timeout",
			"workQueues[2].manager", "workQueues[2].catalog.servers[0]", "workQueues[2].catalog.project", "workQueues[3].catalog.servers", "workQueues[3].interval"},
		"external: [{}, {name: \"a/b\", query: a, selectBy: Both, namespaceLabel: a-b, labels: {a: b-c}}]": {
			"external[0].name", "external[0].query", "external[1].name", "external[1].namespaceLabel", "external[1].selectBy", "external[1].labels[a]"},
		"external: [{name: supercargo_desired_replicas, query: a}, {name: b, query: a}, {name: b, query: a}]": {"external[0].name", "external[2].name"},
		"custom: [{name: a, query: b}, {name: a, query: b, resource: Pods, group: \"a b\", objectLabel: pod}]": {
			"custom[0].resource", "custom[0].objectLabel", "custom[1].resource", "custom[1].group"},
		"custom: [{name: a, query: b, resource: pods, objectLabel: pod}, {name: a, query: b, resource: nodes, objectLabel: node}, {name: a, query: b, resource: pods, objectLabel: pod}]": {"custom[2].name"},
		"presets: [{}, {name: a, prefix: a-b}, {name: nginx}, {name: nginx}]": {"presets[0].name", "presets[1].prefix", "presets[3].prefix"},
	} {
		_, err := Decode([]byte(head + text))
		if err == nil {
			t.Errorf("%s is taken", text)
			continue
		}
		if got := strings.Count(err.Error(), ": Invalid") + strings.Count(err.Error(), ": Required") + strings.Count(err.Error(), ": Duplicate") +
			strings.Count(err.Error(), ": Unsupported") + strings.Count(err.Error(), ": Forbidden"); got != len(fields) {
			t.Errorf("%s: %d faults, want %d: %v", text, got, len(fields), err)
		}
		for _, f := range fields {
			if !strings.Contains(err.Error(), f+": ") {
				t.Errorf("%s: error %v does not name %s", text, err, f)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(head + "external: [{name: a, query: b}]")
	f.Add(head + "targets: [{job: a, addresses: [\"[::1]:9\"]}]")
	f.Add(head + "workQueues: [{manager: a, namespace: shop, catalog: {servers: [\"a:9097\"], project: p}, tls: {}}]")
	f.Add("{}")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Decode([]byte(text))
		if err == nil && len(Validate(c)) > 0 {
			t.Errorf("%q is decoded to what is not valid", text)
		}
	})
}
