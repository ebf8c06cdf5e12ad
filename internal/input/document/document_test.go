package document_test

import (
	"testing"

	"supercargo.dev/supercargo/internal/input/document"
)

func TestDocumentsKnowTheirLinesAndAFaultKeepsThoseBeforeIt(t *testing.T) {
	t.Parallel()
	documents, err := document.Decode([]byte("a: 1\n---\n\n{\"b\": 2}\n"))
	if err != nil || len(documents) != 2 || documents[0].Line != 1 || documents[1].Line != 2 || documents[1].Content[0].Line != 4 {
		t.Errorf("%d documents, %v", len(documents), err)
	}
	documents, err = document.Decode([]byte("a: 1\n---\nb: [\n"))
	if len(documents) != 1 || err == nil || err.Line != 3 || err.Error() != "is not valid YAML: did not find expected node content" {
		t.Errorf("%d documents, line %d: %v", len(documents), err.Line, err)
	}
	if documents, err := document.Decode(nil); len(documents) != 0 || err != nil {
		t.Errorf("of nothing: %d documents, %v", len(documents), err)
	}
}
