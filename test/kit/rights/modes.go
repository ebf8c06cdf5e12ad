package rights

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// modes has what the chart renders for each action that a program may carry out.
//
//go:embed modes/*.yaml
var modes embed.FS

// Modes are the actions, by their values in the chart. A run of each is compared by an integration test; that of workers,
// which need a Work Queue manager, by test/e2e/workers.
var Modes = []string{"machines", "services", "workers", "migrations", "consolidation", "probing"}

// unusedIn has the writes that a mode permits and that its integration test does not use, each with the reason. A leading
// ? marks those that some runs use.
var unusedIn = map[string]map[string]string{
	"machines": {
		"? patch events":                               again,
		"? patch events.events.k8s.io":                 again,
		"? create migrations.supercargo.dev":           "only for pods that move with their state; e2e/install has them",
		"? delete migrations.supercargo.dev":           "the same, when a drain is cancelled",
		"create awsmachinetemplates*":                  otherProvider,
		"create azuremachinetemplates*":                otherProvider,
		"create dockermachinetemplates*":               otherProvider,
		"create gcpmachinetemplates*":                  otherProvider,
		"create openstackmachinetemplates*":            otherProvider,
		"delete awsmachinetemplates*":                  otherProvider,
		"delete azuremachinetemplates*":                otherProvider,
		"delete dockermachinetemplates*":               otherProvider,
		"delete gcpmachinetemplates*":                  otherProvider,
		"delete openstackmachinetemplates*":            otherProvider,
		"update replicapolicies.supercargo.dev/status": "the test has no ReplicaPolicy; its controller reports in each mode",
		"update workerpools.supercargo.dev/status":     "the test has no WorkerPool; its controller reports in each mode",
	},
	"services": {
		"? patch events":                           again,
		"? patch events.events.k8s.io":             again,
		"update nodefleets.supercargo.dev/status":  "the test has no NodeFleet; its controller reports in each mode",
		"update workerpools.supercargo.dev/status": "the test has no WorkerPool; its controller reports in each mode",
	},
	"workers": {
		"? patch events":                               again,
		"? patch events.events.k8s.io":                 again,
		"update replicapolicies.supercargo.dev/status": "the test has no ReplicaPolicy; its controller reports in each mode",
	},
	"migrations": {
		"? patch events":                               again,
		"? patch events.events.k8s.io":                 again,
		"? patch consolidations.supercargo.dev/status": "consolidation reports in each mode, some time after the start",
		"patch machineprofiles.supercargo.dev/status":  "the test has no MachineProfile; its controller reports in each mode",
		"update jobs.batch/finalizers":                 enforcement,
		"update replicasets.apps/finalizers":           enforcement,
	},
	"consolidation": {
		"? patch events.events.k8s.io":                 again,
		"? patch consolidations.supercargo.dev/status": "the report of a decision, which may follow the end of the test",
		"create events":                                "leader election, which mode migrations has",
		"patch events":                                 "the same",
		"create leases.coordination.k8s.io":            "the same",
		"update leases.coordination.k8s.io":            "the same",
		"delete migrations.supercargo.dev":             "Migrations that ended a day ago; mode migrations deletes them at once",
		"patch machineprofiles.supercargo.dev/status":  "the test has no MachineProfile; its controller reports in each mode",
		"update jobs.batch/finalizers":                 enforcement,
		"update poddisruptionbudgets.policy/status":    "the test has no PodDisruptionBudget; that of mode migrations has",
		"update replicasets.apps/finalizers":           enforcement,
	},
	"probing": {
		"? patch events":                               again,
		"? patch events.events.k8s.io":                 again,
		"? patch consolidations.supercargo.dev/status": "the test has no consolidation, which reports in each mode",
		"create configmaps":                            "a patch that creates what was learned also needs it; it is no request of its own",
		"patch migrations.supercargo.dev/status":       "the test has no Migration; its controller reports in each mode",
	},
}

// again is the reason of requests about repeated Events.
const again = "a repeated Event"

// enforcement is the reason of rights about the finalizers of owners.
const enforcement = "only for API servers with OwnerReferencesPermissionEnforcement, which those of the tests lack: the new pod blocks the deletion of its owner"

