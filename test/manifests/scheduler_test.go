package manifests

import (
	"context"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/plugins"
)

const configDir = "../../manifests/scheduler/config"

// load reads a configuration as `kube-scheduler --config` does.
func load(t *testing.T, name string) *config.KubeSchedulerConfiguration {
	t.Helper()
	logger, _ := ktesting.NewTestContext(t)
	cfg, err := options.LoadConfigFromFile(logger, filepath.Join(configDir, name))
	if err != nil {
		t.Fatalf("load %s: %v", name, err)
	}
	if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		t.Fatalf("validate %s: %v", name, err)
	}
	return cfg
}

// profiles starts a scheduler with the configuration and returns its profiles: the plugins created, their
// extension points expanded and ordered.
func profiles(t *testing.T, name string) profile.Map {
	t.Helper()
	cfg := load(t, name)
	_, testCtx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(testCtx)
	t.Cleanup(cancel)
	client := fake.NewClientset()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	t.Cleanup(broadcaster.Shutdown)
	sched, err := scheduler.New(ctx, client, informers.NewSharedInformerFactory(client, 0), nil,
		profile.NewRecorderFactory(broadcaster),
		scheduler.WithProfiles(cfg.Profiles...),
		scheduler.WithFrameworkOutOfTreeRegistry(plugins.Registry(clock.RealClock{})))
	if err != nil {
		t.Fatalf("start a scheduler with %s: %v", name, err)
	}
	return sched.Profiles
}

func TestConfigurationsServeTheirProfiles(t *testing.T) {
	tests := map[string][]string{
		"kube-scheduler.yaml":   {"batch-packing", "default-scheduler", "service-packing"},
		"second-scheduler.yaml": {"batch-packing", "service-packing"}, // never default-scheduler, which the default scheduler serves
		"blended.yaml":          {"blended"},
		"energy.yaml":           {"energy"},
		"in-order.yaml":         {"default-scheduler"},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range load(t, name).Profiles {
				got = append(got, p.SchedulerName)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("profiles = %q, want %q", got, want)
			}
		})
	}
}

func TestPluginsRunInTheOrderPromised(t *testing.T) {
	for _, name := range []string{"kube-scheduler.yaml", "second-scheduler.yaml", "blended.yaml", "energy.yaml", "in-order.yaml"} {
		for scheduler, framework := range profiles(t, name) {
			t.Run(name+"/"+scheduler, func(t *testing.T) {
				points := framework.ListPlugins()
				order := "PackingSort"
				if name == "in-order.yaml" {
					order = "PrioritySort"
				}
				if got := names(points.QueueSort); !slices.Equal(got, []string{order}) {
					t.Errorf("queueSort = %q, want %s alone", got, order)
				}
				if got := names(points.Filter); !slices.Contains(got, "NodeClass") || !slices.Contains(got, "CheckpointStaging") {
					t.Errorf("filter = %q, want NodeClass and CheckpointStaging among them", got)
				}
				// It may wait for minutes; the results of later plugins would become stale meanwhile.
				if got := names(points.PreBind); got[len(got)-1] != "CheckpointStaging" {
					t.Errorf("preBind = %q, want CheckpointStaging last", got)
				}
				if got := names(points.PreFilter); got[len(got)-1] != "BestFit" {
					t.Errorf("preFilter = %q, want BestFit last", got)
				}
				if got, want := names(points.PostFilter), []string{"BestFit", "CheckpointStaging", "DynamicResources", "DefaultPreemption"}; !slices.Equal(got, want) {
					t.Errorf("postFilter = %q, want %q", got, want)
				}
				if got := names(points.Bind); got[len(got)-1] != "DefaultBinder" {
					t.Errorf("bind = %q, want DefaultBinder last", got)
				}
				timeBin := scheduler != "service-packing"
				if got := slices.Contains(names(points.Bind), "TimeBin"); got != timeBin {
					t.Errorf("TimeBin binds = %t, want %t", got, timeBin)
				}
			})
		}
	}
}

// TestStrictProfilesAreStrict: a score differs by at least 1 of 100 between two nodes with different fit, so
// a weight of more than 100 times the sum of the others cannot be outvoted. TimeBin and BestFit never score
// the same pod.
func TestStrictProfilesAreStrict(t *testing.T) {
	for _, name := range []string{"kube-scheduler.yaml", "second-scheduler.yaml", "in-order.yaml"} {
		for scheduler, framework := range profiles(t, name) {
			t.Run(name+"/"+scheduler, func(t *testing.T) {
				packing := map[string]int64{}
				var stock int64
				for _, p := range framework.ListPlugins().Score.Enabled {
					switch p.Name {
					case "BestFit", "TimeBin":
						packing[p.Name] = int64(p.Weight)
					default:
						stock += int64(p.Weight)
					}
				}
				if stock == 0 || len(packing) == 0 {
					t.Errorf("stock plugins weigh %d, packing plugins %v, want both", stock, packing)
				}
				for plugin, weight := range packing {
					if weight <= 100*stock {
						t.Errorf("%s weighs %d, want more than 100 x %d", plugin, weight, stock)
					}
				}
				if got := framework.PercentageOfNodesToScore(); got == nil || *got != 100 {
					t.Errorf("percentageOfNodesToScore = %v, want 100: a sample may miss the fullest node", got)
				}
			})
		}
	}
}

// TestSecondSchedulerPacksAlike checks that the profiles in both files are equal.
func TestSecondSchedulerPacksAlike(t *testing.T) {
	first := map[string]config.KubeSchedulerProfile{}
	for _, p := range load(t, "kube-scheduler.yaml").Profiles {
		first[p.SchedulerName] = p
	}
	for _, p := range load(t, "second-scheduler.yaml").Profiles {
		if !reflect.DeepEqual(first[p.SchedulerName], p) {
			t.Errorf("profile %s differs between kube-scheduler.yaml and second-scheduler.yaml", p.SchedulerName)
		}
	}
}

func names(set config.PluginSet) []string {
	var out []string
	for _, p := range set.Enabled {
		out = append(out, p.Name)
	}
	return out
}
