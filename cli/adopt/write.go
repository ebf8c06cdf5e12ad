package adopt

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"
)

// columns is the width of comments.
const columns = 110

// Write writes the NodeFleets as a stream of YAML documents that kubectl apply accepts. Comments after each NodeFleet
// list its notes, and those at the end the other notes and the steps.
func (d *Document) Write(w io.Writer) error {
	var b bytes.Buffer
	for i := range d.Items {
		if i > 0 {
			b.WriteString("---\n")
		}
		text, err := yaml.Marshal(&d.Items[i])
		if err != nil {
			return fmt.Errorf("write NodeFleet %s: %w", d.Items[i].Metadata.Name, err)
		}
		b.Write(text)
		d.writeNotes(&b, d.Items[i].Metadata.Name, "What is different:")
	}
	d.writeNotes(&b, "", "Without a NodeFleet:")
	writeSteps(&b, "How to go over, without buying twice and without losing a pod:", d.Steps)
	writeSteps(&b, "How to go back:", d.Back)
	_, err := w.Write(b.Bytes())
	return err
}

func (d *Document) writeNotes(b *bytes.Buffer, fleet, title string) {
	object := ""
	for i := range d.Notes {
		n := &d.Notes[i]
		if n.Fleet != fleet {
			continue
		}
		if title != "" {
			comment(b, "", "")
			comment(b, "", title)
			title = ""
		}
		if n.Object != object {
			comment(b, "", "")
			comment(b, "", n.Object)
			object = n.Object
		}
		comment(b, "  - ", n.head())
		comment(b, "    ", n.Difference)
		comment(b, "    To do: ", n.Action)
	}
}

// head returns the field and the value.
func (n *Note) head() string {
	if n.Value == "" {
		return n.Field
	}
	return n.Field + ": " + n.Value
}

func writeSteps(b *bytes.Buffer, title string, steps []Step) {
	if len(steps) == 0 {
		return
	}
	comment(b, "", "")
	comment(b, "", title)
	for i, s := range steps {
		comment(b, fmt.Sprintf("  %d. ", i+1), s.Text)
		for _, c := range s.Commands {
			fmt.Fprintf(b, "#        %s\n", oneLine(c)) // on one line, so that it can be copied
		}
	}
}

// oneLine returns text without line breaks and other characters that a comment of YAML cannot contain.
func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.Map(printable, text)), " ")
}

// comment writes text as comments of limited width: the first line begins with head, and further lines with as much white
// space.
func comment(b *bytes.Buffer, head, text string) {
	text = oneLine(text)
	indent := strings.Repeat(" ", len(head))
	for line := head; ; line = indent {
		rest := ""
		if room := columns - len(line); len(text) > room {
			if at := strings.LastIndexByte(text[:room+1], ' '); at > 0 {
				text, rest = text[:at], text[at+1:]
			}
		}
		b.WriteString(strings.TrimRight("# "+line+text, " ") + "\n")
		if rest == "" {
			return
		}
		text = rest
	}
}

// printable replaces what a comment of YAML cannot contain.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 || r == 0xfeff || r > 0x7f && r < 0xa0 {
		return ' '
	}
	return r
}
