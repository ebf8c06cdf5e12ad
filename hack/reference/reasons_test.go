package main

import (
	"os"
	"testing"
)

func TestThePagesOfReasonsAreThoseOfTheComments(t *testing.T) {
	events, conditions, err := reasons("../../api/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"events": events, "conditions": conditions} {
		got, err := os.ReadFile("../../docs/reference/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("docs/reference/%s.md differs from the comments: run make generate", name)
		}
	}
}
