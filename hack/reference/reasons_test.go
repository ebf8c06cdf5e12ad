package main

import (
	"testing"

	"supercargo.dev/supercargo/test/kit/testfile"
)

func TestThePagesOfReasonsAreThoseOfTheComments(t *testing.T) {
	events, conditions, err := reasons("../../api/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"events": events, "conditions": conditions} {
		got := testfile.Read(t, "../../docs/reference/"+name+".md")
		if string(got) != want {
			t.Errorf("docs/reference/%s.md differs from the comments: run make generate", name)
		}
	}
}
