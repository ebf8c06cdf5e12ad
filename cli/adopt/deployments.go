package adopt

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/plural"
)

// The kinds of cluster-api that cluster-autoscaler scales, and their API group.
const (
	DeploymentKind = "MachineDeployment"
	SetKind        = "MachineSet"
	MachinePool    = "MachinePool"
	ClusterGroup   = "cluster.x-k8s.io"
)

// The annotations of cluster-autoscaler's provider for cluster-api.
const (
	sizePrefix     = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-"
	annotationMin  = sizePrefix + "min-size"
	annotationMax  = sizePrefix + "max-size"
	capacityPrefix = "capacity.cluster-autoscaler.kubernetes.io/"
	optionsPrefix  = "cluster.x-k8s.io/autoscaling-options-"
)

// sameAnnotations have the same meaning for a fleet.
var sameAnnotations = []string{
	annotationMin, annotationMax,
	capacityPrefix + "cpu", capacityPrefix + "memory", capacityPrefix + "maxPods", capacityPrefix + "labels", capacityPrefix + "taints",
	capacityPrefix + "gpu-type", capacityPrefix + "gpu-count", capacityPrefix + "ephemeral-disk", capacityPrefix + "csi-driver",
	optionsPrefix + "maxnodeprovisiontime", optionsPrefix + "scaledownutilizationthreshold", optionsPrefix + "scaledownunneededtime",
}

// machinesOf are the lists of prices by the kind of infrastructure template.
var machinesOf = map[string]string{"AWSMachineTemplate": "aws", "AzureMachineTemplate": "azure", "GCPMachineTemplate": "gcp"}

