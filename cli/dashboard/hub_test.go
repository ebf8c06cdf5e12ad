package dashboard

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/cli/status"
)

// items returns nodes, each with a value: "a=1".
func items(values ...string) []status.Item {
	var all []status.Item
	for _, v := range values {
		all = append(all, status.Item{Section: "nodes", Key: v[:1], JSON: []byte(v[2:])})
	}
	return all
}

// told formats an update: "a=1", or "a" for a deleted item; "reset" comes first.
func told(u update) []string {
	var all []string
	if u.reset {
		all = append(all, "reset")
	}
	for _, c := range u.changes {
		text := c.key
		if c.json != nil {
			text += "=" + string(c.json)
		}
		all = append(all, text)
	}
	return all
}

func TestAReaderIsToldWhatHasChangedSinceItAsked(t *testing.T) {
	h := newHub()
	h.put(items("a=1", "b=1"))
	first := h.since(0)
	h.put(items("a=1", "b=2", "c=1")) // b changes, c is created
	second := h.since(first.version)
	h.put(items("a=1", "b=2")) // c is deleted
	third := h.since(second.version)
	steps := []struct {
		name string
		got  update
		want []string
	}{
		{"at first all", first, []string{"reset", "a=1", "b=1"}},
		{"then what has changed", second, []string{"b=2", "c=1"}},
		{"then what has gone", third, []string{"c"}},
		{"from the beginning, only what is there", h.since(first.version), []string{"b=2", "c"}},
		{"nothing if nothing has changed", h.since(third.version), nil},
		{"all again to one that knows a later version: it is another program's", h.since(third.version + 1), []string{"reset", "a=1", "b=2"}},
	}
	for _, step := range steps {
		if diff := cmp.Diff(step.want, told(step.got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestAnItemThatComesBackHasNotGone(t *testing.T) {
	h := newHub()
	h.put(items("a=1", "b=1"))
	version := h.since(0).version
	h.put(items("a=1"))
	h.put(items("a=1", "b=1"))
	if diff := cmp.Diff([]string{"b=1"}, told(h.since(version))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadersAreWokenByChangesAlone(t *testing.T) {
	h := newHub()
	h.put(items("a=1"))
	more := h.since(0).more
	h.put(items("a=1"))
	select {
	case <-more:
		t.Error("woken though nothing has changed")
	default:
	}
	h.put(items("a=2"))
	select {
	case <-more:
	default:
		t.Error("not woken by a change")
	}
}

func TestWhatIsKeptOfThatWhichHasGoneIsBounded(t *testing.T) {
	h := newHub()
	h.put(items("a=1"))
	version := h.since(0).version
	for i := range 3 * mostGone / 100 {
		var many []status.Item
		for j := range 100 {
			many = append(many, status.Item{Section: "nodes", Key: fmt.Sprintf("%d-%d", i, j), JSON: []byte("1")})
		}
		h.put(append(items("a=1"), many...))
	}
	h.put(items("a=1"))
	if len(h.gone) > mostGone {
		t.Errorf("%d items that have gone are kept, want %d at most", len(h.gone), mostGone)
	}
	if diff := cmp.Diff([]string{"reset", "a=1"}, told(h.since(version))); diff != "" {
		t.Errorf("a reader that has missed some of them is told (-want +got):\n%s", diff)
	}
}
