package kit

import (
	"context"
	"fmt"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/test/kit/testapi"
	"supercargo.dev/supercargo/test/kit/testwait"
)

// Install creates missing objects of manifests, and waits until the API server grants the permissions in
// their roles. The API server authorizes by a cache: a program that starts at once may be forbidden a request
// that a role allows.
func (s *Site) Install(t testing.TB, paths ...string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	var objects []client.Object
	for _, path := range paths {
		objects = append(objects, Objects(t, path)...)
	}
	for _, object := range objects {
		if err := s.Client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatalf("make %T %s: %v", object, object.GetName(), err)
		}
	}
	for _, review := range reviews(t, objects) {
		testwait.Until(t, Patience, fmt.Sprintf("%s may %v", review.Spec.User, review.Spec.ResourceAttributes), func() string {
			asked := review.DeepCopy()
			testapi.Create(t, s.Client, asked)
			if asked.Status.Allowed {
				return ""
			}
			return "it may not: " + asked.Status.Reason
		})
	}
}

// reviews returns a review of one permission of each role among the objects that is bound to a
// ServiceAccount.
func reviews(t testing.TB, objects []client.Object) (asked []*authorizationv1.SubjectAccessReview) {
	t.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	for _, object := range objects {
		var role rbacv1.Role // a ClusterRole has its rules in the same field
		if kind := kindOf(object); kind == "Role" || kind == "ClusterRole" {
			read(t, object, &role)
			rules[roleKey(kind, role.Namespace, role.Name)] = role.Rules
		}
	}
	for _, object := range objects {
		var binding rbacv1.RoleBinding // a ClusterRoleBinding too
		if kind := kindOf(object); kind != "RoleBinding" && kind != "ClusterRoleBinding" {
			continue
		}
		read(t, object, &binding)
		first := firstOnResource(rules[roleKey(binding.RoleRef.Kind, binding.Namespace, binding.RoleRef.Name)])
		for _, subject := range binding.Subjects {
			if first == nil || subject.Kind != rbacv1.ServiceAccountKind {
				continue
			}
			first := first.DeepCopy()
			first.Namespace = binding.Namespace
			asked = append(asked, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "system:serviceaccount:" + subject.Namespace + ":" + subject.Name, ResourceAttributes: first,
			}})
		}
	}
	return asked
}

func kindOf(object client.Object) string { return object.GetObjectKind().GroupVersionKind().Kind }

// roleKey returns a key of a role; a ClusterRole has the same key in all namespaces.
func roleKey(kind, namespace, name string) string {
	if kind == "ClusterRole" {
		namespace = ""
	}
	return fmt.Sprint(kind, " ", namespace, "/", name)
}

// firstOnResource returns a permission that the first rule on resources grants, or nil if there is none.
func firstOnResource(rules []rbacv1.PolicyRule) *authorizationv1.ResourceAttributes {
	for _, r := range rules {
		if len(r.APIGroups) == 0 || len(r.Resources) == 0 || len(r.Verbs) == 0 {
			continue
		}
		asked := &authorizationv1.ResourceAttributes{Group: r.APIGroups[0], Verb: r.Verbs[0]}
		asked.Resource, asked.Subresource = r.Resources[0], ""
		if len(r.ResourceNames) > 0 {
			asked.Name = r.ResourceNames[0]
		}
		return asked
	}
	return nil
}

func read(t testing.TB, object client.Object, into any) {
	t.Helper()
	fields, ok := object.(*unstructured.Unstructured)
	if !ok {
		t.Fatalf("%s is a %T", object.GetName(), object)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields.Object, into); err != nil {
		t.Fatalf("read %s %s: %v", kindOf(object), object.GetName(), err)
	}
}
