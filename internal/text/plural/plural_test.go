package plural

import "testing"

func TestOneIsSingularAndAllOtherNumbersArePlural(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{Count(0, "pod"), "0 pods"},
		{Count(1, "pod"), "1 pod"},
		{Count(-1, "pod"), "-1 pods"},
		{Count(int64(2), "GPU"), "2 GPUs"},
		{Count(int32(21), "other flavor"), "21 other flavors"},
		{Count(2, "policy"), "2 policies"},
		{Count(2, "NodeClass"), "2 NodeClasses"},
		{Count(2, "box"), "2 boxes"},
		{Count(2, "batch"), "2 batches"},
		{Count(2, "crash"), "2 crashes"},
		{Count(2, "day"), "2 days"},
		{Noun(1, "machine"), "machine"},
		{Noun(3, "machine"), "machines"},
		{Form(1, "is", "are"), "is"},
		{Form(0, "is", "are"), "are"},
		{Part(1, 1, "pod"), "its pod"},
		{Part(2, 2, "pod"), "both pods"},
		{Part(3, 3, "pod"), "all 3 pods"},
		{Part(1, 2, "pod"), "1 of its 2 pods"},
	} {
		if tc.got != tc.want {
			t.Errorf("%q, want %q", tc.got, tc.want)
		}
	}
}

func TestTheLastWordOfAListFollowsAnAnd(t *testing.T) {
	for want, words := range map[string][]string{"": nil, "a": {"a"}, "a and b": {"a", "b"}, "a, b and c": {"a", "b", "c"}} {
		if got := List(words); got != want {
			t.Errorf("List(%q) = %q, want %q", words, got, want)
		}
	}
}

func TestAllOfSomeThingsAreNamed(t *testing.T) {
	for n, want := range map[int]string{1: "the only image", 2: "both images", 3: "all 3 images"} {
		if got := All(n, "image"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
