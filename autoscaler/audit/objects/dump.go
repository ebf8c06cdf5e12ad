package objects

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubejson "sigs.k8s.io/json"
)

// What a dump may have at most.
const (
	// MaxObjectBytes is of one object, as text; API servers take no objects of half that size.
	MaxObjectBytes = 8 << 20
	// MaxObjects is of all objects together.
	MaxObjects = 2_000_000
)

// Dump reads what kubectl get -o yaml or -o json has printed: a List, several of them, or single
// objects. name is for errors, which say the object and the field.
//
// It reads object by object, so that the memory it takes is that of what it keeps.
func Dump(name string, in io.Reader) (*Objects, error) {
	r := &reader{name: name, in: bufio.NewReaderSize(in, 1<<20), into: &Objects{}}
	first, err := r.firstByte()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: is empty, want what kubectl get nodes,pods -A -o yaml prints", name)
	case err != nil:
		return nil, fmt.Errorf("%s: read: %w", name, err)
	case first == '{':
		err = r.jsonDocuments()
	default:
		err = r.yamlDocuments()
	}
	if err != nil {
		return nil, err
	}
	return r.into, r.check()
}

// reader reads a dump.
type reader struct {
	name    string
	in      *bufio.Reader
	into    *Objects
	objects int
	seen    map[string]bool
}

// firstByte returns the first byte that is no white space, which stays unread.
func (r *reader) firstByte() (byte, error) {
	for {
		b, err := r.in.ReadByte()
		if err != nil {
			return 0, err
		}
		if !bytes.ContainsRune([]byte(" \t\r\n"), rune(b)) {
			return b, r.in.UnreadByte()
		}
	}
}

// check refuses a dump that says nothing of a cluster.
func (r *reader) check() error {
	switch {
	case len(r.into.Nodes) == 0:
		return fmt.Errorf("%s: has no Node, want what kubectl get nodes,pods -A -o yaml prints", r.name)
	case len(r.into.Pods) == 0:
		return fmt.Errorf("%s: has no Pod that runs or waits, want what kubectl get nodes,pods -A -o yaml prints", r.name)
	}
	return nil
}

// fault says what is wrong with an object.
func (r *reader) fault(where, format string, args ...any) error {
	return fmt.Errorf("%s: %s: %s", r.name, where, fmt.Sprintf(format, args...))
}

// object adds one object, as JSON. kind is that of the list that it is in, for items that do not say
// theirs.
func (r *reader) object(text []byte, where, listKind string) error {
	if r.objects++; r.objects > MaxObjects {
		return r.fault(where, "goes beyond %d objects", MaxObjects)
	}
	var head metav1.PartialObjectMetadata
	if err := json.Unmarshal(text, &head); err != nil {
		return r.fault(where, "is no object of Kubernetes: %v", err)
	}
	kind := head.Kind
	if kind == "" {
		kind = strings.TrimSuffix(listKind, "List")
	}
	if strings.HasSuffix(kind, "List") && kind != "" {
		return r.list(text, where)
	}
	if kind == "" {
		return r.fault(where, "kind: is missing, want Node, Pod or another kind")
	}
	object := newObject(head.APIVersion, kind)
	if object == nil {
		r.into.Others++
		return nil
	}
	where = fmt.Sprintf("%s %s", kind, strings.TrimPrefix(head.Namespace+"/"+head.Name, "/"))
	if problems := validation.IsDNS1123Subdomain(head.Name); len(problems) > 0 && kind != "Namespace" {
		return r.fault(where, "metadata.name: %q is no name: %s", clip(head.Name), problems[0])
	}
	if key := kind + "/" + head.Namespace + "/" + head.Name; r.seen[key] {
		return r.fault(where, "metadata.name: is there twice, want each object once")
	} else if r.seen == nil {
		r.seen = map[string]bool{key: true}
	} else {
		r.seen[key] = true
	}
	if err := kubejson.UnmarshalCaseSensitivePreserveInts(text, object); err != nil {
		return r.fault(where, "%v", err)
	}
	if err := validate(object); err != nil {
		return r.fault(where, "%v", err)
	}
	r.into.Add(object)
	return nil
}

// list adds the items of a list that is an item itself, or stands alone.
func (r *reader) list(text []byte, where string) error {
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return r.fault(where, "is no list: %v", err)
	}
	for i, item := range list.Items {
		if err := r.object(item, fmt.Sprintf("%sitems[%d]", prefix(where), i), list.Kind); err != nil {
			return err
		}
	}
	return nil
}

