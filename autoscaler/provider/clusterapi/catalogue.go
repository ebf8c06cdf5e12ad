package clusterapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

// instanceTypeFields are the fields, by kind, that hold the instance type in the infrastructure templates of well-known
// providers. The field differs by version.
var instanceTypeFields = map[string][]string{
	"AWSMachineTemplate":       {"spec.template.spec.instanceType"},
	"AzureMachineTemplate":     {"spec.template.spec.vmSize"},
	"GCPMachineTemplate":       {"spec.template.spec.instanceType"},
	"OpenStackMachineTemplate": {"spec.template.spec.flavor", "spec.template.spec.flavor.filter.name"},
}

// precedingFields maps instance type fields to fields that take precedence over them, by kind.
var precedingFields = map[string]map[string]string{
	"OpenStackMachineTemplate": {"spec.template.spec.flavor": "spec.template.spec.flavorID"},
}

// instanceTypeOf returns the instance type in an infrastructure template of a well-known kind; empty if it has none, or
// if a field that takes precedence has a value.
func instanceTypeOf(template *unstructured.Unstructured) string {
	kind := template.GetKind()
	for _, field := range instanceTypeFields[kind] {
		if preceding := precedingFields[kind][field]; preceding != "" && textIn(template, preceding) != "" {
			continue
		}
		if text := textIn(template, field); text != "" {
			return text
		}
	}
	return ""
}

// textIn returns the text in a field of an object; empty if it has none.
func textIn(object *unstructured.Unstructured, field string) string {
	text, _, err := unstructured.NestedString(object.Object, strings.Split(field, ".")...)
	if err != nil {
		return ""
	}
	return text
}

// oneSized are the kinds of infrastructure templates without instance types: their machines are containers of one host,
// or simulated.
var oneSized = []string{"DevMachineTemplate", "DockerMachineTemplate"}

// model is a MachineDeployment to copy, with its infrastructure template.
type model struct {
	deployment *clusterv1.MachineDeployment
	template   *unstructured.Unstructured
	spec       *v1alpha1.MachineTemplate
	field      []string // of the instance type in the template
	digest     string   // of everything that copies take from them
}

// offer is an instance type that can be bought in a failure domain, from a model.
type offer struct {
	name   string // of the MachineDeployment
	model  *model
	of     *catalogue.Flavor
	domain string // empty for that of the model
}

// offers returns all offers of the templates and the catalogue, by name. It refuses the fleet if a template cannot be
// used.
//
// Cost: two reads for each template, O(t·n·p) for t templates, n instance types and p patterns.
func (p *Provider) offers(ctx context.Context) (map[string]*offer, error) {
	types, err := p.fleet.Types(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]*offer{}
	for i := range p.spec.Templates {
		m, err := p.model(ctx, &p.spec.Templates[i])
		if err != nil {
			return nil, err
		}
		chosen, err := chosenTypes(m.spec, types)
		if err != nil {
			return nil, err
		}
		domains := m.spec.FailureDomains
		if len(domains) == 0 {
			domains = []string{""}
		}
		for _, of := range chosen {
			for _, domain := range domains {
				o := &offer{model: m, of: of, domain: domain}
				o.name = o.nameOf()
				found[o.name] = o
			}
		}
	}
	return found, nil
}