// otherProvider is the reason of rights about machine templates.
const otherProvider = "the test has machines of another infrastructure provider"

// OfMode returns the roles that the chart renders with the values of a mode.
func OfMode(mode string) (*Roles, error) {
	content, err := modes.ReadFile("modes/" + mode + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("read the roles of mode %s: %w", mode, err)
	}
	roles, err := Parse(content)
	if err != nil {
		return nil, fmt.Errorf("mode %s: %w", mode, err)
	}
	return roles, nil
}

// Parse returns the roles and their bindings among the objects in a YAML file.
func Parse(content []byte) (*Roles, error) {
	roles := &Roles{}
	for _, document := range strings.Split(string(content), "\n---\n") {
		var kind struct {
			Kind string `json:"kind"`
		}
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			return nil, fmt.Errorf("read an object: %w", err)
		}
		var into runtime.Object
		switch kind.Kind {
		case "ClusterRole":
			roles.ClusterRoles = append(roles.ClusterRoles, rbacv1.ClusterRole{})
			into = &roles.ClusterRoles[len(roles.ClusterRoles)-1]
		case "Role":
			roles.Roles = append(roles.Roles, rbacv1.Role{})
			into = &roles.Roles[len(roles.Roles)-1]
		case "ClusterRoleBinding":
			roles.ClusterRoleBindings = append(roles.ClusterRoleBindings, rbacv1.ClusterRoleBinding{})
			into = &roles.ClusterRoleBindings[len(roles.ClusterRoleBindings)-1]
		case "RoleBinding":
			roles.RoleBindings = append(roles.RoleBindings, rbacv1.RoleBinding{})
			into = &roles.RoleBindings[len(roles.RoleBindings)-1]
		default:
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
			return nil, fmt.Errorf("read a %s: %w", kind.Kind, err)
		}
	}
	return roles, nil
}

// Faults returns what is wrong between the requests of a user in a run and the permissions of a mode: requests that it
// does not permit, writes that it permits and that the run did not use, and reasons for such writes that do not apply
// any more. Requests that every authenticated user may send do not count, nor those that other roles permit which the user
// has in the run beside those of the mode.
func Faults(mode, user string, requests map[Request]int, beside ...*Roles) (faults []string, err error) {
	roles, err := OfMode(mode)
	if err != nil {
		return nil, err
	}
	grants := roles.GrantsOf(user)
	permitted := slices.Clone(grants)
	for _, other := range beside {
		permitted = append(permitted, other.GrantsOf(user)...)
	}
	for request := range requests {
		if !everyone(request) && !slices.ContainsFunc(permitted, func(g Grant) bool { return g.Covers(request) }) {
			faults = append(faults, "the chart does not permit: "+request.String())
		}
	}
	writes := Writes(Compare(grants, &Account{Allowed: requests}).Unused)
	var known []string
	sometimes := map[string]bool{}
	for right := range unusedIn[mode] {
		right, now := strings.CutPrefix(right, "? ")
		known, sometimes[right] = append(known, right), now
	}
	unexplained, stale := Explain(writes, known)
	for _, right := range unexplained {
		faults = append(faults, "the chart permits, and the run did not use: "+right)
	}
	for _, right := range stale {
		if !sometimes[right] {
			faults = append(faults, "said to be unused, and used or not permitted: "+right)
		}
	}
	slices.Sort(faults)
	return slices.Compact(faults), nil
}

// Writes returns the grants that change something, each as its verb, resource and names.
func Writes(grants []Grant) (writes []string) {
	for _, grant := range grants {
		if grant.Path == "" && !slices.Contains([]string{"get", "list", "watch"}, grant.Verb) {
			_, right, _ := strings.Cut(grant.String(), ": ")
			writes = append(writes, right)
		}
	}
	return writes
}

// everyone reports whether the roles of Kubernetes permit a request to every authenticated user.
func everyone(r Request) bool {
	return r.Path != "" || r.Group == "authorization.k8s.io" && strings.HasPrefix(r.Resource, "selfsubject")
}
