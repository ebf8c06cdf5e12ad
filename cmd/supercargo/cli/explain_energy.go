package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cmd/supercargo/explain"
	"supercargo.dev/supercargo/internal/energy/profile"
	"supercargo.dev/supercargo/internal/energy/score"
	"supercargo.dev/supercargo/internal/energy/tariff"
)

// explainPod scores all nodes for a pod as EnergyPerformance would now, with idle power
// counted. Whether the pod could run there is not its question.
func explainPod(ctx context.Context, w io.Writer, name string, flags explainFlags) error {
	if h := flags.energyWeight; !(h >= 0 && h <= 1) {
		return badInput(fmt.Errorf("--energy-weight %v: want a number from 0 to 1", h))
	}
	now := time.Now()
	prices, unit, err := flags.tariff()
	if err != nil {
		return badInput(err)
	}
	c, namespace, err := namespacedClient(flags.kubeconfig, flags.namespace)
	if err != nil {
		return err
	}
	var pod corev1.Pod
	if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &pod); err != nil {
		return fmt.Errorf("read Pod %s: %w", name, err)
	}
	var ns corev1.Namespace
	if err := c.Get(ctx, types.NamespacedName{Name: namespace}, &ns); err != nil {
		return fmt.Errorf("read Namespace %s: %w", namespace, err)
	}
	var profiles v1alpha1.MachineProfileList
	if err := c.List(ctx, &profiles); err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("read machine profiles: %w", err)
	}
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return fmt.Errorf("read nodes: %w", err)
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods); err != nil {
		return fmt.Errorf("read pods: %w", err)
	}
	weight, wrong := score.WeightOf(pod.Annotations, ns.Annotations, flags.energyWeight)
	var book profile.Book
	for i := range profiles.Items {
		// What is wrong with a profile is said when the profile is explained.
		_ = book.Put(&profiles.Items[i])
	}
	compared := score.NodesFor(&pod, nodes.Items, pods.Items, func(zone string) tariff.Price { return prices.At(zone, now, tariff.DefaultMaxAge) })
	e := explain.NewPod(namespace+"/"+name, weight, unit, score.Compare(weight.H, score.SizeOf(&pod), compared, book.Set(), now))
	if weight.Origin == score.FromProfile {
		e.WeightFrom = "--energy-weight"
	}
	if wrong != nil {
		e.Note = wrong.Error()
	}
	return printAs(w, flags.output, e)
}

// tariff reads what joules count by; a file may be named for one unit.
func (f explainFlags) tariff() (t tariff.Tariff, unit tariff.Unit, err error) {
	switch {
	case f.priceFile != "" && f.carbonFile != "":
		return t, "", errors.New("--price-file and --carbon-file: joules count by one of the two")
	case f.priceFile != "":
		t, err = readTariff("price", false, 0, f.priceFile, tariff.Dollars.Column())
		return t, tariff.Dollars, err
	case f.carbonFile != "":
		t, err = readTariff("carbon", false, 0, f.carbonFile, tariff.Grams.Column())
		return t, tariff.Grams, err
	}
	return t, "", nil
}
