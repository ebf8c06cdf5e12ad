package constraint_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // for the conversions below
	podregistry "k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// oracle runs kube-scheduler's own filter plugins on a snapshot that tests change: those that depend on the node alone,
// and those that depend on other pods.
type oracle struct {
	ctx              context.Context
	static, dynamic  framework.Framework
	fwk.SharedLister // the current cluster
}

// newOracle runs the plugins that this package replaces, with the arguments of the default configuration.
func newOracle(tb testing.TB, namespaces map[string]map[string]string) *oracle {
	tb.Helper()
	metrics.Register()
	ctx := klog.NewContext(tb.Context(), logr.Discard())
	o := &oracle{ctx: ctx, SharedLister: schedcache.NewEmptySnapshot()}
	var objects []apiruntime.Object
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: namespaces[name]}})
	}
	factory := informers.NewSharedInformerFactory(fake.NewClientset(objects...), 0)
	defaults, err := latest.Default()
	if err != nil {
		tb.Fatal(err)
	}
	profile := defaults.Profiles[0]
	enable := func(plugins ...string) (set config.PluginSet) {
		for _, name := range plugins {
			set.Enabled = append(set.Enabled, config.Plugin{Name: name})
		}
		return set
	}
	run := func(filters ...string) framework.Framework {
		profile := profile
		profile.Plugins = &config.Plugins{QueueSort: enable(names.PrioritySort), Bind: enable(names.DefaultBinder), Filter: enable(filters...)}
		prefilters := []string{names.NodeAffinity, names.NodePorts, names.PodTopologySpread, names.InterPodAffinity}
		profile.Plugins.PreFilter = enable(slices.DeleteFunc(prefilters, func(n string) bool { return !slices.Contains(filters, n) })...)
		profile.PluginConfig = slices.DeleteFunc(slices.Clone(profile.PluginConfig), func(c config.PluginConfig) bool {
			return !slices.Contains(filters, c.Name)
		})
		fw, err := runtime.NewFramework(ctx, plugins.NewInTreeRegistry(), &profile,
			runtime.WithSnapshotSharedLister(o), runtime.WithInformerFactory(factory))
		if err != nil {
			tb.Fatal(err)
		}
		return fw
	}
	o.static = run(names.NodeUnschedulable, names.NodeName, names.TaintToleration, names.NodeAffinity)
	o.dynamic = run(names.NodePorts, names.PodTopologySpread, names.InterPodAffinity)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return o
}

// node returns the node that a host represents.
func node(h *constraint.Host) *corev1.Node {
	labels := map[string]string{corev1.LabelHostname: h.Name} // unless overridden below
	maps.Copy(labels, h.Labels)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: h.Name, Labels: labels},
		Spec:       corev1.NodeSpec{Taints: h.Taints, Unschedulable: h.Unschedulable},
	}
}

// see sets the cluster that the plugins see: nodes, and pods bound to them.
func (o *oracle) see(nodes []*corev1.Node, pods []*corev1.Pod) {
	o.SharedLister = schedcache.NewSnapshot(pods, nodes)
}

// refusals returns for each node, by name, the plugin of fw that rejects the pod, or "".
func (o *oracle) refusals(tb failer, fw framework.Framework, pod *corev1.Pod) map[string]string {
	refusals := map[string]string{}
	nodes, err := o.NodeInfos().List()
	if err != nil {
		tb.Fatalf("list nodes: %v", err)
	}
	state := framework.NewCycleState()
	among, all, whose := fw.RunPreFilterPlugins(o.ctx, state, pod)
	for _, n := range nodes {
		status := all
		if all.IsSuccess() {
			status = fw.RunFilterPlugins(o.ctx, state, pod, n)
		}
		switch {
		case !status.IsSuccess() && !status.IsRejected():
			tb.Fatalf("filter pod %v on node %s: %v", pod, n.Node().Name, status)
		case status.IsRejected():
			refusals[n.Node().Name] = status.Plugin()
		case !among.AllNodes() && !among.NodeNames.Has(n.Node().Name):
			refusals[n.Node().Name] = strings.Join(slices.Sorted(maps.Keys(whose)), ",")
		}
	}
	return refusals
}

type failer interface {
	Fatalf(format string, args ...any)
}

// served returns the pod as the API server would store it.
func served(tb failer, pod *corev1.Pod) *corev1.Pod {
	var internal core.Pod
	if err := legacyscheme.Scheme.Convert(pod.DeepCopy(), &internal, nil); err != nil {
		tb.Fatalf("convert a pod: %v", err)
	}
	podregistry.Strategy.PrepareForCreate(context.Background(), &internal)
	var stored corev1.Pod
	if err := legacyscheme.Scheme.Convert(&internal, &stored, nil); err != nil {
		tb.Fatalf("convert a pod back: %v", err)
	}
	return &stored
}
