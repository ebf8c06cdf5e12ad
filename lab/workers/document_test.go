package workers

import (
	"bytes"
	"strings"
	"testing"
)

func TestOneTaskIsSingular(t *testing.T) {
	var out bytes.Buffer
	if err := (Document{Law: "law", Tasks: 1, RestartedTasks: 1, Resizes: 1}).WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 task\n", "of 1 task that was killed", "in 1 resize\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table is\n%s\nwant it to contain %q", out.String(), want)
		}
	}
}
