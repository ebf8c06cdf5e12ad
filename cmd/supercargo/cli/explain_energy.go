package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/explain"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/score"
	"supercargo.dev/supercargo/energy/tariff"
)

// checkEnergy returns an error if the energy flags are invalid.
func (f explainFlags) checkEnergy() error {
	if h := f.energyWeight; !(h >= 0 && h <= 1) {
		return command.BadInput(fmt.Errorf("--energy-weight %v: must be a number from 0 to 1", h))
	}
	_, _, err := f.tariff()
	return command.BadInput(err)
}

// energyOf scores all nodes for a pod as EnergyPerformance would now, including idle power. It does not
// check whether the pod fits. It returns nil if there are no machine profiles and no energy flag.
func (f explainFlags) energyOf(ctx context.Context, c client.Client, pod *corev1.Pod, now time.Time) (*explain.Pod, error) {
	var profiles v1alpha1.MachineProfileList
	if err := c.List(ctx, &profiles); err != nil && !command.Absent(err) {
		return nil, fmt.Errorf("read machine profiles: %w", err)
	}
	if len(profiles.Items) == 0 && !f.energy {
		return nil, nil
	}
	prices, unit, err := f.tariff()
	if err != nil {
		return nil, command.BadInput(err)
	}
	var ns corev1.Namespace
	if err := c.Get(ctx, types.NamespacedName{Name: pod.Namespace}, &ns); err != nil {
		return nil, fmt.Errorf("read Namespace %s: %w", pod.Namespace, err)
	}
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("read nodes: %w", err)
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods); err != nil {
		return nil, fmt.Errorf("read pods: %w", err)
	}
	weight, wrong := score.WeightOf(pod.Annotations, ns.Annotations, f.energyWeight)
	var book profile.Book
	for i := range profiles.Items {
		// Errors in a profile are reported when the profile is explained.
		_ = book.Put(&profiles.Items[i])
	}
	compared := score.NodesFor(pod, nodes.Items, pods.Items, func(zone string) tariff.Price { return prices.At(zone, now, tariff.DefaultMaxAge) })
	e := explain.NewPod(pod.Namespace+"/"+pod.Name, weight, unit, score.Compare(weight.H, score.SizeOf(pod), compared, book.Set(), now))
	if weight.Origin == score.FromProfile {
		e.WeightFrom = "--energy-weight"
	}
	if wrong != nil {
		e.Note = wrong.Error()
	}
	return &e, nil
}

// tariff reads the price or carbon file, of which at most one may be given.
func (f explainFlags) tariff() (t tariff.Tariff, unit tariff.Unit, err error) {
	switch {
	case f.priceFile != "" && f.carbonFile != "":
		return t, "", errors.New("--price-file and --carbon-file are mutually exclusive")
	case f.priceFile != "":
		t, err = readTariff("price", false, 0, f.priceFile, tariff.Dollars.Column())
		return t, tariff.Dollars, err
	case f.carbonFile != "":
		t, err = readTariff("carbon", false, 0, f.carbonFile, tariff.Grams.Column())
		return t, tariff.Grams, err
	}
	return t, "", nil
}
