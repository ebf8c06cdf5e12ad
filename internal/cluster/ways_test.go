package cluster

import "testing"

func TestWaysAreASetOfMethods(t *testing.T) {
	all := []Method{Migrate, Evict, Wait}
	for mask := range 8 {
		var some []Method
		for i, m := range all {
			if mask>>i&1 == 1 {
				some = append(some, m)
			}
		}
		w := WaysOf(some...)
		if (w == 0) != (len(some) == 0) {
			t.Errorf("%v is the zero value: %t", some, w == 0)
		}
		for i, m := range all {
			if in := mask>>i&1 == 1; w.Has(m) != in {
				t.Errorf("%v has %v: %t, want %t", some, m, !in, in)
			} else if w.Without(m).Has(m) || w.Without(m) != w && !in {
				t.Errorf("%v without %v is %v", some, m, w.Without(m))
			}
		}
	}
}

func TestWaysAreNamedGentlestFirst(t *testing.T) {
	for want, w := range map[string]Ways{"none": 0, "wait, migrate, evict": WaysOf(Evict, Migrate, Wait), "evict": WaysOf(Evict)} {
		if got := w.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := Method(7).String(); got != "unknown" {
		t.Errorf("a method that is none is %q", got)
	}
}
