package ledger

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// ActorMark separates the user agent of the client from the name of the actor after it.
const ActorMark = " replica/"

// Actor is a replica of a program. It is empty for all other clients.
//
// With [ActorMark], it is one run of the replica: autoscaler-1.3 is the third run of replica 1 of the
// autoscaler. Otherwise it is a pod, named by its ServiceAccount and the last part of its name:
// supercargo-autoscaler-x7k2p.
type Actor string

// Program returns the program of an actor, such as autoscaler, or the ServiceAccount of a pod.
func (a Actor) Program() string {
	program, _, _ := cutLast(string(a), "-")
	return program
}

// Write is a write that the API server carried out.
type Write struct {
	Actor Actor
	Verb  string
	// Resource is the plural name of the kind. Subresource is empty for the object itself.
	Resource, Subresource string
	Namespace, Name       string
	UID                   types.UID
	// Asked and Answered are when the API server received the request and when it had completed it,
	// by its own clock.
	Asked, Answered time.Time
	// Revision is the resourceVersion of the object after the write, which orders the writes of all
	// objects. It is 0 if the response has none, as for a binding.
	Revision int64
	// Request is the body of the request and Object the object after the write. They are empty if
	// the audit policy omits them.
	Request, Object []byte
}

// Key returns the namespace/name of the written object.
func (w *Write) Key() string { return w.Namespace + "/" + w.Name }

// decode reads the object after the write.
func (w *Write) decode(into any) error {
	if len(w.Object) == 0 {
		return fmt.Errorf("the audit log has no object of %s %s/%s %s", w.Verb, w.Resource, w.Subresource, w.Key())
	}
	if err := json.Unmarshal(w.Object, into); err != nil {
		return fmt.Errorf("read the object of %s %s/%s %s: %w", w.Verb, w.Resource, w.Subresource, w.Key(), err)
	}
	return nil
}

// Read reads an audit log with one event per line and returns the successful writes. Writes with a
// revision are in the order of revisions, the others in the order of their answers. An incomplete
// last line is ignored.
func Read(log io.Reader) ([]Write, error) {
	var all []Write
	lines := bufio.NewReader(log)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		var e auditv1.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("read line %d of the audit log: %w", n, err)
		}
		if w, is := writeOf(&e); is {
			all = append(all, w)
		}
	}
	slices.SortStableFunc(all, func(a, b Write) int { return a.Answered.Compare(b.Answered) })
	inRevisions(all)
	return all, nil
}

// writeOf returns the write of an event, and whether the event is a successful request for an object.
func writeOf(e *auditv1.Event) (Write, bool) {
	if e.Stage != auditv1.StageResponseComplete || e.ObjectRef == nil || e.ResponseStatus == nil || e.ResponseStatus.Code/100 != 2 {
		return Write{}, false
	}
	w := Write{
		Verb: e.Verb, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
		Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name, UID: e.ObjectRef.UID,
		Asked: e.RequestReceivedTimestamp.Time, Answered: e.StageTimestamp.Time,
		Request: raw(e.RequestObject), Object: raw(e.ResponseObject),
	}
	w.Actor = actorOf(e)
	var object struct {
		Kind     string            `json:"kind"`
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if len(w.Object) > 0 && json.Unmarshal(w.Object, &object) == nil && object.Kind != "Status" {
		w.Name = cmp.Or(w.Name, object.Metadata.Name)
		w.UID = cmp.Or(w.UID, object.Metadata.UID)
		w.Revision, _ = strconv.ParseInt(object.Metadata.ResourceVersion, 10, 64)
	}
	return w, true
}

// podNameExtra is the field of a user's extra information that has the name of the pod to which the token of a
// ServiceAccount is bound.
const podNameExtra = "authentication.kubernetes.io/pod-name"

func actorOf(e *auditv1.Event) Actor {
	if _, actor, marked := cutLast(e.UserAgent, ActorMark); marked {
		return Actor(actor)
	}
	pod := e.User.Extra[podNameExtra]
	if len(pod) != 1 {
		return ""
	}
	_, account, _ := cutLast(e.User.Username, ":")
	_, suffix, _ := cutLast(pod[0], "-")
	return Actor(account + "-" + suffix)
}

func raw(u *runtime.Unknown) []byte {
	if u == nil {
		return nil
	}
	return u.Raw
}

// cutLast cuts a text at the last separator.
func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}

// inRevisions sorts the writes that have a revision among the positions that they occupy. The other
// writes keep their positions.
func inRevisions(all []Write) {
	var places []int
	var some []Write
	for i := range all {
		if all[i].Revision > 0 {
			places, some = append(places, i), append(some, all[i])
		}
	}
	slices.SortStableFunc(some, func(a, b Write) int { return cmp.Compare(a.Revision, b.Revision) })
	for i, place := range places {
		all[place] = some[i]
	}
}
