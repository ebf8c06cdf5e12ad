package process

import (
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
