package app

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

var self = types.NamespacedName{Namespace: "supercargo-system", Name: "supercargo-metrics-adapter"}

// apiService returns an APIService; without a Service it is local to the API server.
func apiService(version, group, service string) *apiregistrationv1.APIService {
	a := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: version + "." + group}}
	a.Spec.Group, a.Spec.Version = group, version
	if namespace, name, ok := strings.Cut(service, "/"); ok {
		a.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: namespace, Name: name}
	}
	return a
}

// keeper returns a registration of both groups in a cluster with these objects.
func keeper(t *testing.T, list ...client.Object) *registration {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apiregistrationv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(list...).Build()
	return &registration{client: c, live: c, service: self, groups: []string{customGroup, externalGroup}, certificate: certificateIn(c),
		clock: clocktesting.NewFakeClock(noon), log: logr.Discard()}
}

func TestItDoesNotStartWhereAnotherServesAndSaysWhatToDo(t *testing.T) {
	for _, c := range []struct {
		name  string
		other *apiregistrationv1.APIService
		says  []string
	}{
		{"nobody", apiService("v1beta1", "metrics.k8s.io", "kube-system/metrics-server"), nil},
		{"this one", apiService("v1beta1", externalGroup, self.String()), nil},
		{"KEDA", apiService("v1beta1", externalGroup, "keda/keda-operator-metrics-apiserver"),
			[]string{"external.metrics.k8s.io is already served by Service keda/keda-operator-metrics-apiserver (KEDA)", "v1beta1.external.metrics.k8s.io", "--external-metrics=false"}},
		{"prometheus-adapter in an older version", apiService("v1beta1", customGroup, "monitoring/prometheus-adapter"),
			[]string{"monitoring/prometheus-adapter (prometheus-adapter)", "--custom-metrics=false"}},
		{"this one in another namespace", apiService("v1beta2", customGroup, "other/supercargo-metrics-adapter"), []string{"--service"}},
	} {
		err := keeper(t, c.other).check(t.Context())
		if (err == nil) != (c.says == nil) {
			t.Errorf("%s: error %v", c.name, err)
		}
		for _, words := range c.says {
			if err != nil && !strings.Contains(err.Error(), words) {
				t.Errorf("%s: error %v does not say %q", c.name, err, words)
			}
		}
	}
	alone := keeper(t, apiService("v1beta1", externalGroup, "keda/keda-operator-metrics-apiserver"))
	alone.groups = []string{customGroup}
	if err := alone.check(t.Context()); err != nil {
		t.Errorf("beside KEDA without external metrics: %v", err)
	}
}

func TestAuthoritiesAreWrittenIntoOurAPIServicesOnly(t *testing.T) {
	r := keeper(t, apiService("v1beta2", customGroup, self.String()), apiService("v1beta1", externalGroup, self.String()),
		apiService("v1beta1", "metrics.k8s.io", "kube-system/metrics-server"))
	if err := r.once(t.Context()); err != nil {
		t.Fatal(err)
	}
	trusted := string(r.certificate.Served().Authorities)
	if trusted == "" {
		t.Fatal("no certificate is served")
	}
	for name, want := range map[string]string{"v1beta2." + customGroup: trusted, "v1beta1." + externalGroup: trusted, "v1beta1.metrics.k8s.io": ""} {
		var a apiregistrationv1.APIService
		if err := r.live.Get(t.Context(), client.ObjectKey{Name: name}, &a); err != nil || string(a.Spec.CABundle) != want {
			t.Errorf("%s has authorities %q (%v), want %q", name, a.Spec.CABundle, err, want)
		}
	}
}

func TestAuthoritiesAreWrittenForThoseWhoAskWithoutTheAggregator(t *testing.T) {
	services := []client.Object{apiService("v1beta2", customGroup, self.String()), apiService("v1beta1", externalGroup, self.String())}
	if err := keeper(t, services...).once(t.Context()); err != nil {
		t.Errorf("without the ConfigMap: %v", err)
	}
	name := client.ObjectKey{Namespace: self.Namespace, Name: self.Name + "-ca"}
	r := keeper(t, append(services, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}})...)
	if err := r.once(t.Context()); err != nil {
		t.Fatal(err)
	}
	var c corev1.ConfigMap
	if err := r.live.Get(t.Context(), name, &c); err != nil || c.Data["ca.crt"] == "" || c.Data["ca.crt"] != string(r.certificate.Served().Authorities) {
		t.Errorf("the ConfigMap has %v (%v), want the authorities", c.Data, err)
	}
}

func TestAMissingAPIServiceIsNamed(t *testing.T) {
	err := keeper(t, apiService("v1beta2", customGroup, self.String())).once(t.Context())
	if err == nil || !strings.Contains(err.Error(), externalGroup) || strings.Contains(err.Error(), customGroup) {
		t.Errorf("error %v, want one about %s alone", err, externalGroup)
	}
}

func TestFaultsOfTheOptionsAreNamedByTheirFlags(t *testing.T) {
	o := Defaults()
	if err := o.Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	o.Custom, o.External, o.Service, o.StaleAfter, o.TargetLimit, o.PolicyTargetLimit, o.QueryAddress = false, false, "a", 0, -1, -1, "nowhere"
	err := o.Validate()
	for _, flag := range []string{"--custom-metrics", "--external-metrics", "--service", "--desired-replicas-stale-after", "--scrape-target-limit", "--policy-target-limit", "--query-bind-address"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("error %v does not name %s", err, flag)
		}
	}
}
