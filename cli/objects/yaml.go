package objects

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"
)

// document is the state of reading a YAML document.
type document struct {
	number int
	// last is the number of its last line in the input.
	last int
	// plain are its lines outside items. split means that the document has items that can be separated by lines.
	plain []byte
	split bool
	// inItems means that the current lines belong to items. item holds the lines of the current item, and items is the
	// number of items before it.
	inItems bool
	item    []byte
	items   int
	// waiting are items without a kind. The list states the kind at its end.
	waiting []raw
	// status is set while the current lines belong to the status of a pod.
	status *podStatus
}

// errTooLarge rejects input that would have to be held in memory as a whole.
var errTooLarge = fmt.Errorf("is larger than %d bytes: must be objects in the format of kubectl get -o yaml or -o json", MaxObjectBytes)

// yamlDocuments reads YAML documents. If a list has the form that kubectl prints, where each item begins with "- " at
// the beginning of a line, items are read one by one. In block style no other line of an item begins so, because
// everything that belongs to a key is indented further. Other documents are read as a whole, up to MaxObjectBytes.
func (r *reader) yamlDocuments() error {
	d := &document{number: 1}
	for n := 1; ; n++ {
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
		case len(line) > 0:
			d.last = n
			if err := r.yamlLine(d, line); err != nil {
				return err
			}
		}
		if err != nil {
			return r.endDocument(d)
		}
	}
}

// where returns the position of the current lines in the input.
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
		into, line = &d.item, d.needed(line)
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
	text[0] = ' ' // without its dash, the item is a mapping with the same indentation
	d.item = make([]byte, 0, len(text))
	d.items++
	return r.add(raw{text: text, yaml: true, where: where}, d.wait)
}

func (d *document) wait(o raw) { d.waiting = append(d.waiting, o) }

func toJSON(text []byte) ([]byte, error) {
	text, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	return text, nil
}

// errCut rejects a list that may lack objects: kubectl prints its kind after them.
var errCut = errors.New("the list ends early: it has no kind, which kubectl prints after the objects")

// endDocument adds the rest of a document.
func (r *reader) endDocument(d *document) error {
	text, err := toJSON(d.plain)
	var kind string
	if err == nil && d.split {
		kind, err = kindOf(text)
		if err == nil && kind == "" {
			return fmt.Errorf("%s:%d: %w", r.name, d.last, errCut)
		}
	}
	if err := r.endItem(d); err != nil {
		return err
	}
	if err := r.finish(d.wait); err != nil {
		return err
	}
	d.inItems = false
	switch {
	case err != nil:
		return r.fault(d.where(), "%v", err)
	case d.split:
		return r.late(d.waiting, kind)
	case bytes.Equal(text, []byte("null")):
		return nil
	case text[0] != '{':
		return r.fault(d.where(), "is not an object: must be a List or an object")
	}
	return r.late([]raw{{text: text, where: d.where()}}, "")
}

// kindOf returns the kind of a list.
func kindOf(text []byte) (string, error) {
	var list struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return "", fmt.Errorf("is not a list: %w", err)
	}
	return list.Kind, nil
}