// model reads a template.
func (p *Provider) model(ctx context.Context, spec *v1alpha1.MachineTemplate) (*model, error) {
	name := types.NamespacedName{Namespace: p.spec.Namespace, Name: spec.MachineDeployment}
	d := &clusterv1.MachineDeployment{}
	if err := p.live.Get(ctx, name, d); apierrors.IsNotFound(err) {
		return nil, &provider.Refused{Reason: v1alpha1.FleetReasonTemplateMissing, Message: fmt.Sprintf(
			"spec.clusterAPI.templates: MachineDeployment %s does not exist: create it with 0 replicas, or specify another", name)}
	} else if err != nil {
		return nil, fmt.Errorf("read MachineDeployment %s: %w", name, err)
	}
	ref := d.Spec.Template.Spec.InfrastructureRef
	template, err := p.templates.object(ctx, p.live, d.Namespace, ref)
	if unreadable(err) {
		return nil, &provider.Refused{Reason: v1alpha1.FleetReasonTemplateMissing, Message: fmt.Sprintf(
			"spec.clusterAPI.templates: %s %s of MachineDeployment %s cannot be read: %v", ref.Kind, ref.Name, name, err)}
	} else if err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", ref.Kind, d.Namespace, ref.Name, err)
	}
	m := &model{deployment: d, template: template, spec: spec}
	if err := m.findField(); err != nil {
		return nil, err
	}
	return m, m.sum()
}

// findField finds the field of the template that holds the instance type. The field must have a value, and fields that
// take precedence must not: otherwise all machines might be of one instance type, and the prices wrong.
func (m *model) findField() error {
	kind := m.template.GetKind()
	fields := instanceTypeFields[kind]
	if m.spec.InstanceTypeField != "" {
		fields = []string{m.spec.InstanceTypeField}
	}
	refused := func(reason, format string, args ...any) error {
		return &provider.Refused{Reason: reason, Message: fmt.Sprintf("spec.clusterAPI.templates[%s]", m.spec.MachineDeployment) + fmt.Sprintf(format, args...)}
	}
	if len(fields) == 0 && slices.Contains(oneSized, kind) {
		return refused(v1alpha1.FleetReasonInstanceTypeFieldUnknown, ": %s has no instance type, because its machines are all of one size: specify MachineDeployments in "+
			"spec.clusterAPI.names or selector, with the annotations %s and %s for the capacity of a machine and %s for its price",
			kind, annotationCPU, annotationMemory, v1alpha1.AnnotationPricePerHour)
	}
	if len(fields) == 0 {
		return refused(v1alpha1.FleetReasonInstanceTypeFieldUnknown, ".instanceTypeField is required for %s: specify the field that contains the instance type", kind)
	}
	at := slices.IndexFunc(fields, m.hasText)
	if at < 0 {
		return refused(v1alpha1.FleetReasonInstanceTypeFieldMissing, ".instanceTypeField: %s %s has no text in %s: set an instance type there, or specify another field",
			kind, m.template.GetName(), strings.Join(fields, " or "))
	}
	if preceding := precedingFields[kind][fields[at]]; preceding != "" && m.hasText(preceding) {
		return refused(v1alpha1.FleetReasonInstanceTypeFieldOverridden, ".instanceTypeField: %s %s has a text in %s, which takes precedence over %s: remove it there, or specify that field",
			kind, m.template.GetName(), preceding, fields[at])
	}
	m.field = strings.Split(fields[at], ".")
	return nil
}

// hasText reports whether a field of the template is a non-empty string.
func (m *model) hasText(field string) bool {
	return textIn(m.template, field) != ""
}

// sum computes the digest.
func (m *model) sum() error {
	d := m.deployment.Spec.DeepCopy()
	d.Replicas, d.Paused = nil, nil
	text, err := json.Marshal([]any{m.deployment.Name, m.deployment.Labels, d, m.template.Object["spec"]})
	if err != nil {
		return fmt.Errorf("read MachineDeployment %s/%s: %w", m.deployment.Namespace, m.deployment.Name, err)
	}
	sum := sha256.Sum256(text)
	m.digest = string(sum[:])
	return nil
}

// mostName is the maximum length of the names of copies: the names of Machines and nodes append to them, and must be
// valid labels.
const mostName = 48

