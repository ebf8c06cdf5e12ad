package objects

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubejson "sigs.k8s.io/json"
)

// Limits of a dump.
const (
	// MaxObjectBytes bounds the text of one object. API servers reject objects of half that size.
	MaxObjectBytes = 8 << 20
	// MaxObjects bounds the number of objects.
	MaxObjects = 2_000_000
)

// Dump reads the output of kubectl get -o yaml or -o json: one or more Lists, or single objects. name identifies the
// input in errors, which also name the object and the field.
//
// It parses objects in batches, so that it needs hardly more memory than the objects that it keeps.
func Dump(name string, in io.Reader) (*Objects, error) {
	counted := &lines{in: in, n: 1}
	r := &reader{name: name, in: bufio.NewReaderSize(counted, 1<<20), lines: counted, into: &Objects{}}
	first, err := r.firstByte()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: is empty: must be the output of kubectl get nodes,pods -A -o yaml", name)
	case err != nil:
		return nil, fmt.Errorf("%s: read: %w", name, err)
	case first == gzipped:
		return nil, fmt.Errorf("%s: is compressed with gzip: decompress it", name)
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
	lines   *lines
	into    *Objects
	objects int
	seen    map[string]bool
	batch   []raw // read but not parsed yet
	parsing *parsing
}

// gzipped is the first byte of input that is compressed with gzip.
const gzipped = 0x1f

// lines counts the lines of its input.
type lines struct {
	in io.Reader
	n  int // the number of the line at which reading continues
}

// Read implements io.Reader.
func (l *lines) Read(into []byte) (int, error) {
	n, err := l.in.Read(into)
	l.n += bytes.Count(into[:n], []byte{'\n'})
	return n, err
}

// firstByte returns the first byte that is not white space, without consuming it.
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

// check rejects a dump without nodes or pods.
func (r *reader) check() error {
	switch {
	case len(r.into.Nodes) == 0:
		return fmt.Errorf("%s: has no Node: must be the output of kubectl get nodes,pods -A -o yaml", r.name)
	case len(r.into.Pods) == 0:
		return fmt.Errorf("%s: has no running or pending Pod: must be the output of kubectl get nodes,pods -A -o yaml", r.name)
	}
	return nil
}

// fault returns an error about the object at where.
func (r *reader) fault(where, format string, args ...any) error {
	return fmt.Errorf("%s: %s: %s", r.name, where, fmt.Sprintf(format, args...))
}

// notJSON returns an error about input that the JSON decoder rejects at where. Input that ends early may lack objects.
func (r *reader) notJSON(where string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s:%d: ends early: %s: is not JSON: %w", r.name, r.lines.n, where, err)
	}
	return r.fault(where, "is not JSON: %v", err)
}

// raw is the text of an object.
type raw struct {
	text []byte
	yaml bool
	// where is the position in the input. listKind is the kind of the enclosing list, for items without a kind.
	where, listKind string
}

// parsed is the result of parsing a raw object.
type parsed struct {
	object any // nil for a kind that is not needed
	key    string
	where  string
	list   []byte // if it is a list: its text as JSON
	noKind []byte // if it has no kind: its text as JSON
	err    error
}

// mostBatch is the number of objects that are parsed together, in parallel.
const mostBatch = 512

// add adds one object and flushes the batch if it is full.
func (r *reader) add(o raw, waiting func(raw)) error {
	if r.objects++; r.objects > MaxObjects {
		return r.fault(o.where, "exceeds the maximum of %d objects", MaxObjects)
	}
	if r.batch = append(r.batch, o); len(r.batch) < mostBatch {
		return nil
	}
	return r.flush(waiting)
}

// parsing is a batch that is being parsed.
type parsing struct {
	batch   []raw
	results []parsed
	waiting func(raw)
	group   sync.WaitGroup
}

