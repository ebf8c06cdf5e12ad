package objects

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// page is how many objects are requested from the API server at a time.
const page = 500

// The kinds without which there is no audit, and those that a cluster may lack without loss.
var (
	required = []string{"Nodes", "Pods"}
	extra    = []string{"NodeMetrics", "MachineDeployments"}
)

// Live reads the objects of a cluster page by page. The client must be allowed to list nodes and pods. Other kinds that
// it may not list, or that do not exist, are recorded in Missing. The client's scheme must include the kinds of
// Kubernetes and NodeMetrics.
func Live(ctx context.Context, c client.Client) (*Objects, error) {
	o := &Objects{Missing: map[string]string{}}
	all := kinds
	if list, err := machineDeployments(c); err == nil {
		all = append(slices.Clone(kinds), kind{plural: "MachineDeployments", list: list})
	}
	for i := range all {
		name := all[i].plural
		err := o.readAll(ctx, c, all[i].list)
		switch lacks := slices.Contains(extra, name); {
		case err == nil:
		case slices.Contains(required, name) || ctx.Err() != nil:
			return nil, fmt.Errorf("list %s: %w", name, err)
		case absent(err) && lacks:
		case Absent(err), lacks:
			o.Missing[name] = reason(err)
		default:
			return nil, fmt.Errorf("list %s: %w", name, err)
		}
	}
	return o, nil
}

// MachineDeployments returns the metadata of the MachineDeployments of cluster-api, of the version that the cluster
// has. It returns none if the cluster lacks the kind.
func MachineDeployments(ctx context.Context, c client.Client) ([]metav1.PartialObjectMetadata, error) {
	list, err := machineDeployments(c)
	switch {
	case err != nil && absent(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	var o Objects
	err = o.readAll(ctx, c, list)
	return o.Deployments, err
}

// machineDeployments returns a function for empty lists of MachineDeployments, of the version that the cluster has.
func machineDeployments(c client.Client) (func() client.ObjectList, error) {
	mapping, err := c.RESTMapper().RESTMapping(schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "MachineDeployment"})
	if err != nil {
		return nil, err
	}
	return func() client.ObjectList {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind("MachineDeploymentList"))
		return list
	}, nil
}

// readAll lists a kind. If the API server's continue token expires, it starts again and discards what it has read, up
// to three times in total.
func (o *Objects) readAll(ctx context.Context, c client.Reader, kind func() client.ObjectList) error {
	const mostTries = 3
	var err error
	for range mostTries {
		before := *o
		if err = o.pages(ctx, c, kind); !apierrors.IsResourceExpired(err) {
			return err
		}
		missing := o.Missing
		*o = before
		o.Missing = missing
	}
	return err
}

func (o *Objects) pages(ctx context.Context, c client.Reader, kind func() client.ObjectList) error {
	next := ""
	for {
		list := kind()
		if err := c.List(ctx, list, client.Limit(page), client.Continue(next)); err != nil {
			return err
		}
		err := meta.EachListItem(list, func(object runtime.Object) error {
			o.Add(object)
			return nil
		})
		if err != nil {
			return fmt.Errorf("read a page: %w", err)
		}
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

// Absent reports whether the error of a request says that the cluster lacks the kind, or that the user may not read it.
func Absent(err error) bool { return absent(err) || apierrors.IsForbidden(err) }

// absent reports whether the error says that the cluster lacks the kind.
func absent(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

func reason(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return "the user may not list them"
	case absent(err):
		return "the cluster has no such kind"
	}
	return err.Error()
}
