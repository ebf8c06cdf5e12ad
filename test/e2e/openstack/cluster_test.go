//go:build openstack

package openstack

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/lab/playground"
)

const (
	account = "supercargo-autoscaler"
	// joinToken is in the user data, as a secret that must not leak.
	joinToken = "hush-abcdef.0123456789abcdef"
)

// cluster is a control plane with an autoscaler, and a fleet that rents servers of a project. The autoscaler
// has only the permissions in manifests/autoscaler and manifests/openstack.
type cluster struct {
	*project
	client.Client
	name string // of the fleet

	mu    sync.Mutex
	log   bytes.Buffer
	muted map[string]bool // flavors whose servers never join
	// identify makes the node of a server identify its server.
	identify func(n *corev1.Node, s *servers.Server)
}

// serverAnnotation records the server of a node, regardless of how the node identifies it.
const serverAnnotation = "played-for-server"

// byProviderID identifies the server by provider ID, the usual way.
func byProviderID(n *corev1.Node, s *servers.Server) { n.Spec.ProviderID = "openstack:///" + s.ID }

// bySystemUUID identifies the server as on KVM without provider IDs.
func bySystemUUID(n *corev1.Node, s *servers.Server) {
	n.Status.NodeInfo.SystemUUID = strings.ToUpper(s.ID)
}

// byNameAndAddress identifies the server as on bare metal.
func byNameAndAddress(n *corev1.Node, s *servers.Server) {
	n.Name = s.Name + ".novalocal"
	for _, ports := range s.Addresses {
		port := ports.([]any)[0].(map[string]any)
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: port["addr"].(string)}}
	}
}

// byNothing does not identify the server.
func byNothing(n *corev1.Node, s *servers.Server) { n.Name = "node-" + s.ID[:8] }

// newCluster starts a cluster. prices is a catalogue without its header.
func newCluster(p *project, prices string) *cluster {
	p.Helper()
	play := playground.ForTest(p.T, playground.Options{})
	c := &cluster{project: p, name: "batch", muted: map[string]bool{}, identify: byProviderID}
	c.apply(play, "crd/supercargo.dev_nodefleets.yaml", "namespace/namespace.yaml", "autoscaler/rbac.yaml", "openstack/rbac.yaml")
	scheme := runtime.NewScheme()
	c.try("register kinds", clientgoscheme.AddToScheme(scheme))
	c.try("register kinds", v1alpha1.AddToScheme(scheme))
	c.Client = must(client.New(play.Config(), client.Options{Scheme: scheme}))(p.T)
	c.eventually("NodeFleets are served", func() string {
		if err := c.List(c.Context(), &v1alpha1.NodeFleetList{}); err != nil {
			return err.Error()
		}
		return ""
	})
	for _, object := range []client.Object{
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "prices"},
			Data:       map[string]string{"flavors.csv": "name,cpu,memory_gib,price_per_hour\n" + prices},
		},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "join"},
			Data:       map[string]string{"user-data": "{{.Values.token}}\n{{.Labels}}\n"},
		},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "token"}, Data: map[string][]byte{"token": []byte(joinToken)}},
		cloudsSecret("cloud", p.name, userPassword),
	} {
		c.try("make "+object.GetName(), c.Create(c.Context(), object))
	}
	c.joinNodes()
	c.autoscale(play)
	c.Cleanup(c.checkSecrets)
	return c
}

// apply creates the objects of files in manifests/.
func (c *cluster) apply(play *playground.Playground, files ...string) {
	c.Helper()
	for _, file := range files {
		text, err := os.ReadFile("../../../manifests/" + file)
		c.try("read a manifest", err)
		found, err := playground.ParseManifests(file, bytes.NewReader(text))
		c.try("parse a manifest", err)
		c.try("apply "+file, play.Apply(c.Context(), found))
	}
}

// autoscale runs the autoscaler until the test ends.
func (c *cluster) autoscale(play *playground.Playground) {
	var o app.Options
	o.Config = play.Config()
	o.Config.QPS, o.Config.Burst = 100, 200
	o.Config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + home + ":" + account,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + home, "system:authenticated"},
	}
	o.MetricsAddress, o.ProbeAddress = "0", "0"
	o.Log = funcr.New(func(prefix, args string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		fmt.Fprintln(&c.log, prefix, args)
	}, funcr.Options{LogTimestamp: true, TimestampFormat: "15:04:05.000", Verbosity: 10})
	c.during("the autoscaler", func(ctx context.Context) error { return app.Run(ctx, o) })
	c.Cleanup(func() {
		if c.Failed() {
			c.mu.Lock()
			defer c.mu.Unlock()
			lines := strings.Split(c.log.String(), "\n")
			c.Logf("the autoscaler's last lines:\n%s\n%s", strings.Join(lines[max(0, len(lines)-40):], "\n"), c.told())
		}
	})
}