// nameOf returns the name of the MachineDeployment of an offer. It differs if the model has changed.
func (o *offer) nameOf() string {
	sum := sha256.Sum256([]byte(o.model.digest + "\x00" + o.of.Name + "\x00" + o.domain))
	hash := hex.EncodeToString(sum[:5])
	name := strings.Join([]string{o.model.deployment.Name, o.of.Name, o.domain}, "-")
	name = strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	return strings.Trim(name[:min(len(name), mostName-len(hash)-1)], "-") + "-" + hash
}

// chosenTypes returns the instance types that may be used with a template. It refuses patterns that match nothing: they
// are misspelt, or for another catalogue.
func chosenTypes(spec *v1alpha1.MachineTemplate, all []catalogue.Flavor) ([]*catalogue.Flavor, error) {
	named, unknown := catalogue.Choose(spec.InstanceTypes, all)
	var chosen []*catalogue.Flavor
	for _, f := range named {
		if cmp.Or(f.Arch, defaultArch) == cmp.Or(spec.Architecture, defaultArch) {
			chosen = append(chosen, f)
		}
	}
	switch {
	case len(unknown) > 0:
		return nil, &provider.Refused{Reason: v1alpha1.FleetReasonInstanceTypesUnknown, Message: fmt.Sprintf(
			"spec.clusterAPI.templates[%s].instanceTypes: spec.pricing contains no instance type that matches %s", spec.MachineDeployment, strings.Join(unknown, ", "))}
	case len(chosen) == 0:
		return nil, &provider.Refused{Reason: v1alpha1.FleetReasonInstanceTypesUnknown, Message: fmt.Sprintf(
			"spec.clusterAPI.templates[%s]: spec.pricing contains no instance type of architecture %s for this template", spec.MachineDeployment, cmp.Or(spec.Architecture, defaultArch))}
	}
	return chosen, nil
}

// flavor returns the flavor of an offer without a MachineDeployment, for machines in a region. It equals that of the
// MachineDeployment that would be created.
func (o *offer) flavor(region string) provider.Flavor {
	return flavor(o.deployment("", 0), &template{region: region}, nil)
}

// deployment returns the MachineDeployment of an offer, for a fleet.
func (o *offer) deployment(fleet string, replicas int) *clusterv1.MachineDeployment {
	from := o.model.deployment
	d := &clusterv1.MachineDeployment{Spec: *from.Spec.DeepCopy()}
	d.Namespace, d.Name = from.Namespace, o.name
	d.Labels = ownLabels(from.Labels)
	d.Labels[v1alpha1.LabelFleet] = fleet
	labelCluster(d.Labels, d.Spec.ClusterName)
	d.Annotations = o.annotations()
	d.Spec.Replicas, d.Spec.Paused = new(int32(replicas)), nil
	// cluster-api selects the Machines of a MachineDeployment by these labels.
	d.Spec.Selector.MatchLabels = map[string]string{clusterv1.MachineDeploymentNameLabel: o.name}
	d.Spec.Template.Labels = ownLabels(d.Spec.Template.Labels)
	d.Spec.Template.Labels[clusterv1.MachineDeploymentNameLabel] = o.name
	d.Spec.Template.Spec.InfrastructureRef.Name = o.name
	if o.domain != "" {
		d.Spec.Template.Spec.FailureDomain = o.domain
	}
	return d
}

// labelCluster sets the label by which cluster-api finds the objects of a Cluster.
func labelCluster(labels map[string]string, cluster string) {
	if cluster != "" {
		labels[clusterv1.ClusterNameLabel] = cluster
	}
}

