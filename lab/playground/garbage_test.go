package playground

import (
	"runtime/debug"
	"slices"
	"testing"
)

func TestChildrenCollectTheirGarbageAsOftenAsTheUserSays(t *testing.T) {
	for _, test := range []struct {
		name, user string
		want       []string
	}{
		{"nothing said", "", []string{"A=b", "GOGC=400"}},
		{"said", "50", []string{"A=b"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(gogc, test.user)
			if got := withGCPercent([]string{"A=b"}); !slices.Equal(got, test.want) {
				t.Errorf("environment is %v, want %v", got, test.want)
			}
		})
	}
}

func TestStartingAPlaygroundHasTheProcessCollectLess(t *testing.T) {
	t.Setenv(gogc, "")
	if _, err := Start(t.Context(), Options{Dir: "/dev/null/none"}); err == nil {
		t.Fatal("a playground started in a file")
	}
	got := debug.SetGCPercent(gcPercent)
	if got != gcPercent {
		t.Errorf("garbage is collected at %d percent, want %d", got, gcPercent)
	}
}

func TestOnlyTheVersionInWhichObjectsAreStoredIsLeft(t *testing.T) {
	all, err := clusterAPIDefinitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, definition := range all {
		if definition.GetKind() != "CustomResourceDefinition" {
			continue
		}
		one := definition.DeepCopy()
		if err := dropOldVersions(one); err != nil {
			t.Fatal(err)
		}
		spec := one.Object["spec"].(map[string]any)
		versions := spec["versions"].([]any)
		if _, converts := spec["conversion"]; converts || len(versions) != 1 || versions[0].(map[string]any)["storage"] != true {
			t.Errorf("%s has %d versions, converted: %v; want the stored one alone", one.GetName(), len(versions), converts)
		}
	}
}