func prefix(where string) string {
	if where == "" || where == "document 1" {
		return ""
	}
	return where + "."
}

// clip shortens text that is to be shown.
func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}

// jsonDocuments reads JSON, items of lists one by one.
func (r *reader) jsonDocuments() error {
	decoder := json.NewDecoder(r.in)
	for document := 1; ; document++ {
		token, err := decoder.Token()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return r.fault(fmt.Sprintf("document %d", document), "is no JSON: %v", err)
		case token != json.Delim('{'):
			return r.fault(fmt.Sprintf("document %d", document), "is no object, want a List or an object")
		}
		if err := r.jsonObject(decoder, fmt.Sprintf("document %d", document)); err != nil {
			return err
		}
	}
}

// jsonObject reads the rest of an object whose brace is read. Items are read as they come; kubectl
// prints the kind after them, so that items without a kind wait for it.
func (r *reader) jsonObject(decoder *json.Decoder, where string) error {
	fields := map[string]json.RawMessage{}
	var waiting []json.RawMessage
	items := false
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return r.fault(where, "is no JSON: %v", err)
		}
		field, _ := token.(string)
		if field != "items" {
			var value json.RawMessage
			if err := decoder.Decode(&value); err != nil {
				return r.fault(where, "%s: is no JSON: %v", clip(field), err)
			}
			fields[field] = value
			continue
		}
		items = true
		if token, err := decoder.Token(); err != nil || token != json.Delim('[') {
			return r.fault(prefix(where)+"items", "is no list")
		}
		for i := 0; decoder.More(); i++ {
			var item json.RawMessage
			at := fmt.Sprintf("%sitems[%d]", prefix(where), i)
			if err := decoder.Decode(&item); err != nil {
				return r.fault(at, "is no JSON: %v", err)
			}
			if len(item) > MaxObjectBytes {
				return r.fault(at, "is larger than %d bytes", MaxObjectBytes)
			}
			if !saysKind(item) {
				waiting = append(waiting, item)
				continue
			}
			if err := r.object(item, at, ""); err != nil {
				return err
			}
		}
		if _, err := decoder.Token(); err != nil {
			return r.fault(where, "is no JSON: %v", err)
		}
	}
	if _, err := decoder.Token(); err != nil {
		return r.fault(where, "is no JSON: %v", err)
	}
	if !items {
		text, err := json.Marshal(fields)
		if err != nil {
			return r.fault(where, "%v", err)
		}
		return r.object(text, where, "")
	}
	var kind string
	_ = json.Unmarshal(fields["kind"], &kind) // else the items are refused for want of a kind
	for i, item := range waiting {
		if err := r.object(item, fmt.Sprintf("%sitems[%d]", prefix(where), i), kind); err != nil {
			return err
		}
	}
	return nil
}

func saysKind(item json.RawMessage) bool {
	var head metav1.TypeMeta
	return json.Unmarshal(item, &head) == nil && head.Kind != ""
}

// newObject returns an empty object of a kind that an audit looks at, nil for any other.
func newObject(apiVersion, kind string) any {
	if kind == "MachineDeployment" && strings.HasPrefix(apiVersion, "cluster.x-k8s.io/") {
		return &metav1.PartialObjectMetadata{}
	}
	if make := kinds[kind]; make.new != nil && (apiVersion == "" || apiVersion == make.apiVersion) {
		return make.new()
	}
	return nil
}

// validate refuses amounts that no API server would have let pass and sums could not hold.
func validate(object any) error {
	switch o := object.(type) {
	case *corev1.Node:
		return checkAmounts("status.allocatable", o.Status.Allocatable)
	case *corev1.Pod:
		for list, containers := range map[string][]corev1.Container{"initContainers": o.Spec.InitContainers, "containers": o.Spec.Containers} {
			for i := range containers {
				at := fmt.Sprintf("spec.%s[%d].resources.", list, i)
				if err := errors.Join(checkAmounts(at+"requests", containers[i].Resources.Requests), checkAmounts(at+"limits", containers[i].Resources.Limits)); err != nil {
					return err
				}
			}
		}
		return checkAmounts("spec.overhead", o.Spec.Overhead)
	}
	return nil
}