// during runs a function until the test ends. The test fails if the function fails.
func (c *cluster) during(what string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	c.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			c.Errorf("%s: %v", what, err)
		}
	})
}

// joinNodes simulates machines: the kubelet of an active server registers its node, as its user data tell it,
// and stops reporting when the server is deleted.
func (c *cluster) joinNodes() {
	c.during("the machines", func(ctx context.Context) error {
		for ctx.Err() == nil {
			if err := c.playMachines(ctx); err != nil && ctx.Err() == nil {
				return err
			}
			select {
			case <-ctx.Done():
			case <-time.After(poll):
			}
		}
		return nil
	})
}

func (c *cluster) playMachines(ctx context.Context) error {
	pages, err := servers.List(c.compute, servers.ListOpts{}).AllPages(ctx)
	if err != nil {
		return err
	}
	all, err := servers.ExtractServers(pages)
	if err != nil {
		return err
	}
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return err
	}
	up, has := map[string]bool{}, map[string]bool{}
	for i := range nodes.Items {
		has[nodes.Items[i].Annotations[serverAnnotation]] = true
	}
	for i := range all {
		s := &all[i]
		if s.Status != "ACTIVE" {
			continue
		}
		up[s.ID] = true
		flavor, _ := s.Flavor["original_name"].(string)
		if c.isMuted(flavor) || has[s.ID] {
			continue
		}
		if err := c.join(ctx, s); err != nil {
			return err
		}
	}
	for i := range nodes.Items {
		if n := &nodes.Items[i]; !up[n.Annotations[serverAnnotation]] {
			if err := c.silence(ctx, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// join creates the node of a server.
func (c *cluster) join(ctx context.Context, s *servers.Server) error {
	seen, err := servers.Get(ctx, c.site.compute, s.ID).Extract() // only the administrator sees user data
	if err != nil {
		return err
	}
	if seen.Userdata == nil {
		return fmt.Errorf("server %s has no user data", s.Name)
	}
	text, err := base64.StdEncoding.DecodeString(*seen.Userdata)
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	if lines[0] != joinToken {
		return fmt.Errorf("server %s has a token of %d bytes", s.Name, len(lines[0]))
	}
	spec := playground.NodeSpec{
		Name: s.Name, CPU: fmt.Sprint(s.Flavor["vcpus"]), Memory: fmt.Sprintf("%vMi", s.Flavor["ram"].(float64)-256), Labels: map[string]string{},
	}
	for _, pair := range strings.Split(lines[1], ",") {
		key, value, _ := strings.Cut(pair, "=")
		spec.Labels[key] = value
	}
	node, err := spec.Node()
	if err != nil {
		return err
	}
	node.Labels[corev1.LabelTopologyZone] = s.AvailabilityZone
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, serverAnnotation, s.ID)
	c.mu.Lock()
	c.identify(node, s)
	c.mu.Unlock()
	if err := c.Create(ctx, node); !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// silence stops the heartbeat of a node.
func (c *cluster) silence(ctx context.Context, n *corev1.Node) error {
	if _, played := n.Annotations["kwok.x-k8s.io/node"]; played {
		before := n.DeepCopy()
		delete(n.Annotations, "kwok.x-k8s.io/node")
		if err := c.Patch(ctx, n, client.MergeFrom(before)); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	at := meta.FindStatusCondition(nodeConditions(n), string(corev1.NodeReady))
	if at == nil || at.Status == metav1.ConditionUnknown {
		return nil
	}
	before := n.DeepCopy()
	n.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
	}}
	return client.IgnoreNotFound(c.Status().Patch(ctx, n, client.StrategicMergeFrom(before)))
}

func nodeConditions(n *corev1.Node) []metav1.Condition {
	all := make([]metav1.Condition, len(n.Status.Conditions))
	for i, c := range n.Status.Conditions {
		all[i] = metav1.Condition{Type: string(c.Type), Status: metav1.ConditionStatus(c.Status)}
	}
	return all
}

// mute prevents servers of a flavor from joining.
func (c *cluster) mute(flavor string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.muted[flavor] = true
}

func (c *cluster) isMuted(flavor string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.muted[flavor]
}

// identifies sets how nodes of later servers identify their server.
func (c *cluster) identifies(how func(n *corev1.Node, s *servers.Server)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.identify = how
}

// credentials changes the password in the Secret.
func (c *cluster) credentials(password string) {
	c.Helper()
	c.try("change the credentials", c.Update(c.Context(), cloudsSecret("cloud", c.project.name, password)))
}

// fleet creates the fleet, in the roomy zone unless change sets another.
func (c *cluster) fleet(change func(*v1alpha1.NodeFleetSpec)) {
	c.Helper()
	servers := serversSpec("cloud")
	servers.UserData = &v1alpha1.OpenStackUserData{
		ConfigMap: &v1alpha1.ObjectKey{ObjectName: v1alpha1.ObjectName{Namespace: home, Name: "join"}},
		Values:    &v1alpha1.ObjectName{Namespace: home, Name: "token"},
	}
	f := &v1alpha1.NodeFleet{ObjectMeta: metav1.ObjectMeta{Name: c.name}, Spec: v1alpha1.NodeFleetSpec{
		Provider: v1alpha1.FleetOpenStack, OpenStack: servers,
		Pricing: v1alpha1.FleetPricing{
			BillingPeriod: duration("1s"), Catalogue: &v1alpha1.PriceCatalogue{Namespace: home, Name: "prices", Key: "flavors.csv"},
		},
		Scaling: v1alpha1.FleetScaling{
			Interval: duration("5s"), BatchIdle: duration("1s"), BatchMax: duration("5s"), JoinTimeout: duration("10m"), BackOff: duration("1h"), ExpectedLag: duration("2s"),
		},
		Consolidation: v1alpha1.FleetConsolidation{
			Policy: v1alpha1.ConsolidateWhenEmpty, After: duration("1s"), QueueEmptyFor: duration("1s"), MaxUnavailable: "100%", DrainTimeout: duration("15s"), ReleaseDelay: duration("3s"),
		},
	}}
	change(&f.Spec)
	c.try("make a NodeFleet", c.Create(c.Context(), f))
}

// change changes the spec of the fleet.
func (c *cluster) change(change func(*v1alpha1.NodeFleetSpec)) {
	c.Helper()
	c.eventually("the fleet is changed", func() string {
		f := c.get()
		change(&f.Spec)
		if err := c.Update(c.Context(), f); err != nil {
			return err.Error()
		}
		return ""
	})
}

func (c *cluster) get() *v1alpha1.NodeFleet {
	c.Helper()
	f := &v1alpha1.NodeFleet{}
	c.try("read the NodeFleet", c.Get(context.WithoutCancel(c.Context()), client.ObjectKey{Name: c.name}, f))
	return f
}

func duration(text string) metav1.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return metav1.Duration{Duration: d}
}

// pods creates n equal pods.
func (c *cluster) pods(prefix string, n int, cpu, memory string, change ...func(*corev1.Pod)) {
	c.Helper()
	for i := range n {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%s-%d", prefix, i)},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
				}},
			}}},
		}
		for _, f := range change {
			f(p)
		}
		c.eventually("pods can be made", func() string {
			if err := c.Create(c.Context(), p); err != nil {
				return err.Error()
			}
			return ""
		})
	}
}

