package command

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/internal/platform/access"
	"supercargo.dev/supercargo/internal/platform/kinds"
	"supercargo.dev/supercargo/internal/platform/podwire"
)

// ClusterFlags are the flags that select the cluster: those of kubectl, with the same meaning.
type ClusterFlags struct {
	AllNamespaces bool

	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
	asExtra   []string // KEY=VALUE
}

// NewClusterFlags returns flags whose default is kubectl's current cluster, or inside a cluster that one. There is no
// default server, unlike kubectl's localhost:8080: with it, client-go would not look for the cluster around a pod.
func NewClusterFlags() *ClusterFlags {
	return &ClusterFlags{rules: clientcmd.NewDefaultClientConfigLoadingRules(), overrides: clientcmd.ConfigOverrides{ClusterDefaults: clusterDefaults()}}
}

// OfCluster marks the flags that select the cluster; help lists them separately.
const OfCluster = "supercargo.dev/cluster"

// AddTo adds the flags to a command. A command that is not namespaced has no --namespace.
func (f *ClusterFlags) AddTo(cmd *cobra.Command, namespaced bool) {
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	names.AuthOverrideFlags.Username, names.AuthOverrideFlags.Password = clientcmd.FlagInfo{}, clientcmd.FlagInfo{} // Kubernetes no longer knows basic authentication
	names.ClusterOverrideFlags.ProxyURL = clientcmd.FlagInfo{}                                                      // kubectl has none
	if !namespaced {
		names.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{}
	}
	own := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
	own.StringVar(&f.rules.ExplicitPath, "kubeconfig", "", "Path to the kubeconfig file to use for CLI requests.")
	own.StringArrayVar(&f.asExtra, "as-user-extra", nil, "User extras to impersonate for the operation as KEY=VALUE, this flag can be repeated to specify multiple values for the same key.")
	clientcmd.BindOverrideFlags(&f.overrides, own, names)
	own.VisitAll(func(flag *pflag.Flag) {
		flag.Annotations = map[string][]string{OfCluster: nil}
	})
	cmd.Flags().AddFlagSet(own)
	f.completeKubeconfig(cmd)
	if namespaced {
		f.CompleteNamespace(cmd)
	}
}

// AddAllNamespaces adds -A, which takes precedence over a namespace.
func (f *ClusterFlags) AddAllNamespaces(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.AllNamespaces, "all-namespaces", "A", false, "include all namespaces")
}

// Namespace returns the value of --namespace.
func (f *ClusterFlags) Namespace() string { return f.overrides.Context.Namespace }

// kubeconfig returns what the flags and the kubeconfig say.
func (f *ClusterFlags) kubeconfig() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(f.rules, &f.overrides)
}

// Config returns the client configuration of the cluster.
func (f *ClusterFlags) Config() (*rest.Config, error) {
	for _, extra := range f.asExtra {
		key, value, found := strings.Cut(extra, "=")
		if !found || key == "" {
			return nil, BadInput(fmt.Errorf("--as-user-extra %q: must be KEY=VALUE", extra))
		}
		if f.overrides.AuthInfo.ImpersonateUserExtra == nil {
			f.overrides.AuthInfo.ImpersonateUserExtra = map[string][]string{}
		}
		f.overrides.AuthInfo.ImpersonateUserExtra[key] = append(f.overrides.AuthInfo.ImpersonateUserExtra[key], value)
	}
	f.asExtra = nil
	config, err := f.kubeconfig().ClientConfig()
	if err != nil {
		return nil, BadInput(f.whyNoConfig(err))
	}
	raw, _ := f.kubeconfig().RawConfig() // it was read a moment ago
	access.Mark(config, cmp.Or(f.overrides.CurrentContext, raw.CurrentContext))
	return config, nil
}

// SelectedNamespace returns the given namespace, or else that of the kubeconfig; "" with --all-namespaces.
func (f *ClusterFlags) SelectedNamespace() (string, error) {
	if f.AllNamespaces {
		return "", nil
	}
	if _, err := f.Config(); err != nil { // it says what is wrong with a kubeconfig
		return "", err
	}
	namespace, _, err := f.kubeconfig().Namespace()
	if err != nil {
		return "", BadInput(fmt.Errorf("read the namespace of the kubeconfig: %w", err))
	}
	return namespace, nil
}

// Client returns a client for the kinds of Kubernetes and of Supercargo, and for those that add
// registers.
func (f *ClusterFlags) Client(add ...func(*runtime.Scheme) error) (client.WithWatch, error) {
	config, err := f.Config()
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // no client-side rate limit: a command sends one request at a time
	scheme, err := kinds.Scheme()
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

// Namespaced returns the client and the namespace.
func (f *ClusterFlags) Namespaced() (client.WithWatch, string, error) {
	c, err := f.Client()
	if err != nil {
		return nil, "", err
	}
	namespace, err := f.SelectedNamespace()
	return c, namespace, err
}
