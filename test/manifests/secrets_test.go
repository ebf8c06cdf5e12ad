package manifests

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/kustomize/api/resource"
	sigsyaml "sigs.k8s.io/yaml"
)

// TestNoProgramMayObtainTheTokenOfAnother builds every part. An account that may create a Secret obtains the token
// of any ServiceAccount of the namespace, because the API server fills it in, and no rule can restrict create to a
// name or a type. Programs may only update Secrets that their manifests create: the type of a Secret cannot be changed.
func TestNoProgramMayObtainTheTokenOfAnother(t *testing.T) {
	updated := map[string]bool{}
	for _, folder := range kustomizations(t) {
		secrets := map[string]corev1.SecretType{}
		built := build(t, folder).Resources()
		for _, r := range built {
			if r.GetKind() == "Secret" {
				var secret corev1.Secret
				decode(t, r, &secret)
				secrets[secret.Namespace+"/"+secret.Name] = secret.Type
			}
		}
		for _, r := range built {
			var role rbacv1.Role // a ClusterRole has the same fields
			if kind := r.GetKind(); kind != "Role" && kind != "ClusterRole" {
				continue
			}
			decode(t, r, &role)
			for _, rule := range role.Rules {
				for _, refused := range dangerous(rule) {
					t.Errorf("%s: %s %s may %s", folder, r.GetKind(), role.Name, refused)
				}
				if !slices.Contains(rule.Resources, "secrets") || !slices.Contains(rule.Verbs, "update") {
					continue
				}
				for _, name := range rule.ResourceNames {
					key := role.Namespace + "/" + name
					if updated[key] = true; secrets[key] != corev1.SecretTypeOpaque {
						t.Errorf("%s: Role %s updates Secret %s, which is of type %q there, want %s", folder, role.Name, key, secrets[key], corev1.SecretTypeOpaque)
					}
				}
			}
		}
	}
	if len(updated) != 4 {
		t.Errorf("programs update the Secrets %v, want the certificates of four", updated)
	}
}

// dangerous returns what in a rule leads to the rights of other accounts.
func dangerous(rule rbacv1.PolicyRule) (found []string) {
	for _, verb := range rule.Verbs {
		for _, name := range rule.Resources {
			named := len(rule.ResourceNames) > 0
			switch {
			case verb == "bind", verb == "escalate", verb == "impersonate", verb == "*", name == "serviceaccounts/token":
			case name == "secrets" && verb != "get", name == "*" && verb != "get":
				if verb == "update" && named {
					continue
				}
			default:
				continue
			}
			found = append(found, verb+" "+name)
		}
	}
	return found
}

func decode(t *testing.T, r *resource.Resource, into any) {
	t.Helper()
	text, err := r.AsYAML()
	if err == nil {
		err = sigsyaml.UnmarshalStrict(text, into)
	}
	if err != nil {
		t.Fatalf("%s %s: %v", r.GetKind(), r.GetName(), err)
	}
}