// has waits until a condition of the fleet has this status and reason, and returns its message.
func (c *cluster) has(kind string, status metav1.ConditionStatus, reason string) (message string) {
	c.Helper()
	c.eventually(fmt.Sprintf("%s is %s (%s)", kind, status, reason), func() string {
		found := meta.FindStatusCondition(c.get().Status.Conditions, kind)
		if found == nil {
			return "not set"
		}
		if found.Status != status || found.Reason != reason {
			return fmt.Sprintf("%s (%s): %s", found.Status, found.Reason, found.Message)
		}
		message = found.Message
		return ""
	})
	return message
}

func (c *cluster) events() []corev1.Event {
	c.Helper()
	var all corev1.EventList
	c.try("list Events", c.List(context.WithoutCancel(c.Context()), &all))
	return all.Items
}

// event waits for an Event on the fleet and returns its message.
func (c *cluster) event(reason string) (note string) {
	c.Helper()
	c.eventually("an Event "+reason, func() string {
		for _, e := range c.events() {
			if e.InvolvedObject.Kind == "NodeFleet" && e.Reason == reason {
				note = e.Message
				return ""
			}
		}
		return "there is none"
	})
	return note
}

// told returns all text that the autoscaler has written for users.
func (c *cluster) told() string {
	var text strings.Builder
	status, err := json.MarshalIndent(c.get().Status, "", " ")
	c.try("write down the status", err)
	text.Write(status)
	for _, e := range c.events() {
		fmt.Fprintf(&text, "\nEvent %s %s: %s", e.CreationTimestamp.Format("15:04:05"), e.Reason, e.Message)
	}
	return text.String()
}

// checkSecrets checks that no secret was written to user-visible text.
func (c *cluster) checkSecrets() {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.log.String() + c.told()
	for _, secret := range []string{"hush", base64.StdEncoding.EncodeToString([]byte(joinToken)), "gAAAA"} { // gAAAA is the prefix of Keystone's tokens
		if at := strings.Index(all, secret); at >= 0 {
			c.Errorf("a secret is told: …%s…", all[max(0, at-200):min(len(all), at+20)])
		}
	}
}
