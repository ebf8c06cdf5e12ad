package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/internal/platform/podwire"
)

// clusterFlags are the flags that select the cluster: those of kubectl, with the same meaning.
type clusterFlags struct {
	*genericclioptions.ConfigFlags
	allNamespaces bool
}

// newClusterFlags returns flags whose default is kubectl's current cluster. Discovery is not cached on
// disk, so there is no --cache-dir.
func newClusterFlags() *clusterFlags {
	f := &clusterFlags{ConfigFlags: genericclioptions.NewConfigFlags(true)}
	f.CacheDir = nil
	return f
}

// ofCluster marks the flags that select the cluster; help lists them separately.
const ofCluster = "supercargo.dev/cluster"

// addTo adds the flags to a command. A command that is not namespaced has no --namespace.
func (f *clusterFlags) addTo(cmd *cobra.Command, namespaced bool) {
	if !namespaced {
		f.Namespace = nil
	}
	own := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
	f.AddFlags(own)
	own.VisitAll(func(flag *pflag.Flag) {
		flag.Annotations = map[string][]string{ofCluster: nil}
	})
	cmd.Flags().AddFlagSet(own)
}

// addAllNamespaces adds -A, which takes precedence over a namespace.
func (f *clusterFlags) addAllNamespaces(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "include all namespaces")
}

// config returns the client configuration of the cluster.
func (f *clusterFlags) config() (*rest.Config, error) {
	config, err := f.ToRESTConfig()
	if err != nil {
		return nil, badInput(fmt.Errorf("load the kubeconfig: %w", err))
	}
	return config, nil
}

// namespace returns the given namespace, or else that of the kubeconfig; "" with --all-namespaces.
func (f *clusterFlags) namespace() (string, error) {
	if f.allNamespaces {
		return "", nil
	}
	namespace, _, err := f.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", badInput(fmt.Errorf("read the namespace of the kubeconfig: %w", err))
	}
	return namespace, nil
}

// client returns a client for the kinds of Kubernetes and of Supercargo, and for those that add
// registers.
func (f *clusterFlags) client(add ...func(*runtime.Scheme) error) (client.WithWatch, error) {
	config, err := f.config()
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // no client-side rate limit: a command sends one request at a time
	scheme, err := operator.Kinds()
	if err != nil {
		return nil, err
	}
	for _, a := range add {
		if err := a(scheme); err != nil {
			return nil, fmt.Errorf("register the API types: %w", err)
		}
	}
	c, err := client.NewWithWatch(podwire.Wrap(config), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("create the client: %w", err)
	}
	return c, nil
}

// namespaced returns the client and the namespace.
func (f *clusterFlags) namespaced() (client.WithWatch, string, error) {
	c, err := f.client()
	if err != nil {
		return nil, "", err
	}
	namespace, err := f.namespace()
	return c, namespace, err
}