// nodeGroup is an object of cluster-api that has replicas.
type nodeGroup struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name            string                  `json:"name"`
		Namespace       string                  `json:"namespace"`
		Annotations     map[string]string       `json:"annotations"`
		OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		ClusterName string `json:"clusterName"`
		Template    struct {
			Spec struct {
				InfrastructureRef struct {
					Kind string `json:"kind"`
				} `json:"infrastructureRef"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

func readGroup(object map[string]any) (*nodeGroup, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var g nodeGroup
	if err := json.Unmarshal(text, &g); err != nil {
		return nil, fieldFault(err)
	}
	for _, field := range []struct{ path, name string }{{"metadata.name", g.Metadata.Name}, {"metadata.namespace", g.Metadata.Namespace}, {"spec.clusterName", g.Spec.ClusterName}} {
		problems := validation.IsDNS1123Subdomain(field.name)
		if field.path != "metadata.name" {
			problems = validation.IsDNS1123Label(field.name)
		}
		if len(problems) > 0 {
			return nil, fmt.Errorf("%s: %q is not a valid name: %s", field.path, field.name, problems[0])
		}
	}
	return &g, nil
}

// object returns the name of the node group for notes.
func (g *nodeGroup) object() string {
	return fmt.Sprintf("%s %s/%s", g.Kind, g.Metadata.Namespace, g.Metadata.Name)
}

// scaled reports whether cluster-autoscaler scales the node group.
func (g *nodeGroup) scaled() bool {
	_, is := g.Metadata.Annotations[annotationMax]
	return is
}

// owned reports whether a MachineDeployment has created the node group, and copied its annotations to it.
func (g *nodeGroup) owned() bool {
	return slices.ContainsFunc(g.Metadata.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == DeploymentKind })
}

// clusterGroups are the node groups of a Cluster in a namespace.
type clusterGroups struct {
	namespace, cluster string
	fleet              string
	// deployments are the MachineDeployments that cluster-autoscaler scales, and others those that it does not.
	deployments, others []*nodeGroup
	notes               []Note
}

// groupByCluster groups node groups, ordered as they are. Names of fleets must not be taken.
func groupByCluster(all []*nodeGroup, taken map[string]bool) []*clusterGroups {
	var groups []*clusterGroups
	for _, g := range all {
		at := slices.IndexFunc(groups, func(o *clusterGroups) bool {
			return o.namespace == g.Metadata.Namespace && o.cluster == g.Spec.ClusterName
		})
		if at < 0 {
			at = len(groups)
			groups = append(groups, &clusterGroups{namespace: g.Metadata.Namespace, cluster: g.Spec.ClusterName})
		}
		groups[at].add(g)
	}
	groups = slices.DeleteFunc(groups, func(o *clusterGroups) bool { return len(o.deployments) == 0 && len(o.notes) == 0 })
	for _, o := range groups {
		if len(o.deployments) == 0 {
			continue
		}
		name := o.cluster
		if taken[name] {
			name = o.namespace + "-" + o.cluster
		}
		for taken[name] {
			name += "-machines"
		}
		taken[name], o.fleet = true, name
		for i := range o.notes {
			o.notes[i].Fleet = name
		}
	}
	return groups
}

func (o *clusterGroups) note(object, field, value, difference, action string) {
	o.notes = append(o.notes, Note{Fleet: o.fleet, Object: object, Field: field, Value: value, Difference: difference, Action: action})
}

func (o *clusterGroups) add(g *nodeGroup) {
	switch {
	case g.owned():
	case g.Kind == DeploymentKind && g.scaled():
		o.deployments = append(o.deployments, g)
	case g.Kind == DeploymentKind:
		o.others = append(o.others, g)
	case g.scaled():
		o.note(g.object(), "metadata.annotations", annotationMax+"="+g.Metadata.Annotations[annotationMax], fmt.Sprintf("A fleet scales MachineDeployments, but no %ss.", g.Kind),
			"Create a MachineDeployment with the same templates, or keep cluster-autoscaler for it.")
	}
}

// mostNames is the maximum number of MachineDeployments that a fleet names.
const mostNames = 1000

// convert returns the fleet of the MachineDeployments. selector is the one by which they were selected; nil for all.
func (o *clusterGroups) convert(selector *metav1.LabelSelector, around *Around) (*Fleet, error) {
	if len(o.deployments) == 0 {
		return nil, nil
	}
	flavors := &v1alpha1.ClusterAPIFlavors{Namespace: o.namespace, ClusterName: o.cluster}
	switch {
	case selector != nil && len(o.others) == 0:
		flavors.Selector = selector
	case len(o.deployments) > mostNames:
		return nil, fmt.Errorf("%d MachineDeployments of Cluster %s: a fleet names at most %d: select them by labels (-l)", len(o.deployments), o.cluster, mostNames)
	default:
		for _, g := range o.deployments {
			flavors.Names = append(flavors.Names, g.Metadata.Name)
		}
		slices.Sort(flavors.Names)
	}
	spec := Spec{Provider: v1alpha1.FleetClusterAPI, ClusterAPI: flavors, Pricing: o.pricing(around), Consolidation: &Consolidation{
		Policy: v1alpha1.ConsolidateWhenUnderUsed, ThresholdPercent: new(int32(50)), After: "10m",
	}}
	for _, g := range o.others {
		o.note(g.object(), "metadata.annotations", "", "Without "+annotationMax+", cluster-autoscaler does not scale it. The fleet does not name it.", "Nothing, or add it to clusterAPI.names. Without the annotation, a fleet buys any number of its machines.")
	}
	for _, g := range o.deployments {
		o.annotations(g)
		o.price(g, spec.Pricing)
	}
	object := plural.Form(len(o.deployments), "MachineDeployment", "MachineDeployments") + " of Cluster " + o.cluster
	o.note(object, "options of cluster-autoscaler", "", "They are not read. consolidation.after and thresholdPercent have the defaults of --scale-down-unneeded-time and --scale-down-utilization-threshold.",
		"Compare --scale-down-*, --max-node-provision-time, --max-nodes-total, --cores-total and --memory-total with consolidation, scaling and limits of the fleet.")
	o.note(object, "eviction of pods", "", "cluster-autoscaler evicts pods of Jobs when it removes a node. A fleet moves or evicts batch pods only if they have an annotation that allows it.",
		"Set the annotation supercargo.dev/migration to checkpoint or restart on batch pods that may be moved.")
	f := newFleet(o.fleet, spec)
	return &f, nil
}

// annotations lists those that a fleet does not read, and those that it cannot.
func (o *clusterGroups) annotations(g *nodeGroup) {
	for _, key := range sorted(g.Metadata.Annotations) {
		value := g.Metadata.Annotations[key]
		switch ours := strings.HasPrefix(key, sizePrefix) || strings.HasPrefix(key, capacityPrefix) || strings.HasPrefix(key, optionsPrefix); {
		case key == annotationMin || key == annotationMax:
			if n, err := strconv.ParseInt(value, 10, 32); err != nil || n < 0 {
				o.note(g.object(), key, value, "This is not a number of machines, and the fleet buys none of this MachineDeployment.", "Correct the annotation.")
			}
		case !ours || slices.Contains(sameAnnotations, key):
		default:
			o.note(g.object(), key, value, "A fleet ignores this annotation.", "Nothing, or see docs/nodefleet.md for what a fleet knows about the machines.")
		}
	}
}

// pricing returns the list prices that apply, or nil: prices are in annotations.
func (o *clusterGroups) pricing(around *Around) *Pricing {
	list := machinesOf[o.deployments[0].Spec.Template.Spec.InfrastructureRef.Kind]
	if list == "" || around.Region == "" || around.Prices == nil {
		return nil
	}
	if types, err := around.Prices(list, around.Region); err != nil || len(types) == 0 {
		return nil
	}
	return &Pricing{List: list, Region: around.Region}
}

// price lists a MachineDeployment whose machines have no price.
func (o *clusterGroups) price(g *nodeGroup, listed *Pricing) {
	text, is := g.Metadata.Annotations[v1alpha1.AnnotationPricePerHour]
	command := fmt.Sprintf("kubectl annotate machinedeployment -n %s %s %s=DOLLARS", g.Metadata.Namespace, g.Metadata.Name, v1alpha1.AnnotationPricePerHour)
	if _, err := dollars.Parse(text); is && err != nil {
		o.note(g.object(), v1alpha1.AnnotationPricePerHour, text, "This is not a price in dollars per hour, and the fleet buys none of this MachineDeployment.", "Run: "+command+" --overwrite")
	} else if !is && listed == nil {
		o.note(g.object(), v1alpha1.AnnotationPricePerHour, "", "A fleet does not buy machines without a price.", "Run: "+command)
	}
}
