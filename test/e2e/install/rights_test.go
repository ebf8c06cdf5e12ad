//go:build install

package install

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"strings"

	"supercargo.dev/supercargo/test/kit/rights"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// notUsed lists the permissions that nothing in this package uses, one per line: the account, the permission,
// and why it is granted.
//
//go:embed testdata/unused-rights.txt
var notUsed string

// rightsAreRight compares the audit log with the roles.
func (s *site) rightsAreRight() {
	log := testfile.Read(s, s.AuditLog)
	used, err := rights.ReadLog(bytes.NewReader(log))
	if err != nil {
		s.Fatal(err)
	}
	var roles rights.Roles
	s.list("clusterroles", &roles.ClusterRoles)
	s.list("roles", &roles.Roles)
	s.list("clusterrolebindings", &roles.ClusterRoleBindings)
	s.list("rolebindings", &roles.RoleBindings)
	var unused []string
	for user, account := range used {
		report := rights.Compare(roles.GrantsOf(user), account)
		for _, request := range report.Missing {
			s.Errorf("%s is refused: %v", user, request)
		}
		for _, grant := range report.Unused {
			// The roles of Kubernetes itself are not checked.
			if strings.Contains(grant.Role, "supercargo-") {
				unused = append(unused, user[strings.LastIndex(user, ":")+1:]+" "+grant.String())
			}
		}
	}
	var known []string
	sometimes := map[string]bool{}
	for _, line := range lines(notUsed) {
		right, _, _ := strings.Cut(line, "\t")
		right, now := strings.CutPrefix(right, "? ")
		if !strings.HasPrefix(line, "#") {
			known, sometimes[right] = append(known, right), now
		}
	}
	unexplained, stale := rights.Explain(unused, known)
	for _, right := range unexplained {
		s.Errorf("never used; take it away, or say in testdata/unused-rights.txt why it is granted: %s", right)
	}
	for _, right := range stale {
		if sometimes[right] {
			continue
		}
		s.Errorf("in testdata/unused-rights.txt, and used or not granted: %s", right)
	}
}

// list reads all objects of a kind.
func (s *site) list(kind string, into any) {
	s.Helper()
	var list struct{ Items json.RawMessage }
	testfile.JSON(s, s.kubectl("get", kind, "-A", "-o", "json"), &list)
	testfile.JSON(s, list.Items, into)
}
