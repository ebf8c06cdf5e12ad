package command

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Limits of a completion, which a user waits for at the prompt.
const (
	completionPatience = 2 * time.Second
	mostCompletions    = 500
)

// Objects are objects of a cluster whose names complete an argument.
type Objects struct {
	schema.GroupVersionResource
	// Namespaced objects are those of the selected namespace.
	Namespaced bool
	// Fields is a field selector; empty for all objects.
	Fields string
}

// The objects of Kubernetes that several commands name.
var (
	Nodes      = Objects{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}}
	Pods       = Objects{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespaced: true}
	namespaces = Objects{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}}
)

// Complete returns the names of objects. They are none if the cluster does not answer within two seconds, and at most
// 500. A credential plugin of the kubeconfig may outlast that time, but is not waited for.
func (f *ClusterFlags) Complete(ctx context.Context, of Objects) []string {
	ctx, cancel := context.WithTimeout(ctx, completionPatience)
	defer cancel()
	listed := make(chan []string, 1)
	go func() { listed <- f.names(ctx, of) }()
	select {
	case names := <-listed:
		return names
	case <-ctx.Done():
		return nil
	}
}

// names lists objects. It asks for their metadata only, and needs no discovery.
func (f *ClusterFlags) names(ctx context.Context, of Objects) []string {
	config, err := f.Config()
	if err != nil {
		return nil
	}
	config.Timeout = completionPatience
	c, err := metadata.NewForConfig(config)
	if err != nil {
		return nil
	}
	var from metadata.ResourceInterface = c.Resource(of.GroupVersionResource)
	if of.Namespaced {
		namespace, err := f.SelectedNamespace()
		if err != nil {
			return nil
		}
		from = c.Resource(of.GroupVersionResource).Namespace(namespace)
	}
	list, err := from.List(ctx, metav1.ListOptions{Limit: mostCompletions, FieldSelector: of.Fields})
	if err != nil {
		return nil // for example a kind that the cluster does not have
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	slices.Sort(names)
	return names
}

// CompleteFlag makes a flag of a command complete to names of objects.
func (f *ClusterFlags) CompleteFlag(cmd *cobra.Command, flag string, of Objects) {
	completeFlag(cmd, flag, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return f.Complete(cmd.Context(), of), cobra.ShellCompDirectiveNoFileComp
	})
}

// CompleteNamespace makes the flag --namespace complete to the namespaces of the cluster.
func (f *ClusterFlags) CompleteNamespace(cmd *cobra.Command) {
	f.CompleteFlag(cmd, "namespace", namespaces)
}

// completeKubeconfig makes the flags that name parts of the kubeconfig complete to those.
func (f *ClusterFlags) completeKubeconfig(cmd *cobra.Command) {
	for flag, names := range map[string]func(*clientcmdapi.Config) []string{
		"context": func(c *clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.Contexts)) },
		"cluster": func(c *clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.Clusters)) },
		"user":    func(c *clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.AuthInfos)) },
	} {
		completeFlag(cmd, flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			raw, err := f.kubeconfig().RawConfig()
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return names(&raw), cobra.ShellCompDirectiveNoFileComp
		})
	}
}

func completeFlag(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the caller has defined the flag, and completes it once
	}
}

// Complete adds shell completion of the values for a flag.
func (w Words) Complete(cmd *cobra.Command, flag string) {
	completeFlag(cmd, flag, cobra.FixedCompletions(w, cobra.ShellCompDirectiveNoFileComp))
}

// CompleteList adds shell completion of the values for a flag that takes several, separated by commas. Those that are
// there already are not offered again.
func (w Words) CompleteList(cmd *cobra.Command, flag string) {
	completeFlag(cmd, flag, func(_ *cobra.Command, _ []string, typed string) (offered []string, _ cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		for _, word := range w {
			if !slices.Contains(strings.Split(before, ","), word) {
				offered = append(offered, before+word)
			}
		}
		return offered, cobra.ShellCompDirectiveNoFileComp
	})
}

// completeNoFiles keeps shells from offering files as arguments of commands that take none.
func completeNoFiles(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		completeNoFiles(cmd)
		if !cmd.HasSubCommands() && cmd.ValidArgsFunction == nil {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
}
