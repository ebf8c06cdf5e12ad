package chart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	autoscaler "supercargo.dev/supercargo/autoscaler/app"
	descheduler "supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/test/docs/commands"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// TestRemovingEverythingLeavesTheClusterAsItWas installs by the commands of docs/start-cluster.md, runs the programs with
// their permissions, removes everything by the commands of the page, and compares all objects of the cluster with those
// before. Then it does the same with all parts, without running them.
func TestRemovingEverythingLeavesTheClusterAsItWas(t *testing.T) {
	c := newCluster(t)
	c.serveAt(16443)
	install, remove := c.page()
	c.waits("kube-controller-manager has labelled the nodes", func() error {
		var nodes corev1.NodeList
		if err := c.List(t.Context(), &nodes); err != nil {
			return err
		}
		for i := range nodes.Items {
			if nodes.Items[i].Labels["beta.kubernetes.io/arch"] == "" {
				return fmt.Errorf("node %s has the labels %v", nodes.Items[i].Name, nodes.Items[i].Labels)
			}
		}
		return nil
	})
	before := c.everything()
	for _, command := range install {
		c.shell(command)
	}
	c.allows(16443)
	c.report()
	if len(c.everything()) < len(before)+20 {
		t.Fatal("the commands of the page have installed nothing")
	}
	c.removes("what the page installs", before, remove)

	c.must("helm", "install", "supercargo-crds", kinds)
	c.must("helm", c.install("install", "supercargo", home, parts())...)
	c.shell(install[len(install)-1])
	c.removes("all parts", before, remove)
}

// serveAt does what an API server does to announce its port, unless its address is a loopback one as here.
func (c *cluster) serveAt(port int32) {
	c.Helper()
	testapi.Create(c.T, c.Client, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}}},
		Ports:       []discoveryv1.EndpointPort{{Name: new("https"), Port: new(port)}},
	})
}

// allows checks that the policies allow connections to that port of the API server.
func (c *cluster) allows(port int32) {
	c.Helper()
	var all networkingv1.NetworkPolicyList
	if err := c.List(c.Context(), &all, client.InNamespace(home)); err != nil {
		c.Fatal(err)
	}
	for _, policy := range all.Items {
		if rules := destinations(&policy); !slices.Contains(rules, fmt.Sprintf("anywhere: 443 6443 %d", port)) {
			c.Errorf("policy %s allows %q, and the API server is at port %d", policy.Name, rules, port)
		}
	}
	if len(all.Items) != 2 {
		c.Errorf("there are %d policies, want one of each program", len(all.Items))
	}
}

// page returns the commands of docs/start-cluster.md that install, the last of which creates a NodeFleet, and those that
// remove everything.
func (c *cluster) page() (install, remove []string) {
	c.Helper()
	all, err := commands.Read("../../..", "docs/start-cluster.md")
	if err != nil {
		c.Fatal(err)
	}
	for _, command := range all {
		switch {
		case strings.HasPrefix(command.Text, "helm install "), strings.HasPrefix(command.Text, "kubectl apply "):
			install = append(install, command.Text)
		case strings.HasPrefix(command.Text, "helm uninstall "), strings.HasPrefix(command.Text, "kubectl delete "):
			remove = append(remove, command.Text)
		}
	}
	if len(install) != 3 || len(remove) < 3 {
		c.Fatalf("docs/start-cluster.md installs by %q and removes by %q", install, remove)
	}
	return install, remove
}

// shell runs a command of a page in the root of the repository.
func (c *cluster) shell(command string) {
	c.Helper()
	cmd := exec.CommandContext(c.Context(), "sh", "-c", command)
	cmd.Dir = "../../.."
	cmd.Env = append(cmd.Environ(), "HOME="+c.TempDir(), "KUBECONFIG="+c.KubeconfigPath())
	if out, err := cmd.CombinedOutput(); err != nil {
		c.Fatalf("%s: %v\n%s", command, err, out)
	}
}

func (c *cluster) removes(what string, before map[string]string, commands []string) {
	c.Helper()
	for _, command := range commands {
		c.shell(command)
	}
	// The API server removes the APIService of a group some time after its last CRD.
	c.waits("after "+what+" was removed, the cluster is as before", func() error {
		if diff := cmp.Diff(before, c.everything()); diff != "" {
			return errors.New("(-before +after):\n" + diff)
		}
		return nil
	})
}

// report runs the autoscaler and the descheduler with the permissions that are installed, until each has reported.
func (c *cluster) report() {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	log := &kit.Log{}
	as := func(account string) operator.Options {
		config := rest.CopyConfig(c.Config())
		config.Impersonate = kit.ServiceAccount(home, account)
		return operator.Options{
			Config: operator.Throttle(config), LeaderElection: true, LeaderElectionNamespace: home, MetricsAddress: "0", ProbeAddress: "0",
			Actions: []string{}, Log: log.Logger(account),
		}
	}
	ended := make(chan error, 2)
	go func() { ended <- autoscaler.Run(ctx, autoscaler.Options{Options: as("supercargo-autoscaler")}) }()
	d := descheduler.Defaults()
	d.Options = as("supercargo-descheduler")
	go func() { ended <- descheduler.Run(ctx, d) }()
	defer func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			c.Error(err)
		}
		if c.Failed() {
			c.Log(log.Tail(20))
		}
	}()
	c.waits("both programs have reported", func() error {
		var report v1alpha1.Consolidation
		var fleet v1alpha1.NodeFleet
		if err := errors.Join(
			c.Get(ctx, client.ObjectKey{Name: v1alpha1.ConsolidationName}, &report),
			c.Get(ctx, client.ObjectKey{Name: "batch"}, &fleet),
		); err != nil {
			return err
		}
		if report.Status.Time == nil || len(fleet.Status.Conditions) == 0 {
			return fmt.Errorf("the report is of %v, and the fleet has %d conditions", report.Status.Time, len(fleet.Status.Conditions))
		}
		return nil
	})
}

// everything returns all objects of the cluster but Events, which expire, as JSON by resource, namespace and name: without
// their status, what the API server counts, and what Leases and heartbeats renew.
func (c *cluster) everything() map[string]string {
	c.Helper()
	found := map[string]string{}
	lists, err := c.Playground.Client().Discovery().ServerPreferredResources()
	if err != nil {
		return map[string]string{"error": err.Error()} // an API that is being removed
	}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			c.Fatal(err)
		}
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") || resource.Kind == "Event" || resource.Kind == "ComponentStatus" {
				continue
			}
			var objects unstructured.UnstructuredList
			objects.SetGroupVersionKind(version.WithKind(resource.Kind + "List"))
			if err := c.List(c.Context(), &objects); err != nil {
				return map[string]string{"error": resource.Name + ": " + err.Error()}
			}
			for _, o := range objects.Items {
				found[resource.Name+"."+version.Group+" "+o.GetNamespace()+"/"+o.GetName()] = c.lasting(o)
			}
		}
	}
	return found
}

func (c *cluster) lasting(o unstructured.Unstructured) string {
	c.Helper()
	fields := maps.Clone(o.Object)
	delete(fields, "status")
	if o.GetKind() == "Lease" {
		delete(fields, "spec")
	}
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		delete(metadata, "resourceVersion")
		delete(metadata, "managedFields")
		delete(metadata, "generation")
	}
	text, err := json.Marshal(fields)
	if err != nil {
		c.Fatal(err)
	}
	return string(text)
}
