package manifests

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/test/kit/rights"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// phrases are those of the table in docs/operations.md, with the permissions that they stand for. Events and Leases, which
// every program may write, are not in the table.
var phrases = map[string][]string{
	"nothing by itself":              nil,
	"scale MachineDeployments":       {"patch machinedeployments.cluster.x-k8s.io/scale"},
	"mark Machines":                  {"patch machines.cluster.x-k8s.io"},
	"patch Nodes":                    {"patch nodes"},
	"patch NodeFleets":               {"patch nodefleets.supercargo.dev"},
	"delete Nodes":                   {"delete nodes"},
	"evict pods":                     {"create pods/eviction"},
	"create Migrations":              {"create migrations.supercargo.dev"},
	"create and delete Migrations":   {"create migrations.supercargo.dev", "delete migrations.supercargo.dev"},
	"patch and delete Migrations":    {"patch migrations.supercargo.dev", "delete migrations.supercargo.dev"},
	"patch the status of Migrations": {"patch migrations.supercargo.dev/status"},
	"update the scale of Deployments, StatefulSets and ReplicaSets": {"update deployments.apps/scale", "update statefulsets.apps/scale", "update replicasets.apps/scale"},
	"create and delete MachineDeployments":                          {"create machinedeployments.cluster.x-k8s.io", "delete machinedeployments.cluster.x-k8s.io"},
	"create and delete machine templates":                           {"create *machinetemplates.infrastructure.cluster.x-k8s.io", "delete *machinetemplates.infrastructure.cluster.x-k8s.io"},
	"create and delete NodeClaims":                                  {"create nodeclaims.karpenter.sh", "delete nodeclaims.karpenter.sh"},
	"create, patch and delete pods":                                 {"create pods", "patch pods", "delete pods"},
	"block the deletion of Jobs and ReplicaSets":                    {"update jobs.batch/finalizers", "update replicasets.apps/finalizers"},
	"update the status of PodDisruptionBudgets":                     {"update poddisruptionbudgets.policy/status"},
	"create and patch MachineProfiles":                              {"create machineprofiles.supercargo.dev", "patch machineprofiles.supercargo.dev"},
	"Jobs and ConfigMaps in `supercargo-probing`":                   {"create jobs.batch", "delete jobs.batch", "create configmaps", "patch configmaps"},
	"patch its webhook":                                             {"patch validatingwebhookconfigurations.admissionregistration.k8s.io OWN"},
	"update its Secret":                                             {"update secrets OWN"},
	"update its Secret and ConfigMap":                               {"update secrets OWN", "update configmaps OWN"},
	"patch its APIServices and its ConfigMap":                       {"patch apiservices.apiregistration.k8s.io OWN", "patch configmaps OWN"},
	"review tokens and access":                                      {"create tokenreviews.authentication.k8s.io", "create subjectaccessreviews.authorization.k8s.io"},
}

// permits are the rows of the table: files with the roles of a value, and those whose permissions its row does not repeat.
var permits = map[string]struct{ with, without []string }{
	"autoscaler.machines.enabled":       {with: []string{mode("machines")}, without: []string{"observe/autoscaler", "catalogue"}},
	"autoscaler.services.enabled":       {with: []string{mode("services")}, without: []string{"observe/autoscaler"}},
	"autoscaler.workers.enabled":        {with: []string{mode("workers")}, without: []string{"observe/autoscaler"}},
	"autoscaler.openstack.enabled":      {with: []string{"openstack"}},
	"autoscaler.karpenter.enabled":      {with: []string{"karpenter"}},
	"autoscaler.catalogue.enabled":      {with: []string{"catalogue"}},
	"descheduler.migrations.enabled":    {with: []string{mode("migrations")}, without: []string{"observe/descheduler"}},
	"descheduler.consolidation.enabled": {with: []string{mode("consolidation")}, without: []string{mode("migrations")}},
	"descheduler.probing.enabled":       {with: []string{mode("probing")}, without: []string{"observe/descheduler", "meter"}},
	"evictions.enabled":                 {with: []string{"evictions/base"}},
	"nodeAgent.enabled":                 {with: []string{"agent"}},
	"nodeMeter.enabled":                 {with: []string{"meter"}},
	"metricsAdapter.enabled":            {with: []string{"adapter/server"}},
	"dashboard.enabled":                 {with: []string{"dashboard/server"}},
}

func mode(name string) string { return "../test/kit/rights/modes/" + name + ".yaml" }

// granted returns the writes that the bound roles in files grant to any account, without those of Events and Leases. OWN
// stands for the names of objects, and * for the provider of a machine template.
func granted(t *testing.T, files []string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, file := range files {
		if !strings.HasSuffix(file, ".yaml") {
			file += "/rbac.yaml"
		}
		roles, err := rights.Parse(testfile.Read(t, "../../manifests/"+file))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		accounts := map[string]bool{}
		for _, b := range roles.ClusterRoleBindings {
			accounts["system:serviceaccount:"+b.Subjects[0].Namespace+":"+b.Subjects[0].Name] = true
		}
		for _, b := range roles.RoleBindings {
			accounts["system:serviceaccount:"+b.Subjects[0].Namespace+":"+b.Subjects[0].Name] = true
		}
		for account := range accounts {
			for _, right := range rights.Writes(roles.GrantsOf(account)) {
				right = templates.ReplaceAllString(named.ReplaceAllString(right, "$1 OWN"), " *machinetemplates")
				if !ordinary.MatchString(right) {
					all[right] = true
				}
			}
		}
	}
	return all
}

var (
	named     = regexp.MustCompile(`^(\S+ \S+) .*$`)
	templates = regexp.MustCompile(` [a-z]+machinetemplates`)
	ordinary  = regexp.MustCompile(` (events|leases)(\.|$)`)
)

// TestTheDocumentationSaysWhatEachValuePermits reads the table in docs/operations.md.
func TestTheDocumentationSaysWhatEachValuePermits(t *testing.T) {
	page := string(testfile.Read(t, "../../docs/operations.md"))
	_, table, found := strings.Cut(page, "| value | permits, in all namespaces | also |\n")
	if !found {
		t.Fatal("docs/operations.md has no such table")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	var rows []string
	for _, line := range strings.Split(table, "\n")[1:] {
		cells := strings.Split(line, " | ")
		value := strings.Trim(cells[0], "| `")
		rows = append(rows, value)
		of, known := permits[value]
		if !known {
			t.Errorf("row %s: which roles has it?", value)
			continue
		}
		want := granted(t, of.with)
		for right := range granted(t, of.without) {
			delete(want, right)
		}
		if diff := cmp.Diff(want, said(t, value, cells[1])); diff != "" {
			t.Errorf("%s: what its roles permit, and what docs/operations.md says (-roles +page):\n%s", value, diff)
		}
	}
	for value := range permits {
		if !slices.Contains(rows, value) {
			t.Errorf("the table has no row %s", value)
		}
	}
}

// said returns the permissions that a cell names, by the longest phrase at each place.
func said(t *testing.T, value, cell string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for cell != "" {
		longest := ""
		for phrase := range phrases {
			if rest, is := strings.CutPrefix(cell, phrase); is && (rest == "" || strings.HasPrefix(rest, ", ")) && len(phrase) > len(longest) {
				longest = phrase
			}
		}
		if longest == "" {
			t.Fatalf("%s: what does %q permit?", value, cell)
		}
		for _, right := range phrases[longest] {
			all[right] = true
		}
		cell = strings.TrimPrefix(strings.TrimPrefix(cell, longest), ", ")
	}
	return all
}