// flush starts to parse the batch in parallel, while the next is read, and adds the objects of the batch before. Objects
// without a kind are passed to waiting, or rejected if waiting is nil.
func (r *reader) flush(waiting func(raw)) error {
	next := &parsing{batch: r.batch, results: make([]parsed, len(r.batch)), waiting: waiting}
	r.batch = nil
	if err := r.settle(); err != nil {
		return err
	}
	workers := min(runtime.GOMAXPROCS(0), len(next.batch))
	for w := range workers {
		next.group.Go(func() {
			for i := w; i < len(next.batch); i += workers {
				next.results[i] = parse(&next.batch[i])
			}
		})
	}
	r.parsing = next
	return nil
}

// settle waits until the last batch is parsed, and adds its objects in order.
func (r *reader) settle() error {
	p := r.parsing
	if p == nil {
		return nil
	}
	r.parsing = nil // a list among the objects is a batch of its own
	p.group.Wait()
	for i := range p.results {
		if err := r.take(&p.results[i], &p.batch[i], p.waiting); err != nil {
			return err
		}
	}
	return nil
}

// finish parses what is left, and adds all objects.
func (r *reader) finish(waiting func(raw)) error {
	if err := r.flush(waiting); err != nil {
		return err
	}
	return r.settle()
}

// take adds a parsed object.
func (r *reader) take(p *parsed, o *raw, waiting func(raw)) error {
	switch {
	case p.err != nil:
		return r.fault(p.where, "%v", p.err)
	case p.list != nil:
		return r.list(p.list, o.where)
	case p.noKind != nil && waiting == nil:
		return r.fault(p.where, "kind: is required, such as Node or Pod")
	case p.noKind != nil:
		waiting(raw{text: p.noKind, where: p.where})
	case p.object == nil:
		r.into.Others++
	case r.seen[p.key]:
		return r.fault(p.where, "metadata.name: is a duplicate: each object must be unique")
	default:
		if r.seen == nil {
			r.seen = map[string]bool{}
		}
		r.seen[p.key] = true
		r.into.Add(p.object)
	}
	return nil
}

// head identifies an object.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
}

// identify returns what identifies an object, and reads no further than that: kubectl prints it first.
func identify(text []byte) (h head, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return h, errors.New("must be a JSON object")
	}
	fields := map[any]any{"apiVersion": &h.APIVersion, "kind": &h.Kind, "metadata": &h.Metadata}
	for len(fields) > 0 && d.More() {
		name, err := d.Token()
		if err != nil {
			return h, err
		}
		into, wanted := fields[name]
		if !wanted {
			into = &json.RawMessage{}
		}
		delete(fields, name)
		if err := d.Decode(into); err != nil {
			return h, fmt.Errorf("%s: %w", clip(fmt.Sprint(name)), err)
		}
	}
	return h, nil
}

// parse parses the text of an object.
func parse(o *raw) parsed {
	text := o.text
	if o.yaml {
		var err error
		if text, err = toJSON(text); err != nil {
			return parsed{where: o.where, err: err}
		}
	}
	h, err := identify(text)
	if err != nil {
		return parsed{where: o.where, err: fmt.Errorf("is not a Kubernetes object: %w", err)}
	}
	kind := cmp.Or(h.Kind, strings.TrimSuffix(o.listKind, "List"))
	switch {
	case kind == "":
		return parsed{where: o.where, noKind: text}
	case strings.HasSuffix(kind, "List"):
		return parsed{where: o.where, list: text}
	}
	where := fmt.Sprintf("%s %s", kind, strings.TrimPrefix(h.Metadata.Namespace+"/"+h.Metadata.Name, "/"))
	p := parsed{object: newObject(h.APIVersion, kind), key: where, where: where}
	if p.object == nil {
		return p
	}
	if problems := validation.IsDNS1123Subdomain(h.Metadata.Name); len(problems) > 0 {
		p.where, p.err = fmt.Sprintf("%s: %s", o.where, kind), fmt.Errorf("metadata.name: %q is not a valid name: %s", clip(h.Metadata.Name), problems[0])
		return p
	}
	if p.err = kubejson.UnmarshalCaseSensitivePreserveInts(text, p.object); p.err == nil {
		p.err = validate(p.object)
	}
	return p
}

