package command

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// masterVariable names the API server without a kubeconfig, as for kubectl.
const masterVariable = "KUBERNETES_MASTER"

// clusterDefaults returns the API server for a kubeconfig that names none. kubectl assumes localhost:8080, where a user
// without a kubeconfig has no server: the refused connection would hide that no cluster is configured.
func clusterDefaults() clientcmdapi.Cluster {
	if os.Getenv(masterVariable) != "" {
		return clientcmd.ClusterDefaults
	}
	return clientcmdapi.Cluster{}
}

// whyNoConfig says in terms of the user's files and flags why err is all that loading the kubeconfig gave.
func (f *ClusterFlags) whyNoConfig(err error) error {
	raw, _ := f.kubeconfig().RawConfig() // its error is err, and it is empty then
	name := cmp.Or(f.overrides.CurrentContext, raw.CurrentContext)
	switch {
	case f.rules.ExplicitPath != "" && errors.Is(err, fs.ErrNotExist) && !exists(f.rules.ExplicitPath):
		return fmt.Errorf("load the kubeconfig: --kubeconfig %s: there is no such file", f.rules.ExplicitPath)
	case name != "" && len(raw.Contexts) > 0 && raw.Contexts[name] == nil:
		return fmt.Errorf("load the kubeconfig: context %q does not exist: %s", name, contextsOf(&raw))
	case clientcmd.IsEmptyConfig(err):
		return f.whyNoCluster(&raw)
	}
	return fmt.Errorf("load the kubeconfig: %w", err)
}

// whyNoCluster says why the kubeconfig selects no cluster.
func (f *ClusterFlags) whyNoCluster(raw *clientcmdapi.Config) error {
	if len(raw.Contexts) > 0 {
		return fmt.Errorf("no cluster is selected: the kubeconfig has no current context, or its context has no cluster: use --context; %s", contextsOf(raw))
	}
	const do = "use --kubeconfig or --server"
	if path := f.rules.ExplicitPath; path != "" {
		return fmt.Errorf("no cluster is configured: --kubeconfig %s has no context: %s", path, do)
	}
	paths := f.rules.GetLoadingPrecedence()
	where := strings.Join(paths, ", ")
	if slices.ContainsFunc(paths, exists) {
		return fmt.Errorf("no cluster is configured: the kubeconfig %s has no context: %s", where, do)
	}
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
		return fmt.Errorf("no cluster is configured: %s names %s, and there is no such file: %s", clientcmd.RecommendedConfigPathEnvVar, where, do)
	}
	return fmt.Errorf("no cluster is configured: there is no file %s, and %s is not set: %s", where, clientcmd.RecommendedConfigPathEnvVar, do)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// contextsOf lists the contexts of a kubeconfig.
func contextsOf(raw *clientcmdapi.Config) string {
	return "there are " + strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", ")
}
