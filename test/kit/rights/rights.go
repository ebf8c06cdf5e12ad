// Package rights compares the permissions of accounts, from their roles, with their requests, from the audit
// log: which requests were forbidden, and which permissions were never used.
package rights

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// maxEvent bounds the length of a line of an audit log, in bytes.
const maxEvent = 16 << 20

// Request is a request of an account. Requests that differ only in the names of objects are equal, unless
// names are kept.
type Request struct {
	Verb     string
	Group    string
	Resource string // with the subresource: pods/eviction

	// Namespace is empty for cluster-wide requests, and Name for requests whose object is not known
	// beforehand.
	Namespace, Name string

	// Path is set instead of the above for non-resource URLs: /metrics.
	Path string
}

// String returns the verb, then the path, or the resource, name and namespace.
func (r Request) String() string {
	if r.Path != "" {
		return r.Verb + " " + r.Path
	}
	what := resource(r.Group, r.Resource)
	if r.Name != "" {
		what += " " + r.Name
	}
	if r.Namespace != "" {
		what += " in " + r.Namespace
	}
	return r.Verb + " " + what
}

// Log contains the accounts in an audit log, by user name.
type Log map[string]*Account

// Account contains the requests of an account, with their counts.
type Account struct {
	Allowed, Forbidden map[Request]int
}

// ReadLog reads an audit log with one audit.k8s.io/v1 Event per line.
func ReadLog(r io.Reader) (Log, error) {
	log := Log{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEvent)
	for n := 1; lines.Scan(); n++ {
		var event auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, fmt.Errorf("read line %d of the audit log: %w", n, err)
		}
		log.add(&event)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	return log, nil
}

// add counts a request once, although the log has a watch twice: when it begins and when it ends.
func (l Log) add(event *auditv1.Event) {
	if event.Stage == auditv1.StageRequestReceived || event.Stage == auditv1.StageResponseComplete && event.Verb == "watch" && event.ResponseStatus != nil && event.ResponseStatus.Code == http.StatusOK {
		return
	}
	account := l[event.User.Username]
	if account == nil {
		account = &Account{Allowed: map[Request]int{}, Forbidden: map[Request]int{}}
		l[event.User.Username] = account
	}
	// Not by status: admission can also answer 403 to an account that has the permission.
	if event.Annotations["authorization.k8s.io/decision"] == "forbid" {
		account.Forbidden[requestOf(event)]++
		return
	}
	request := requestOf(event)
	account.Allowed[request]++
	// A streamed list falls back to a plain list if the API server does not stream lists.
	if request.Verb == "watch" && strings.Contains(event.RequestURI, "sendInitialEvents=true") {
		request.Verb = "list"
		account.Allowed[request]++
	}
}

func requestOf(event *auditv1.Event) Request {
	object := event.ObjectRef
	if object == nil {
		path, _, _ := strings.Cut(event.RequestURI, "?")
		return Request{Verb: event.Verb, Path: path}
	}
	resource := object.Resource
	if object.Subresource != "" {
		resource += "/" + object.Subresource
	}
	return Request{Verb: event.Verb, Group: object.APIGroup, Resource: resource, Namespace: object.Namespace, Name: object.Name}
}

// Grant is one verb on one resource, or on one path: the smallest part of a role's rule that can be removed.
type Grant struct {
	// Role is the role that grants it, as ClusterRole/name or Role/namespace/name.
	Role string

	Verb, Group, Resource string
	Path                  string   // set instead of Group and Resource
	Namespace             string   // empty: the whole cluster
	Names                 []string // of the objects; empty: all
}

// String returns the role, the verb, then the path, or the resource and names.
func (g Grant) String() string {
	what := resource(g.Group, g.Resource)
	if g.Path != "" {
		what = g.Path
	}
	if len(g.Names) != 0 {
		what += " " + strings.Join(g.Names, ",")
	}
	return fmt.Sprintf("%s: %s %s", g.Role, g.Verb, what)
}

// Covers reports whether the grant allows a request.
func (g Grant) Covers(r Request) bool {
	switch {
	case !matches(g.Verb, r.Verb):
		return false
	case g.Path != "" || r.Path != "":
		prefix, open := strings.CutSuffix(g.Path, "*")
		return g.Path == r.Path || open && g.Path != "" && strings.HasPrefix(r.Path, prefix)
	case !matches(g.Group, r.Group) || !matchesResource(g.Resource, r.Resource):
		return false
	case g.Namespace != "" && g.Namespace != r.Namespace:
		return false
	}
	return len(g.Names) == 0 || slices.Contains(g.Names, r.Name)
}

func matches(granted, asked string) bool { return granted == "*" || granted == asked }

// matchesResource treats * as all resources with their subresources, and */scale as the subresource scale of
// all.
func matchesResource(granted, asked string) bool {
	if matches(granted, asked) {
		return true
	}
	sub, all := strings.CutPrefix(granted, "*/")
	_, asks, has := strings.Cut(asked, "/")
	return all && has && sub == asks
}

