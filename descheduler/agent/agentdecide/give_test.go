package agentdecide

import (
	"strings"
	"testing"

	"supercargo.dev/supercargo/descheduler/checkpoint/terms"
)

func TestWhatTheRuntimeIsTold(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Asked)
		give   bool
		refuse string // empty for none: neither is to wait
	}{
		"the checkpoint is staged":           {func(*Asked) {}, true, ""},
		"it is not staged yet":               {func(a *Asked) { a.Stage = terms.Expecting }, false, ""},
		"another action runs":                {func(a *Asked) { a.Busy = Remove }, false, ""},
		"it is asked again":                  {func(a *Asked) { a.GivenTo = "c1" }, true, ""},
		"another container has it":           {func(a *Asked) { a.GivenTo = "c0" }, false, "c0 already continues"},
		"it was removed":                     {func(a *Asked) { a.Stage = terms.Removed }, false, "has ended"},
		"nobody moves the pod":               {func(a *Asked) { a.Known = false }, false, "has ended"},
		"it is another container of the pod": {func(a *Asked) { a.Same = false }, false, "another container"},
	} {
		t.Run(name, func(t *testing.T) {
			a := Asked{Known: true, Same: true, Stage: terms.Staged, ID: "c1"}
			tc.change(&a)
			got := ForRuntime(a)
			if got.Give != tc.give || (tc.refuse == "") != (got.Refuse == "") || !strings.Contains(got.Refuse, tc.refuse) {
				t.Errorf("ForRuntime(%+v) = %+v", a, got)
			}
		})
	}
}
