package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/autoscaler/fleet/pricelist"
	"supercargo.dev/supercargo/cli/adopt"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/internal/text/jsondoc"
)

// adoptFlags are the flags of `supercargo adopt`.
type adoptFlags struct {
	cluster                        *command.ClusterFlags
	asked                          []string // the names of the given flags that select the cluster
	from, selector, region, output string
}

// adoptFormats are the formats of what adopt prints: manifests, which are no table.
var adoptFormats = command.Words{"yaml", "json"}

// The kinds that can be adopted, with their names in kubectl.
var (
	poolNames  = []string{"nodepool", "nodepools"}
	groupNames = []string{"machinedeployments", "machinedeployment", "md"}
)

// nodePools are the NodePools of a cluster.
var nodePools = command.Objects{GroupVersionResource: schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}}

func newAdoptCommand() *cobra.Command {
	flags := adoptFlags{cluster: command.NewClusterFlags()}
	cmd := &cobra.Command{
		Use:   "adopt (nodepool/NAME... | nodepools | machinedeployments)",
		Short: "Print the NodeFleet that corresponds to a NodePool of Karpenter, or to cluster-autoscaler's MachineDeployments",
		Long: `Print NodeFleets that correspond to NodePools of Karpenter, or to the MachineDeployments,
MachineSets and MachinePools that cluster-autoscaler scales. The command changes nothing.

The output is a manifest for kubectl apply. Its comments list each setting that has no equivalent
or a different one, what to do about it, and the steps to go over and back. The NodeFleets are in
mode Observe, and buy nothing until you set spec.mode to Act. With -o json, the notes and steps are
in the fields notes, steps and back, which kubectl ignores.

MachineDeployments are those with the annotation
cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: one NodeFleet for each Cluster.

The objects are those of the cluster, or of a file (-f) with the output of kubectl get -o yaml. Add
nodes and NodeClasses to the file, so that zones and the region are known.`,
		Example: `  # Print the NodeFleet that corresponds to a NodePool
  supercargo adopt nodepool/default

  # Those of all NodePools, to apply after review
  supercargo adopt nodepools > fleets.yaml

  # What has no equivalent, as JSON
  supercargo adopt nodepools -o json | jq '.notes[] | {field, value, action}'

  # The NodeFleet of cluster-autoscaler's MachineDeployments, in the management cluster
  supercargo adopt machinedeployments -n machines -l pool=workers --context management

  # From files
  kubectl get nodepools,ec2nodeclasses,nodes -o yaml > objects.yaml
  supercargo adopt nodepools -f objects.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			cmd.Flags().Visit(func(f *pflag.Flag) {
				if _, is := f.Annotations[command.OfCluster]; is && f.Name != "namespace" {
					flags.asked = append(flags.asked, f.Name)
				}
			})
			return runAdopt(cmd.Context(), flags, args, cmd.InOrStdin(), cmd.OutOrStdout())
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return flags.adoptable(cmd.Context(), args, typed), cobra.ShellCompDirectiveNoFileComp
		},
	}
	f := cmd.Flags()
	flags.cluster.AddTo(cmd, true)
	flags.cluster.AddAllNamespaces(cmd)
	command.AddInput(cmd, &flags.from, "`file` with the output of kubectl get -o yaml or -o json, - for standard input (default: the cluster itself)", "")
	f.StringVarP(&flags.selector, "selector", "l", "", "label `selector` of MachineDeployments, such as pool=workers (default: all)")
	f.StringVar(&flags.region, "region", "", "cloud `region` whose list prices apply (default: that of the zones or of the nodes)")
	command.AddOutput(cmd, &flags.output, adoptFormats, "")
	return cmd
}

func runAdopt(ctx context.Context, flags adoptFlags, args []string, stdin io.Reader, stdout io.Writer) error {
	want, err := flags.wanted(args)
	if err != nil {
		return command.BadInput(err)
	}
	objects, err := flags.objects(ctx, want, stdin)
	if err != nil {
		return err
	}
	source, around, err := adopt.Gather(objects, want)
	if err != nil {
		return flags.fault(err)
	}
	around.Region, around.Prices = cmp.Or(flags.region, around.Region), pricelist.Read
	document, err := adopt.Convert(source, around)
	if err != nil {
		return flags.fault(err)
	}
	if flags.output == "json" {
		return jsondoc.Write(stdout, document)
	}
	return document.Write(stdout)
}

// fault returns an error as one of bad input if it is about a file.
func (f *adoptFlags) fault(err error) error {
	if f.from == "" {
		return err
	}
	return command.BadInput(err)
}

// wanted returns what the arguments select.
func (f *adoptFlags) wanted(args []string) (*adopt.Wanted, error) {
	const usage = "name what to adopt: nodepool/NAME, nodepools or machinedeployments"
	want := &adopt.Wanted{Selector: f.selector}
	errs := []error{adoptFormats.Check("output", f.output)}
	if f.from != "" {
		for _, flag := range f.asked {
			errs = append(errs, fmt.Errorf("--%s and -f are mutually exclusive: one selects a cluster, the other a file", flag))
		}
	}
	if _, err := adopt.ParseSelector(f.selector); err != nil {
		errs = append(errs, fmt.Errorf("--%w", err))
	}
	if len(args) == 2 && slices.Contains(poolNames, strings.ToLower(args[0])) {
		args = []string{args[0] + "/" + args[1]}
	}
	if len(args) == 0 {
		errs = append(errs, errors.New(usage))
	}
	for _, arg := range args {
		kind, name, named := strings.Cut(arg, "/")
		switch kind = strings.ToLower(kind); {
		case slices.Contains(poolNames, kind) && (!named && len(args) == 1 || named && name != ""):
			if want.Pools = true; named && !slices.Contains(want.Names, name) {
				want.Names = append(want.Names, name)
			}
		case slices.Contains(groupNames, kind) && !named && len(args) == 1:
			want.Groups, want.Namespace = true, f.cluster.Namespace()
		default:
			errs = append(errs, fmt.Errorf("%q: %s%s", arg, usage, command.DidYouMean(kind, []string{poolNames[0], poolNames[1], groupNames[0]}, "")))
		}
	}
	if f.selector != "" && want.Pools {
		errs = append(errs, errors.New("--selector: selects MachineDeployments: name NodePools instead"))
	}
	return want, errors.Join(errs...)
}

// objects reads the file or the cluster.
func (f *adoptFlags) objects(ctx context.Context, want *adopt.Wanted, stdin io.Reader) (all []adopt.Object, err error) {
	if f.from != "" {
		err = command.ReadInput(ctx, f.from, stdin, func(name string, in io.Reader) (err error) {
			all, err = adopt.Read(name, in)
			return err
		})
		return all, command.BadInput(err)
	}
	c, err := f.cluster.Client()
	if err != nil {
		return nil, err
	}
	if want.Pools {
		all, err = poolObjects(ctx, c)
	} else if want.Namespace, err = f.cluster.SelectedNamespace(); err == nil {
		all, err = groupObjects(ctx, c, want)
	}
	if err != nil {
		return nil, err
	}
	nodes, err := nodeObjects(ctx, c)
	return append(all, nodes...), err
}

// poolObjects returns the NodePools of the cluster and their NodeClasses.
func poolObjects(ctx context.Context, c client.Client) ([]adopt.Object, error) {
	pools, err := listObjects(ctx, c, schema.FromAPIVersionAndKind(adopt.PoolVersion, adopt.PoolKind), "")
	switch {
	case meta.IsNoMatchError(err):
		return nil, fmt.Errorf("the cluster serves no NodePools of %s: install Karpenter 1.0 or later, or select another cluster with --context", adopt.PoolVersion)
	case err != nil:
		return nil, fmt.Errorf("list NodePools: %w", err)
	}
	read := map[string]bool{}
	for _, o := range slices.Clone(pools) {
		ref, _, _ := unstructured.NestedStringMap(o.Fields, "spec", "template", "spec", "nodeClassRef")
		if key := ref["group"] + "/" + ref["kind"] + "/" + ref["name"]; !read[key] {
			read[key] = true
			pools = append(pools, classObjects(ctx, c, schema.GroupKind{Group: ref["group"], Kind: ref["kind"]}, ref["name"])...)
		}
	}
	return pools, ctx.Err()
}

// classObjects returns a NodeClass; nothing if it cannot be read: then its zones are not known.
func classObjects(ctx context.Context, c client.Client, kind schema.GroupKind, name string) []adopt.Object {
	mapping, err := c.RESTMapper().RESTMapping(kind)
	if err != nil {
		return nil
	}
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(mapping.GroupVersionKind)
	if err := c.Get(ctx, types.NamespacedName{Name: name}, class); err != nil {
		return nil
	}
	return []adopt.Object{objectOf(class)}
}

// groupObjects returns the MachineDeployments, MachineSets and MachinePools, each in the version that the cluster prefers.
func groupObjects(ctx context.Context, c client.Client, want *adopt.Wanted) (all []adopt.Object, _ error) {
	for _, kind := range []string{adopt.DeploymentKind, adopt.SetKind, adopt.MachinePool} {
		mapping, err := c.RESTMapper().RESTMapping(schema.GroupKind{Group: adopt.ClusterGroup, Kind: kind})
		switch {
		case meta.IsNoMatchError(err) && kind == adopt.DeploymentKind:
			return nil, errors.New("the cluster serves no MachineDeployments: select the management cluster of cluster-api with --context")
		case meta.IsNoMatchError(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("discover %ss: %w", kind, err)
		}
		some, err := listObjects(ctx, c, mapping.GroupVersionKind, want.Namespace)
		if err != nil {
			return nil, fmt.Errorf("list %ss: %w", kind, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// nodeObjects returns the metadata of the nodes; nothing if they must not be listed: then zones and region are not known.
func nodeObjects(ctx context.Context, c client.Client) (all []adopt.Object, _ error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NodeList"})
	switch err := eachPage(ctx, c, list, func() {
		for i := range list.Items {
			n := &unstructured.Unstructured{}
			n.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Node"})
			n.SetName(list.Items[i].Name)
			n.SetLabels(list.Items[i].Labels)
			all = append(all, objectOf(n))
		}
	}); {
	case apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	return all, nil
}

// listObjects returns the objects of a kind in a namespace; in all if it is empty.
func listObjects(ctx context.Context, c client.Client, kind schema.GroupVersionKind, namespace string) (all []adopt.Object, _ error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := eachPage(ctx, c, list, func() {
		for i := range list.Items {
			all = append(all, objectOf(&list.Items[i]))
		}
	}, client.InNamespace(namespace))
	return all, err
}

// adoptPage is how many objects are requested from the API server at a time.
const adoptPage = 500

// eachPage lists objects page by page, and calls add after each page.
func eachPage(ctx context.Context, c client.Client, list client.ObjectList, add func(), options ...client.ListOption) error {
	for next := ""; ; {
		if err := c.List(ctx, list, append(options, client.Limit(adoptPage), client.Continue(next))...); err != nil {
			return err
		}
		add()
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

func objectOf(u *unstructured.Unstructured) adopt.Object {
	where := u.GetKind() + " " + strings.TrimPrefix(u.GetNamespace()+"/"+u.GetName(), "/")
	return adopt.Object{Where: where, Fields: u.Object}
}

// adoptable returns the completions of an argument.
func (f *adoptFlags) adoptable(ctx context.Context, args []string, typed string) (names []string) {
	kind, _, slash := strings.Cut(typed, "/")
	switch {
	case slash && slices.Contains(poolNames, kind):
		for _, name := range f.cluster.Complete(ctx, nodePools) {
			if full := kind + "/" + name; !slices.Contains(args, full) {
				names = append(names, full)
			}
		}
	case len(args) == 1 && slices.Contains(poolNames, args[0]):
		return f.cluster.Complete(ctx, nodePools)
	case len(args) == 0:
		return []string{"nodepool", "nodepools\tall NodePools of Karpenter", "machinedeployments\tthose that cluster-autoscaler scales"}
	}
	return names
}