// Roles contains all roles of a cluster and their bindings.
type Roles struct {
	ClusterRoles        []rbacv1.ClusterRole
	Roles               []rbacv1.Role
	ClusterRoleBindings []rbacv1.ClusterRoleBinding
	RoleBindings        []rbacv1.RoleBinding
}

// GrantsOf returns the grants of a user by bindings that name it, not by those of groups, in the order of
// roles and their rules.
func (r *Roles) GrantsOf(user string) []Grant {
	var grants []Grant
	for _, binding := range r.ClusterRoleBindings {
		if names(binding.Subjects, user, "") {
			grants = append(grants, r.expand(binding.RoleRef, "")...)
		}
	}
	for _, binding := range r.RoleBindings {
		if names(binding.Subjects, user, binding.Namespace) {
			grants = append(grants, r.expand(binding.RoleRef, binding.Namespace)...)
		}
	}
	slices.SortStableFunc(grants, func(a, b Grant) int { return cmp.Compare(a.Role, b.Role) })
	return grants
}

// names reports whether a user is among subjects; namespace is that of the binding.
func names(subjects []rbacv1.Subject, user, namespace string) bool {
	return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
		switch s.Kind {
		case rbacv1.ServiceAccountKind:
			return user == "system:serviceaccount:"+cmp.Or(s.Namespace, namespace)+":"+s.Name
		case rbacv1.UserKind:
			return user == s.Name
		}
		return false
	})
}

// expand returns the grants of a role in a namespace, or in the whole cluster.
func (r *Roles) expand(ref rbacv1.RoleRef, namespace string) []Grant {
	if ref.Kind == "Role" {
		for _, role := range r.Roles {
			if role.Name == ref.Name && role.Namespace == namespace {
				return expand("Role/"+namespace+"/"+role.Name, namespace, role.Rules)
			}
		}
		return nil
	}
	for _, role := range r.ClusterRoles {
		if role.Name == ref.Name {
			return expand("ClusterRole/"+role.Name, namespace, role.Rules)
		}
	}
	return nil
}

func expand(role, namespace string, rules []rbacv1.PolicyRule) []Grant {
	var grants []Grant
	for _, rule := range rules {
		for _, verb := range rule.Verbs {
			for _, path := range rule.NonResourceURLs {
				grants = append(grants, Grant{Role: role, Verb: verb, Path: path})
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					grants = append(grants, Grant{
						Role: role, Verb: verb, Group: group, Resource: resource, Namespace: namespace, Names: rule.ResourceNames,
					})
				}
			}
		}
	}
	return grants
}

// Report contains the differences between the permissions of an account and its requests.
type Report struct {
	Missing []Request // requested, but forbidden
	Unused  []Grant   // granted, but never requested
}

// Compare returns the requests of an account that were forbidden, sorted by their texts, and its grants that
// cover no request, in their order. A list request also uses the grant to get the resource, because it
// returns the same data. The account may be nil if it has sent no request.
func Compare(grants []Grant, account *Account) Report {
	var report Report
	if account == nil {
		account = &Account{}
	}
	for request := range account.Forbidden {
		report.Missing = append(report.Missing, request)
	}
	slices.SortFunc(report.Missing, func(a, b Request) int { return cmp.Compare(a.String(), b.String()) })
	for _, grant := range grants {
		if !used(grant, account) {
			report.Unused = append(report.Unused, grant)
		}
	}
	return report
}

func used(grant Grant, account *Account) bool {
	listed := grant
	if grant.Verb == "get" && grant.Path == "" {
		listed.Verb = "list"
	}
	for request := range account.Allowed {
		// A list of one object by its name returns no other objects.
		explains := request.Name == "" || slices.Contains(grant.Names, request.Name)
		if grant.Covers(request) || explains && listed.Covers(request) {
			return true
		}
	}
	return false
}

// Explain compares unused permissions with the known ones. A known entry is a text, in which a trailing *
// matches any suffix. It returns the permissions that are not known, and the entries that match none.
func Explain(unused, known []string) (unexplained, stale []string) {
	stands := func(text, right string) bool {
		prefix, open := strings.CutSuffix(text, "*")
		return text == right || open && strings.HasPrefix(right, prefix)
	}
	for _, right := range unused {
		if !slices.ContainsFunc(known, func(text string) bool { return stands(text, right) }) {
			unexplained = append(unexplained, right)
		}
	}
	for _, text := range known {
		if !slices.ContainsFunc(unused, func(right string) bool { return stands(text, right) }) {
			stale = append(stale, text)
		}
	}
	return unexplained, stale
}

func resource(group, resource string) string {
	if group == "" {
		return resource
	}
	name, sub, has := strings.Cut(resource, "/")
	if has {
		return name + "." + group + "/" + sub
	}
	return name + "." + group
}
