package objects

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// document is what has been read of a document of YAML.
type document struct {
	number int
	// plain are its lines but for those of items, if it has items that can be told apart by lines.
	plain []byte
	split bool
	// inItems says that lines belong to items, item are those of the one at hand, and items is how many
	// came before.
	inItems bool
	item    []byte
	items   int
	// waiting are items that do not say their kind: the list does, at its end.
	waiting []raw
	// cut says that lines are of the status of an item, of which little is looked at.
	cut bool
}

// errTooLarge refuses what would have to be held in memory as a whole.
var errTooLarge = fmt.Errorf("is larger than %d bytes, want objects as kubectl get -o yaml or -o json prints them", MaxObjectBytes)

// yamlDocuments reads YAML. Of a list in the form that kubectl prints, in which each item begins with
// "- " at the beginning of a line, items are read one by one: in block style no other line of an item
// begins so, since all that belongs to a key is indented more. Other documents are read as a whole, up
// to MaxObjectBytes.
func (r *reader) yamlDocuments() error {
	d := &document{number: 1}
	for {
		line, err := r.in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return r.fault(d.where(), "has a line of more than %d bytes", r.in.Size())
		case err != nil && !errors.Is(err, io.EOF):
			return r.fault(d.where(), "read: %v", err)
		case bytes.HasPrefix(line, []byte("---")) && len(bytes.TrimSpace(line)) == 3:
			if err := r.endDocument(d); err != nil {
				return err
			}
			d = &document{number: d.number + 1}
		default:
			if err := r.yamlLine(d, line); err != nil {
				return err
			}
		}
		if err != nil {
			return r.endDocument(d)
		}
	}
}

// where says where in the input the lines at hand are.
func (d *document) where() string {
	at := ""
	if d.number > 1 {
		at = fmt.Sprintf("document %d", d.number)
	}
	if d.inItems {
		return fmt.Sprintf("%sitems[%d]", prefix(at), d.items)
	}
	return fmt.Sprintf("document %d", d.number)
}

func (r *reader) yamlLine(d *document, line []byte) error {
	begins := bytes.HasPrefix(line, []byte("- "))
	if d.inItems {
		switch blank := len(bytes.TrimSpace(line)) == 0; {
		case begins:
			if err := r.endItem(d); err != nil {
				return err
			}
		case !blank && line[0] != ' ' && line[0] != '#':
			if err := r.endItem(d); err != nil {
				return err
			}
			d.inItems = false
		}
	} else if bytes.Equal(bytes.TrimRight(line, " \r\n"), []byte("items:")) {
		if next, _ := r.in.Peek(2); bytes.Equal(next, []byte("- ")) {
			d.inItems, d.split = true, true
			return nil
		}
	}
	into := &d.plain
	if d.inItems {
		if into = &d.item; d.needless(line) {
			return nil
		}
	}
	if *into = append(*into, line...); len(*into) > MaxObjectBytes {
		return r.fault(d.where(), "%v", errTooLarge)
	}
	return nil
}

// endItem adds the item whose lines have been read.
func (r *reader) endItem(d *document) error {
	if len(d.item) == 0 {
		return nil
	}
	where := d.where()
	text := d.item
	text[0] = ' ' // without its dash an item is a mapping that is indented as before
	d.item = make([]byte, 0, len(text))
	d.items++
	return r.add(raw{text: text, yaml: true, where: where}, d.wait)
}

func (d *document) wait(o raw) { d.waiting = append(d.waiting, o) }

// status are the lines of an item by which its status begins, and those of it that are looked at if it is a
// pod.
var (
	status     = []byte("  status:")
	pod        = []byte("\n  kind: Pod\n")
	statusKept = [][]byte{[]byte("    phase: "), []byte("    startTime: "), []byte("    nominatedNodeName: ")}
)

// needless reports whether a line of an item is of the status of a pod and not looked at. To parse YAML
// takes longest of all, and half of a pod is its status.
func (d *document) needless(line []byte) bool {
	switch {
	case bytes.HasPrefix(line, status):
		d.cut = bytes.Contains(d.item, pod) && len(bytes.TrimSpace(line)) == len("status:")
		return false
	case d.cut && !bytes.HasPrefix(line, []byte("   ")) && len(bytes.TrimSpace(line)) > 0:
		d.cut = false
	}
	return d.cut && !slices.ContainsFunc(statusKept, func(kept []byte) bool { return bytes.HasPrefix(line, kept) })
}

func toJSON(text []byte) ([]byte, error) {
	text, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("is no YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	return text, nil
}

// endDocument adds what is left of a document.
func (r *reader) endDocument(d *document) error {
	if err := r.endItem(d); err != nil {
		return err
	}
	if err := r.flush(d.wait); err != nil {
		return err
	}
	d.inItems = false
	text, err := toJSON(d.plain)
	switch {
	case err != nil:
		return r.fault(d.where(), "%v", err)
	case !d.split && bytes.Equal(text, []byte("null")):
		return nil
	case !d.split && text[0] != '{':
		return r.fault(d.where(), "is no object, want a List or an object")
	case !d.split:
		return r.late([]raw{{text: text, where: d.where()}}, "")
	}
	var list struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return r.fault(d.where(), "is no list: %v", err)
	}
	return r.late(d.waiting, list.Kind)
}
