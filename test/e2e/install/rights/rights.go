// Package rights compares what accounts may do in a cluster, by its roles, with what they
// have done, by its audit log: what they were refused, and which rights they never used.
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

// Request is what an account has asked for. Requests that differ only in the names of
// objects are one, unless names are kept.
type Request struct {
	Verb     string
	Group    string
	Resource string // with the subresource: pods/eviction

	// Namespace is empty for requests of the whole cluster, and Name for those of no
	// object that is known beforehand.
	Namespace, Name string

	// Path is set in place of the above for what is no object: /metrics.
	Path string
}

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

// Log is what an audit log says of the accounts in it, by their user names.
type Log map[string]*Account

// Account is what one has asked for, with how often.
type Account struct {
	Allowed, Forbidden map[Request]int
}

// ReadLog reads an audit log: an Event of audit.k8s.io/v1 a line.
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

// add counts a request once, although a watch is told of when it begins and when it ends.
func (l Log) add(event *auditv1.Event) {
	if event.Stage == auditv1.StageRequestReceived || event.Stage == auditv1.StageResponseComplete && event.Verb == "watch" && event.ResponseStatus != nil && event.ResponseStatus.Code == http.StatusOK {
		return
	}
	account := l[event.User.Username]
	if account == nil {
		account = &Account{Allowed: map[Request]int{}, Forbidden: map[Request]int{}}
		l[event.User.Username] = account
	}
	// An answer of 403 can also be that of admission, to who has the right.
	if event.Annotations["authorization.k8s.io/decision"] == "forbid" {
		account.Forbidden[requestOf(event)]++
		return
	}
	request := requestOf(event)
	account.Allowed[request]++
	// Who has the list streamed asks for it by a list where the API server streams none.
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

// Grant is one verb on one kind of objects, or on one path: the smallest part of a rule
// of a role that can be taken away.
type Grant struct {
	// Role is the role that grants it, as ClusterRole/name or Role/namespace/name.
	Role string

	Verb, Group, Resource string
	Path                  string   // set in place of Group and Resource
	Namespace             string   // empty: the whole cluster
	Names                 []string // of the objects; empty: all
}

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

// matchesResource knows that * is all resources with their subresources, and */scale the
// subresource scale of all.
func matchesResource(granted, asked string) bool {
	if matches(granted, asked) {
		return true
	}
	sub, all := strings.CutPrefix(granted, "*/")
	_, asks, has := strings.Cut(asked, "/")
	return all && has && sub == asks
}

// Roles are all roles of a cluster, and who has them.
type Roles struct {
	ClusterRoles        []rbacv1.ClusterRole
	Roles               []rbacv1.Role
	ClusterRoleBindings []rbacv1.ClusterRoleBinding
	RoleBindings        []rbacv1.RoleBinding
}

// GrantsOf returns what a user may do by bindings that name it, without those of groups,
// in the order of roles and their rules.
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

// Report is how the rights of one account and its requests differ.
type Report struct {
	Missing []Request // refused, though asked for
	Unused  []Grant   // granted, and never asked for
}

// Compare says which requests of an account were refused, sorted by their texts, and
// which of its grants cover no request, in their order. To get what the account lists is
// no right of its own: a list tells the same. An account may be nil: it has asked for
// nothing.
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
		// A list of the one object of a name tells nothing of others.
		tells := request.Name == "" || slices.Contains(grant.Names, request.Name)
		if grant.Covers(request) || tells && listed.Covers(request) {
			return true
		}
	}
	return false
}

// Explain compares rights that were not used with those that are known not to be, each a
// text, in which a last * stands for any end. It returns the rights that are not known, and
// the texts that stand for none.
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
