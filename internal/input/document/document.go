// Package document reads the documents of a YAML stream as nodes, which know their lines. JSON is YAML.
package document

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// SyntaxError says where and why a text is not valid YAML. Line is 0 if unknown.
type SyntaxError struct {
	Line    int
	Problem string
}

func (e *SyntaxError) Error() string { return e.Problem }

// Decode returns the documents, each with its root as the only content, and with a SyntaxError those before it. The line
// of a document is that of its separator, if it has one.
func Decode(text []byte) ([]*yaml.Node, *SyntaxError) {
	var documents []*yaml.Node
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return documents, nil
		case err != nil:
			return documents, syntaxError(err)
		}
		documents = append(documents, &document)
	}
}

var errorLine = regexp.MustCompile(`^line ([0-9]+): `)

func syntaxError(err error) *SyntaxError {
	e := &SyntaxError{Problem: strings.TrimPrefix(err.Error(), "yaml: ")}
	if found := errorLine.FindStringSubmatch(e.Problem); found != nil {
		e.Line, _ = strconv.Atoi(found[1])
		e.Problem = e.Problem[len(found[0]):]
	}
	e.Problem = "is not valid YAML: " + e.Problem
	return e
}
