package planfile

import (
	"fmt"
	"strings"
	"testing"
)

func TestOneMoreOfAListIsSingular(t *testing.T) {
	for more, want := range map[int]string{1: "... and 1 more reason, which", 2: "... and 2 more reasons, which"} {
		var reasons []Reason
		for i := range mostLines + more {
			reasons = append(reasons, Reason{Pod: fmt.Sprint("pod-", i), Reason: fmt.Sprint("reason ", i)})
		}
		var b strings.Builder
		if printReasons(&b, "fits", "fit", reasons); !strings.Contains(b.String(), want) {
			t.Errorf("%d left out: it says\n%s\nwant %q", more, b.String(), want)
		}
		a := Alternative{}
		for i := range 3 + more {
			a.Machines = append(a.Machines, Count{Flavor: fmt.Sprint("f", i), Count: 1})
		}
		if got, want := instead(a, nil), fmt.Sprintf("1 f2, %d other flavor", more); !strings.Contains(got, want) || more == 1 && strings.HasSuffix(got, "s") {
			t.Errorf("%d left out: it says %q, want %q", more, got, want)
		}
	}
}

func TestIgnoredObjectsAreCountedByKind(t *testing.T) {
	for want, others := range map[string]map[string]int{
		"": nil,
		"\nIgnored objects that are not pods: 1 Node.\n":                               {"Node": 1},
		"\nIgnored objects that are not pods: 2 Deployments, 1 Node and 3 Services.\n": {"Service": 3, "Node": 1, "Deployment": 2},
	} {
		var b strings.Builder
		if err := (Document{Others: others}).WriteTable(&b); err != nil {
			t.Fatal(err)
		}
		if _, got, _ := strings.Cut(b.String(), "there is.\n"); got != want {
			t.Errorf("%v: it ends with %q, want %q", others, got, want)
		}
	}
}
