package jsondoc_test

import (
	"strings"
	"testing"

	"supercargo.dev/supercargo/internal/text/jsondoc"
)

func TestADocumentIsIndentedAndItsListsAreNeverNull(t *testing.T) {
	var w strings.Builder
	err := jsondoc.Write(&w, map[string][]int{"none": jsondoc.List[int](nil), "some": jsondoc.List([]int{1})})
	if want := "{\n  \"none\": [],\n  \"some\": [\n    1\n  ]\n}\n"; err != nil || w.String() != want {
		t.Errorf("%q, %v, want %q", w.String(), err, want)
	}
}