// infrastructure returns the infrastructure template of an offer, for a fleet.
func (o *offer) infrastructure(fleet string) (*unstructured.Unstructured, error) {
	from := o.model.template
	spec, _, err := unstructured.NestedMap(from.Object, "spec") // a copy
	if err != nil {
		return nil, fmt.Errorf("copy %s %s: %w", from.GetKind(), from.GetName(), err)
	}
	t := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	t.SetGroupVersionKind(from.GroupVersionKind())
	t.SetNamespace(from.GetNamespace())
	t.SetName(o.name)
	labels := ownLabels(from.GetLabels())
	labels[v1alpha1.LabelFleet] = fleet
	labelCluster(labels, o.model.deployment.Spec.ClusterName)
	t.SetLabels(labels)
	if err := unstructured.SetNestedField(t.Object, o.of.Name, o.model.field...); err != nil {
		return nil, fmt.Errorf("set the instance type in a copy of %s %s: %w", from.GetKind(), from.GetName(), err)
	}
	return t, nil
}

// annotations describe the machines of an offer in the format of cluster-autoscaler. They keep the annotations of the
// model for cluster-autoscaler, except the bounds of the number of machines.
func (o *offer) annotations() map[string]string {
	found := map[string]string{}
	for key, value := range o.model.deployment.Annotations {
		if strings.HasPrefix(key, capacityPrefix) || strings.HasPrefix(key, optionsPrefix) {
			found[key] = value
		}
	}
	found[annotationCPU] = strconv.FormatInt(o.of.Size.MilliCPU, 10) + "m"
	found[annotationMemory] = strconv.FormatInt(o.of.Size.MemoryBytes, 10)
	if o.of.MaxPods != nil {
		found[annotationMaxPods] = strconv.FormatInt(*o.of.MaxPods, 10)
	}
	labels := []string{
		corev1.LabelInstanceTypeStable + "=" + o.of.Name,
		corev1.LabelArchStable + "=" + cmp.Or(o.of.Arch, defaultArch),
	}
	if o.of.MachineType != "" {
		labels = append(labels, v1alpha1.LabelMachineType+"="+o.of.MachineType)
	}
	more := found[annotationLabels]
	if len(o.model.spec.FailureDomains) > 1 {
		more = withoutZones(more) // the model states one zone for all of them
	}
	if more != "" {
		labels = append([]string{more}, labels...) // the last value of a key counts
	}
	found[annotationLabels] = strings.Join(labels, ",")
	return found
}

// topologyPrefix begins the labels by which cluster-api finds the objects of a Cluster's topology. An additional
// MachineDeployment with the name of one in the topology would block it.
const topologyPrefix = "topology.cluster.x-k8s.io/"

// ownLabels returns the labels that copies take from their model; never nil.
func ownLabels(model map[string]string) map[string]string {
	found := map[string]string{}
	for key, value := range model {
		if !strings.HasPrefix(key, topologyPrefix) {
			found[key] = value
		}
	}
	return found
}

// retired is why no more machines are bought of a MachineDeployment that the fleet has created.
const retired = "its template, the instance types or the catalogue have changed since it was created: its machines are kept until they are empty"

// flavorsOf returns the flavors of a fleet with templates: those of the offers, and those of the MachineDeployments
// created for it earlier.
func (p *Provider) flavorsOf(ctx context.Context, deployments []clusterv1.MachineDeployment, machines map[string][]clusterv1.Machine) ([]provider.Flavor, error) {
	all := make([]provider.Flavor, 0, len(p.offered))
	made, region := make(map[string]bool, len(deployments)), regionOf(p.nodes)
	for i := range deployments {
		d := &deployments[i]
		made[d.Name] = true
		o := p.offered[d.Name]
		if o != nil {
			d.Annotations = o.annotations() // the catalogue may have changed
		}
		t, err := p.templates.of(ctx, p.live, d)
		if err != nil {
			return nil, err
		}
		f := p.withMachines(d, t.in(region), machines[d.Name])
		if o == nil {
			f.Problem, f.Unsized = cmp.Or(f.Problem, retired), false
		} else {
			f.InstanceType = o.of.Name // regardless of the node's label
		}
		all = append(all, f)
	}
	for name, o := range p.offered {
		if !made[name] {
			all = append(all, o.flavor(region))
		}
	}
	slices.SortFunc(all, func(a, b provider.Flavor) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}
