package machines

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

// Market is the name of the ConfigMap with the instance types on sale in its namespace. The key
// flavors.csv has the types, in the format of catalogues. The optional key soldOut has those that
// are not available now, one per line: a type, or a type, a slash and a failure domain.
const Market = "instance-types"

// The keys of the ConfigMap.
const (
	MarketTypes   = "flavors.csv"
	MarketSoldOut = "soldOut"
)

// choose fills in the fields of a machine from its instance type if only the type is set. It
// returns the reason why the type is not available, or an empty string.
func (r *machineReconciler) choose(ctx context.Context, m *KwokMachine) (why string, err error) {
	if !m.Spec.CPU.IsZero() {
		return "", nil
	}
	at := slices.IndexFunc(m.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Machine" })
	if at < 0 {
		return "cluster-api has not set the owning Machine yet", nil
	}
	machine, err := r.read(ctx, "Machine", m.Namespace, m.OwnerReferences[at].Name)
	if err != nil {
		return "", err
	}
	var market corev1.ConfigMap
	if err := r.live.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: Market}, &market); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read ConfigMap %s/%s: %w", m.Namespace, Market, err)
	}
	domain, _, _ := unstructured.NestedString(machine.Object, "spec", "failureDomain")
	types, err := catalogue.ReadFlavors(MarketTypes, strings.NewReader(market.Data[MarketTypes]))
	if err != nil {
		return "InvalidInstanceType: " + err.Error(), nil
	}
	at = slices.IndexFunc(types, func(f catalogue.Flavor) bool { return f.Name == m.Spec.InstanceType })
	if at < 0 {
		return fmt.Sprintf("InvalidInstanceType: instance type %q does not exist", m.Spec.InstanceType), nil
	}
	for line := range strings.Lines(market.Data[MarketSoldOut]) {
		if line = strings.TrimSpace(line); line == m.Spec.InstanceType || line == m.Spec.InstanceType+"/"+domain {
			return fmt.Sprintf("InsufficientInstanceCapacity: no machine of type %s is available in failure domain %q", m.Spec.InstanceType, domain), nil
		}
	}
	m.Spec.sold(&types[at], domain)
	return "", nil
}

// sold fills in the fields of a machine of an instance type.
func (s *KwokMachineSpec) sold(of *catalogue.Flavor, domain string) {
	s.CPU, s.Memory = *resource.NewMilliQuantity(of.Size.MilliCPU, resource.DecimalSI), *resource.NewQuantity(of.Size.MemoryBytes, resource.BinarySI)
	if of.MaxPods != nil {
		s.Pods = int32(*of.MaxPods)
	}
	if of.Arch != "" {
		s.Arch = of.Arch
	}
	if s.NodeLabels == nil {
		s.NodeLabels = map[string]string{}
	}
	if of.MachineType != "" {
		s.NodeLabels[v1alpha1.LabelMachineType] = of.MachineType
	}
	if domain != "" {
		s.NodeLabels[corev1.LabelTopologyZone] = domain
	}
}

// refuse reports why a machine is not available now.
func (r *machineReconciler) refuse(ctx context.Context, m *KwokMachine, why string) error {
	if !setReady(m, metav1.ConditionFalse, "ProvisioningFailed", why) {
		return nil
	}
	return r.client.Status().Update(ctx, m)
}
