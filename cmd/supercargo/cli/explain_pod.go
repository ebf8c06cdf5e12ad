package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/autoscaler/provider/clusterapi"
	"supercargo.dev/supercargo/cli/explain"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/energy/tariff"
)

// readCluster reads the cluster of the flags.
func (f explainFlags) readCluster(ctx context.Context) (*explain.Cluster, error) {
	c, err := f.cluster.Client(clusterapi.AddToScheme)
	if err != nil {
		return nil, err
	}
	return explain.Read(ctx, c, time.Now())
}

// explainPod prints why a pod is pending, or why it is on its node, and what would move it.
func explainPod(ctx context.Context, w io.Writer, name string, flags explainFlags) error {
	if err := flags.checkEnergy(); err != nil {
		return err
	}
	namespace, err := flags.cluster.SelectedNamespace()
	if err != nil {
		return err
	}
	c, err := flags.cluster.Client(clusterapi.AddToScheme)
	if err != nil {
		return err
	}
	var pod corev1.Pod
	switch err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &pod); {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("read Pod %s in namespace %s: %w%s", name, namespace, err, explain.NeverCreated(explain.ReadRefused(ctx, c, namespace), name))
	case err != nil:
		return fmt.Errorf("read Pod %s in namespace %s: %w", name, namespace, err)
	}
	read, err := explain.Read(ctx, c, time.Now())
	if err != nil {
		return err
	}
	why := read.Pod(ctx, &pod)
	if why.Pod, err = read.Energy(ctx, &pod, explain.EnergyOptions{Weight: flags.energyWeight, Tariff: flags.tariff, Always: flags.energy}); err != nil {
		return err
	}
	return command.PrintAs(w, flags.output, why)
}

// explainPods prints the pending pods, one per line.
func explainPods(ctx context.Context, w io.Writer, flags explainFlags) error {
	namespace, err := flags.cluster.SelectedNamespace()
	if err != nil {
		return err
	}
	if err := checkNamespace(ctx, flags.cluster, namespace); err != nil {
		return err
	}
	read, err := flags.readCluster(ctx)
	if err != nil {
		return err
	}
	return command.PrintAs(w, flags.output, read.Pending(ctx, namespace))
}

// checkNamespace returns an error if the API server answers that there is no such namespace. Who may not read namespaces is not
// refused; "" is all namespaces.
func checkNamespace(ctx context.Context, cluster *command.ClusterFlags, name string) error {
	if name == "" {
		return nil
	}
	c, err := cluster.Client()
	if err != nil {
		return err
	}
	if err := c.Get(ctx, types.NamespacedName{Name: name}, &corev1.Namespace{}); apierrors.IsNotFound(err) {
		return command.BadInput(fmt.Errorf("namespace %q does not exist", name))
	}
	return nil
}

// explainNode prints whether a node is to be emptied, and how each of its pods may leave.
func explainNode(ctx context.Context, w io.Writer, name string, flags explainFlags) error {
	read, err := flags.readCluster(ctx)
	if err != nil {
		return err
	}
	why, err := read.Node(name)
	if err != nil {
		return err
	}
	return command.PrintAs(w, flags.output, why)
}

// checkEnergy returns an error if the energy flags are invalid.
func (f explainFlags) checkEnergy() error {
	if h := f.energyWeight; !(h >= 0 && h <= 1) {
		return command.BadInput(fmt.Errorf("--energy-weight %v: must be a number from 0 to 1", h))
	}
	_, _, err := f.tariff()
	return err
}

// tariff reads the price or carbon file, of which at most one may be given.
func (f explainFlags) tariff() (t tariff.Tariff, unit tariff.Unit, err error) {
	switch {
	case f.priceFile != "" && f.carbonFile != "":
		err = errors.New("--price-file and --carbon-file are mutually exclusive")
	case f.priceFile != "":
		unit = tariff.Dollars
		t, err = readTariff("price", false, 0, f.priceFile, unit.Column())
	case f.carbonFile != "":
		unit = tariff.Grams
		t, err = readTariff("carbon", false, 0, f.carbonFile, unit.Column())
	}
	return t, unit, command.BadInput(err)
}
