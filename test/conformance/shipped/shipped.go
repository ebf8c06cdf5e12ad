// Package shipped connects Kubernetes' scheduler integration suite to Supercargo: its plugins, and its
// shipped profile under every profile that the suite defaults. The suite's files call it instead of two
// functions of Kubernetes; see test/conformance.
package shipped

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedconfigv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/manifests"
	"supercargo.dev/supercargo/plugins"
	"supercargo.dev/supercargo/plugins/packingsort"
)

// Env is the environment variable that selects the scheduler of a test program: [Supercargo], or the stock
// one for any other value.
const Env = "CONFORMANCE_SCHEDULER"

// Supercargo is the value of [Env] that selects Supercargo's plugins and profile.
const Supercargo = "supercargo"

func wanted() bool { return os.Getenv(Env) == Supercargo }

// init changes the defaulting of configurations, for tests that default one themselves and for tests that
// leave it to the scheduler.
func init() {
	if wanted() {
		scheme.Scheme.AddTypeDefaultingFunc(&configv1.KubeSchedulerConfiguration{}, func(obj any) {
			setDefaults(obj.(*configv1.KubeSchedulerConfiguration))
		})
	}
}

// NewScheduler is [scheduler.New] with Supercargo's plugins registered.
func NewScheduler(ctx context.Context, client clientset.Interface, factory informers.SharedInformerFactory, dynamic dynamicinformer.DynamicSharedInformerFactory,
	recorders profile.RecorderFactory, options ...scheduler.Option) (*scheduler.Scheduler, error) {
	return scheduler.New(ctx, client, factory, dynamic, recorders, append([]scheduler.Option{WithRegistry(nil)}, options...)...)
}

// WithRegistry is [scheduler.WithFrameworkOutOfTreeRegistry] that adds Supercargo's plugins to those of the
// test.
func WithRegistry(test frameworkruntime.Registry) scheduler.Option {
	all := frameworkruntime.Registry{}
	if wanted() {
		all = plugins.Registry(clock.RealClock{})
	}
	maps.Copy(all, test)
	return scheduler.WithFrameworkOutOfTreeRegistry(all)
}

// setDefaults merges each profile with the one that Supercargo ships, and leaves the rest to Kubernetes.
func setDefaults(c *configv1.KubeSchedulerConfiguration) {
	base, err := defaultProfile(manifests.SchedulerConfig)
	if err != nil {
		panic(err) // the file is embedded, and this package's tests read it
	}
	if len(c.Profiles) == 0 {
		c.Profiles = make([]configv1.KubeSchedulerProfile, 1)
	}
	for i := range c.Profiles {
		p := &c.Profiles[i]
		if p.PercentageOfNodesToScore == nil {
			p.PercentageOfNodesToScore = base.PercentageOfNodesToScore
		}
		p.Plugins = laid(withoutDefaultQueueSort(p.Plugins), base.Plugins)
	}
	schedconfigv1.SetObjectDefaults_KubeSchedulerConfiguration(c)
}

// defaultProfile returns the first profile of a KubeSchedulerConfiguration, which applies to pods that name
// no scheduler.
func defaultProfile(configuration []byte) (*configv1.KubeSchedulerProfile, error) {
	var c configv1.KubeSchedulerConfiguration
	if err := yaml.UnmarshalStrict(configuration, &c); err != nil {
		return nil, fmt.Errorf("read the shipped KubeSchedulerConfiguration: %w", err)
	}
	if len(c.Profiles) == 0 {
		return nil, errors.New("read the shipped KubeSchedulerConfiguration: it has no profile")
	}
	p := &c.Profiles[0]
	if p.SchedulerName == nil || *p.SchedulerName != corev1.DefaultSchedulerName || p.Plugins == nil || len(p.PluginConfig) > 0 {
		return nil, fmt.Errorf("read the shipped KubeSchedulerConfiguration: want the first profile to be %s, with plugins and without arguments",
			corev1.DefaultSchedulerName)
	}
	return p, nil
}

// withoutDefaultQueueSort disables PackingSort if a test disables the stock queue sort plugin to use its own:
// a profile can have only one.
func withoutDefaultQueueSort(test *configv1.Plugins) *configv1.Plugins {
	if test == nil {
		return nil
	}
	for _, disabled := range test.QueueSort.Disabled {
		if disabled.Name == names.PrioritySort {
			changed := test.DeepCopy()
			changed.QueueSort.Disabled = append(changed.QueueSort.Disabled, configv1.Plugin{Name: packingsort.Name})
			return changed
		}
	}
	return test
}

// laid merges the plugins of a test with those of a profile, as Kubernetes merges them with its own defaults.
// It does not change its arguments.
func laid(test, base *configv1.Plugins) *configv1.Plugins {
	if test == nil {
		return base.DeepCopy()
	}
	result, test, base := &configv1.Plugins{}, test.DeepCopy(), base.DeepCopy()
	sets := func(p *configv1.Plugins) []*configv1.PluginSet {
		return []*configv1.PluginSet{&p.MultiPoint, &p.PreEnqueue, &p.QueueSort, &p.PreFilter, &p.Filter, &p.PostFilter, &p.PreScore, &p.Score,
			&p.Reserve, &p.Permit, &p.PreBind, &p.Bind, &p.PostBind}
	}
	over, under := sets(test), sets(base)
	for i, set := range sets(result) {
		*set = laidSet(over[i], under[i])
	}
	return result
}

func laidSet(over, under *configv1.PluginSet) configv1.PluginSet {
	gone := map[string]bool{}
	for _, p := range append(over.Disabled, over.Enabled...) {
		gone[p.Name] = true
	}
	set := configv1.PluginSet{Disabled: append(under.Disabled, over.Disabled...)}
	for _, p := range under.Enabled {
		if !gone["*"] && !gone[p.Name] {
			set.Enabled = append(set.Enabled, p)
		}
	}
	set.Enabled = append(set.Enabled, over.Enabled...)
	return set
}