// list adds the items of a list that is itself an item or a document.
func (r *reader) list(text []byte, where string) error {
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return r.fault(where, "is not a list: %v", err)
	}
	for i, item := range list.Items {
		if err := r.add(raw{text: item, where: fmt.Sprintf("%sitems[%d]", prefix(where), i), listKind: list.Kind}, nil); err != nil {
			return err
		}
	}
	return r.finish(nil)
}

func prefix(where string) string {
	if where == "" || where == "document 1" {
		return ""
	}
	return where + "."
}

// clip shortens text for errors.
func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}

// jsonDocuments reads JSON documents. It reads the items of lists one by one.
func (r *reader) jsonDocuments() error {
	decoder := json.NewDecoder(r.in)
	for document := 1; ; document++ {
		token, err := decoder.Token()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return r.notJSON(fmt.Sprintf("document %d", document), err)
		case token != json.Delim('{'):
			return r.fault(fmt.Sprintf("document %d", document), "is not an object: must be a List or an object")
		}
		if err := r.jsonObject(decoder, fmt.Sprintf("document %d", document)); err != nil {
			return err
		}
	}
}

// jsonObject reads the rest of an object after its opening brace. It reads items in sequence. kubectl prints the kind
// of the list after them, so items without a kind are kept until then.
func (r *reader) jsonObject(decoder *json.Decoder, where string) error {
	fields := map[string]json.RawMessage{}
	var waiting []raw
	wait := func(o raw) { waiting = append(waiting, o) }
	items := false
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return r.notJSON(where, err)
		}
		field, _ := token.(string)
		if field != "items" {
			var value json.RawMessage
			if err := decoder.Decode(&value); err != nil {
				return r.notJSON(prefix(where)+clip(field), err)
			}
			fields[field] = value
			continue
		}
		items = true
		switch token, err := decoder.Token(); {
		case err != nil:
			return r.notJSON(prefix(where)+"items", err)
		case token != json.Delim('['):
			return r.fault(prefix(where)+"items", "is not a list")
		}
		for i := 0; decoder.More(); i++ {
			var item json.RawMessage
			at := fmt.Sprintf("%sitems[%d]", prefix(where), i)
			if err := decoder.Decode(&item); err != nil {
				return r.notJSON(at, err)
			}
			if len(item) > MaxObjectBytes {
				return r.fault(at, "is larger than %d bytes", MaxObjectBytes)
			}
			if err := r.add(raw{text: item, where: at}, wait); err != nil {
				return err
			}
		}
		if err := r.finish(wait); err != nil {
			return err
		}
		if _, err := decoder.Token(); err != nil {
			return r.notJSON(where, err)
		}
	}
	if _, err := decoder.Token(); err != nil {
		return r.notJSON(where, err)
	}
	if !items {
		text, err := json.Marshal(fields)
		if err != nil {
			return r.fault(where, "%v", err)
		}
		return r.late([]raw{{text: text, where: where}}, "")
	}
	var kind string
	_ = json.Unmarshal(fields["kind"], &kind) // without it, items that have no kind are rejected
	return r.late(waiting, kind)
}

// late adds items without a kind, once the kind of their list is known.
func (r *reader) late(waiting []raw, listKind string) error {
	for _, o := range waiting {
		o.listKind = listKind
		if err := r.add(o, nil); err != nil {
			return err
		}
	}
	return r.finish(nil)
}

// newObject returns an empty object of a kind that an audit needs, nil for any other.
func newObject(apiVersion, kind string) any {
	if kind == "MachineDeployment" && strings.HasPrefix(apiVersion, "cluster.x-k8s.io/") {
		return &metav1.PartialObjectMetadata{}
	}
	for i := range kinds {
		if k := &kinds[i]; k.name == kind && (apiVersion == "" || apiVersion == k.apiVersion) {
			return k.object()
		}
	}
	return nil
}
