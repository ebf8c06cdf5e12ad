package objects

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// validate rejects amounts that no API server would accept and that would overflow sums.
func validate(object any) error {
	switch o := object.(type) {
	case *corev1.Node:
		return checkAmounts("status.allocatable", o.Status.Allocatable)
	case *corev1.Pod:
		return validatePod(o)
	}
	return nil
}

func validatePod(p *corev1.Pod) error {
	check := func(field string, of *corev1.ResourceRequirements) error {
		if of == nil {
			return nil
		}
		return errors.Join(checkAmounts(field+".requests", of.Requests), checkAmounts(field+".limits", of.Limits))
	}
	all := []error{
		checkAmounts("spec.overhead", p.Spec.Overhead), check("spec.resources", p.Spec.Resources),
		check("status.resources", p.Status.Resources), checkAmounts("status.allocatedResources", p.Status.AllocatedResources),
	}
	containers := func(list string, of []corev1.Container) {
		for i := range of {
			all = append(all, check(fmt.Sprintf("spec.%s[%d].resources", list, i), &of[i].Resources))
		}
	}
	containers("initContainers", p.Spec.InitContainers)
	containers("containers", p.Spec.Containers)
	statuses := func(list string, of []corev1.ContainerStatus) {
		for i := range of {
			at := fmt.Sprintf("status.%s[%d].", list, i)
			all = append(all, check(at+"resources", of[i].Resources), checkAmounts(at+"allocatedResources", of[i].AllocatedResources))
		}
	}
	statuses("initContainerStatuses", p.Status.InitContainerStatuses)
	statuses("containerStatuses", p.Status.ContainerStatuses)
	return cmp.Or(all...) // the first, so that equal input has equal errors
}

// mostAmount is the maximum accepted amount of any resource.
var mostAmount = resource.MustParse("1Pi")

// checkAmounts rejects amounts that are negative or too large to be added up.
func checkAmounts(field string, amounts corev1.ResourceList) error {
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		if q := amounts[name]; q.Sign() < 0 || q.Cmp(mostAmount) > 0 {
			return fmt.Errorf("%s.%s: %q is not a valid amount: must be from 0 to 1Pi", field, name, clip(q.String()))
		}
	}
	return nil
}
