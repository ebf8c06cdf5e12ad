package answer

import (
	"bytes"
	"encoding/json"
	"fmt"

	"supercargo.dev/supercargo/internal/text/clip"
)

// object decodes JSON objects into the fields of one entry, one after the other. It ignores unknown fields. An answer
// may have 100,000 objects; maps and reflection would take several times as long.
type object struct {
	entry  any
	fields []field
	values [][]byte // the value of each field; nil if it is missing
}

func newObject(entry any) *object {
	o := &object{entry: entry, fields: entry.(filler).fields()}
	o.values = make([][]byte, len(o.fields))
	return o
}

// UnmarshalJSON decodes an object, and names the first bad field. null has no fields. The data is valid JSON, because
// package json has checked it.
func (o *object) UnmarshalJSON(data []byte) error {
	clear(o.values)
	if data = bytes.TrimSpace(data); string(data) != "null" {
		if data[0] != '{' {
			return fmt.Errorf("%s is not an object", clip.Cell(string(data)))
		}
		o.find(data)
	}
	counts, remembers := o.entry.(counter)
	for i, f := range o.fields {
		value := o.values[i]
		if len(value) == 0 || string(value) == "null" || string(value) == `""` {
			if _, is := f.into.(*count); is && remembers {
				counts.unsaid(f.name)
			}
			continue
		}
		if err := f.read(value); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// find locates the values of the fields. If a name occurs twice, the last one counts.
func (o *object) find(data []byte) {
	at := skipSpace(data, 1)
	for data[at] != '}' {
		end := skipValue(data, at)
		name := data[at:end]
		at = skipSpace(data, skipSpace(data, end)+1) // the colon
		end = skipValue(data, at)
		for i := range o.fields {
			if f := &o.fields[i]; len(name) == len(f.name)+2 && string(name[1:len(name)-1]) == f.name {
				o.values[i] = data[at:end]
			}
		}
		if at = skipSpace(data, end); data[at] == ',' {
			at = skipSpace(data, at+1)
		}
	}
}

// skipSpace returns the position of the next token, starting at at.
func skipSpace(data []byte, at int) int {
	for data[at] == ' ' || data[at] == '\t' || data[at] == '\n' || data[at] == '\r' {
		at++
	}
	return at
}

// skipValue returns the end of the value that starts at at.
func skipValue(data []byte, at int) int {
	depth := 0
	for {
		switch data[at] {
		case '"':
			for at++; data[at] != '"'; at++ {
				if data[at] == '\\' {
					at++
				}
			}
			at++
		case '{', '[':
			depth++
			at++
		case '}', ']':
			depth--
			at++
		case ',', ':', ' ', '\t', '\n', '\r':
			at++
		default:
			for at < len(data) && !bytes.ContainsRune([]byte(",:]} \t\n\r"), rune(data[at])) {
				at++
			}
		}
		if depth == 0 {
			return at
		}
	}
}

// read decodes the value of a field.
func (f *field) read(value []byte) error {
	switch into := f.into.(type) {
	case json.Unmarshaler:
		return into.UnmarshalJSON(value)
	case *string:
		if text, plain := plainText(value); plain {
			*into = text
			return nil
		}
	}
	return json.Unmarshal(value, f.into)
}
