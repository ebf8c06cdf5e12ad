package reasons

import (
	"strings"
	"testing"

	"supercargo.dev/supercargo/test/kit/sentences"
)

// TestEachAnswerIsGivenToItsReasonAndNotToTheReasonNextToIt has all sentences of the table: an answer is given to the text
// that the scheduler prints for its reason, and not to the nearest reason in the table that has another answer, nor for pods
// of DaemonSets. No text hides a later one.
func TestEachAnswerIsGivenToItsReasonAndNotToTheReasonNextToIt(t *testing.T) {
	said := func(at int) string {
		message := "running a plugin: 2 " + table[at].text + " of something"
		a, _ := Of(message)
		d, _ := OfDaemonSet(message)
		return a.Plugin + "\n" + a.Helps + "\n" + d.Helps
	}
	keys := map[string]string{}
	for at, e := range table {
		keys[e.text] = "what the message of a scheduler contains"
		if got, _ := Of(e.text); got != e.Answer {
			t.Errorf("%q is answered by %q, which hides %q", e.text, got.Helps, e.Helps)
		}
		if got := said(at); !strings.HasPrefix(got, e.Plugin+"\n"+e.Helps+"\n") {
			t.Errorf("%q in a message is answered by %q", e.text, got)
		}
	}
	var cases []sentences.Case
	for text := range sentences.In(t, "*.go") {
		if keys[text] != "" {
			continue
		}
		yes, no := -1, -1
		for at := range table {
			if strings.Contains(said(at), text) {
				yes = at
			}
		}
		for at := range table {
			if yes >= 0 && !strings.Contains(said(at), text) && (no < 0 || distance(at, yes) < distance(no, yes)) {
				no = at
			}
		}
		if no < 0 {
			t.Errorf("no reason gives %q, or all do", text)
			continue
		}
		cases = append(cases, sentences.Case{text, said(yes), said(no)})
	}
	used := map[string]string{}
	for text := range sentences.In(t, "*.go") {
		if keys[text] != "" {
			used[text] = keys[text]
		}
	}
	sentences.Check(t, []string{"*.go"}, cases, used)
}

func distance(a, b int) int { return max(a-b, b-a) }
