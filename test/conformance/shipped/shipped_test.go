package shipped

import (
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"supercargo.dev/supercargo/manifests"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// TestAnEmptyConfigurationDefaultsToTheShippedProfile compares with the plugins that kube-scheduler itself
// derives from the shipped file.
func TestAnEmptyConfigurationDefaultsToTheShippedProfile(t *testing.T) {
	file := testfile.New(t, "config.yaml", manifests.SchedulerConfig)
	want, err := options.LoadConfigFromFile(klog.Background(), file)
	if err != nil {
		t.Fatal(err)
	}
	var versioned configv1.KubeSchedulerConfiguration
	setDefaults(&versioned)
	var got config.KubeSchedulerConfiguration
	if err := scheme.Scheme.Convert(&versioned, &got, nil); err != nil {
		t.Fatal(err)
	}
	if len(got.Profiles) != 1 {
		t.Fatalf("%d profiles, want one", len(got.Profiles))
	}
	if diff := cmp.Diff(want.Profiles[0], got.Profiles[0]); diff != "" {
		t.Errorf("profile (-of kube-scheduler +of the suite):\n%s", diff)
	}
}

// queueSort returns the queue sort plugin of a scheduler that a test of the suite would start with a
// configuration that it defaults.
func queueSort(t *testing.T) string {
	t.Helper()
	var versioned configv1.KubeSchedulerConfiguration
	scheme.Scheme.Default(&versioned)
	var c config.KubeSchedulerConfiguration
	if err := scheme.Scheme.Convert(&versioned, &c, nil); err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset()
	recorders := profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()}))
	s, err := NewScheduler(t.Context(), client, scheduler.NewInformerFactory(client, 0), nil, recorders, scheduler.WithProfiles(c.Profiles...), WithRegistry(nil))
	if err != nil {
		t.Fatal(err)
	}
	return s.Profiles[corev1.DefaultSchedulerName].ListPlugins().QueueSort.Enabled[0].Name
}

// TestTheEnvironmentChoosesTheScheduler runs this test program twice more, because the defaults of a
// configuration are fixed when a program starts.
func TestTheEnvironmentChoosesTheScheduler(t *testing.T) {
	const printed = "the order of the queue is "
	if os.Getenv("CONFORMANCE_PRINT") != "" {
		fmt.Println(printed + queueSort(t))
		return
	}
	for value, want := range map[string]string{Supercargo: "PackingSort", "stock": "PrioritySort"} {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
		c.Env = append(os.Environ(), "CONFORMANCE_PRINT=1", Env+"="+value)
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), printed+want+"\n") {
			t.Errorf("%s=%s: %v, want %s:\n%s", Env, value, err, want, out)
		}
	}
}

func set(enabled, disabled string) configv1.PluginSet {
	list := func(text string) (all []configv1.Plugin) {
		for _, name := range strings.Fields(text) {
			all = append(all, configv1.Plugin{Name: name})
		}
		return all
	}
	return configv1.PluginSet{Enabled: list(enabled), Disabled: list(disabled)}
}

func TestATestsPluginsAreLaidOverTheShippedOnes(t *testing.T) {
	for _, tc := range []struct {
		name              string
		over, under, want configv1.PluginSet
	}{
		{"after them", set("T", ""), set("A B", "X"), set("A B T", "X")},
		{"what it disables is gone", set("", "A"), set("A B", "X"), set("B", "X A")},
		{"all of it", set("T", "*"), set("A B", ""), set("T", "*")},
		{"what it enables too has its place", set("A T", ""), set("A B", ""), set("B A T", "")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, laidSet(&tc.over, &tc.under)); diff != "" {
				t.Errorf("plugins (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEveryExtensionPointIsLaid checks that the list of extension points is complete.
func TestEveryExtensionPointIsLaid(t *testing.T) {
	var over, under configv1.Plugins
	fill := func(p *configv1.Plugins, name string) int {
		v := reflect.ValueOf(p).Elem()
		for i := range v.NumField() {
			v.Field(i).Set(reflect.ValueOf(set(name, "")))
		}
		return v.NumField()
	}
	n := fill(&over, "T")
	fill(&under, "A")
	got := reflect.ValueOf(laid(&over, &under)).Elem()
	for i := range n {
		if diff := cmp.Diff(set("A T", ""), got.Field(i).Interface()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", got.Type().Field(i).Name, diff)
		}
	}
}

func TestATestThatReplacesTheStockOrderReplacesThatOfTheProfile(t *testing.T) {
	test := &configv1.Plugins{QueueSort: set("T", "PrioritySort")}
	if diff := cmp.Diff(set("T", "PrioritySort PackingSort"), withoutDefaultQueueSort(test).QueueSort); diff != "" {
		t.Errorf("queueSort (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(set("T", "PrioritySort"), test.QueueSort); diff != "" {
		t.Errorf("the test's own plugins were changed (-want +got):\n%s", diff)
	}
	if other := withoutDefaultQueueSort(&configv1.Plugins{Score: set("", "*")}); len(other.QueueSort.Disabled) > 0 {
		t.Errorf("%v is disabled for a test that keeps the order", other.QueueSort.Disabled)
	}
}

func TestAShippedConfigurationOfAnotherShapeIsRefused(t *testing.T) {
	for _, text := range []string{"profiles: []", "profiles: [{schedulerName: other, plugins: {}}]", "profiles: [{schedulerName: default-scheduler}]", "[]",
		"profiles: [{schedulerName: default-scheduler, plugins: {}, pluginConfig: [{name: BestFit}]}]"} {
		if _, err := defaultProfile([]byte(text)); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}
